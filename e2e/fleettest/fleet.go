// Package fleettest starts what the tests of a whole fleet need: API servers, a Git server, and controllers.
package fleettest

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/minifleet/minifleet/controllers"
	"github.com/minifleet/minifleet/hack/lab"
)

// ManagerNamespace is where the controllers are.
const ManagerNamespace = "minifleet-system"

const (
	// patience is how long anything is waited for, on a machine that is very busy.
	patience = 4 * time.Minute
	poll     = 250 * time.Millisecond
)

// Fleet is what was started. It ends with the test that has started it.
type Fleet struct {
	Lab *lab.Lab
	Git *lab.GitServer
	// Root is the repository's directory, Dir one that is removed in the end.
	Root, Dir string
	// Clients are those of an administrator, by cluster.
	Clients map[string]client.Client
	// Controllers are those that were started last, by the name that they were given.
	Controllers map[string]*lab.Process
	// T is the test that has started it.
	T *testing.T
}

// Member is a cluster with one node of 32 CPUs and 256 GiB.
func Member(name string) lab.ClusterSpec {
	return lab.ClusterSpec{Name: name, PodSeconds: 1, AuditLevel: "RequestResponse", Nodes: []lab.Node{{Name: name + "-0", CPU: "32", Memory: "256Gi"}}}
}

// Start starts clusters and a Git server, and no controller.
func Start(t *testing.T, specs []lab.ClusterSpec) *Fleet {
	t.Helper()
	root, err := lab.RepositoryRoot()
	Check(t, err)
	f := &Fleet{T: t, Root: root, Dir: t.TempDir(), Clients: map[string]client.Client{}, Controllers: map[string]*lab.Process{}}
	if _, err := os.Stat(f.Binary()); err != nil {
		t.Fatalf("%v: build it with `make build`", err)
	}
	f.Lab, err = lab.Start(context.WithoutCancel(t.Context()), lab.Options{Dir: filepath.Join(f.Dir, "lab"), Clusters: specs, Env: lab.Hasty})
	Check(t, err)
	t.Cleanup(func() { _ = f.Lab.Kill() })
	f.Git, err = lab.NewGitServer(filepath.Join(f.Dir, "repositories"))
	Check(t, err)
	t.Cleanup(func() { _ = f.Git.Stop() })
	scheme, err := controllers.NewScheme()
	Check(t, err)
	for _, c := range f.Lab.Clusters() {
		config, err := c.RESTConfig()
		Check(t, err)
		config.QPS, config.UserAgent = -1, "test"
		f.Clients[c.Name()], err = client.New(config, client.Options{Scheme: scheme})
		Check(t, err)
	}
	return f
}

// Binary is the program.
func (f *Fleet) Binary() string { return filepath.Join(f.Root, "bin", "minifleet") }

// StartController starts a controller of a hub, which ends with a test, and whose log is told if that has failed.
func (f *Fleet) StartController(t *testing.T, name, hub string, args ...string) *lab.Process {
	t.Helper()
	p := &lab.Process{
		Name: "controller-" + name, Path: f.Binary(),
		Args: append([]string{
			"controller", "--kubeconfig", f.Lab.Cluster(hub).KubeconfigPath(), "--namespace", ManagerNamespace,
			"--metrics-bind-address", "0", "--health-probe-bind-address", "0", "--interval-scale", "0.2",
			"--git-allowed-cidrs", "127.0.0.0/8,::1/128",
		}, args...),
		Env:     []string{"HTTP2_READ_IDLE_TIMEOUT_SECONDS=2", "HTTP2_PING_TIMEOUT_SECONDS=2"},
		PidsDir: filepath.Join(f.Dir, "pids"), LogsDir: filepath.Join(f.Dir, "logs"),
	}
	Check(t, p.Start())
	f.Controllers[name] = p
	t.Cleanup(func() {
		_ = p.Kill()
		if t.Failed() {
			t.Logf("end of the log of %s:\n%s", p.Name, p.LogTail())
		}
	})
	return p
}

// Check ends the test if there is an error.
func Check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Await waits until nothing is missing any more, for 4 minutes at most.
func Await(t *testing.T, what string, missing func() error) {
	t.Helper()
	var err error
	for until := time.Now().Add(patience); time.Now().Before(until); time.Sleep(poll) {
		if err = missing(); err == nil {
			return
		}
	}
	t.Fatalf("%s: %v", what, err)
}
