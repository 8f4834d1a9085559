package upgrade

import (
	"context"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/controllers"
	"github.com/minifleet/minifleet/hack/lab"
)

const (
	managerNamespace = "minifleet-system"
	hubAccount       = "system:serviceaccount:" + managerNamespace + ":minifleet-controller-manager"
	memberAccount    = "system:serviceaccount:minifleet-member:minifleet-member"
)

var memberNames = []string{"alpine", "basalt"}

// fleet is a hub, two members and a Git server, on which releases are installed.
type fleet struct {
	*gomega.WithT
	t       *testing.T
	dir     string
	lab     *lab.Lab
	hub     client.Client
	members map[string]client.Client
	audits  map[string]*lab.AuditReader
	git     *lab.GitServer
	// controllers that run, by name of the release.
	controllers map[string]*controller
}

// controller is a release that runs.
type controller struct {
	*lab.Process
	probes string // HOST:PORT of /readyz
}

func newFleet(t *testing.T) *fleet {
	t.Helper()
	f := &fleet{WithT: gomega.NewWithT(t), t: t, dir: t.TempDir(), members: map[string]client.Client{}, controllers: map[string]*controller{}}
	f.SetDefaultEventuallyTimeout(90 * time.Second)
	f.SetDefaultEventuallyPollingInterval(100 * time.Millisecond)
	specs := []lab.ClusterSpec{{Name: "hub", Controllers: true}}
	for _, name := range memberNames {
		specs = append(specs, lab.ClusterSpec{Name: name, PodSeconds: 1, Nodes: []lab.Node{{Name: name, CPU: "16", Memory: "64Gi"}}})
	}
	var err error
	f.lab, err = lab.Start(context.WithoutCancel(t.Context()), lab.Options{
		Dir: filepath.Join(f.dir, "lab"), Clusters: specs, Env: lab.Hasty, Progress: func(s string) { t.Log(s) },
	})
	f.Expect(err).NotTo(gomega.HaveOccurred())
	t.Cleanup(func() {
		f.report()
		for _, c := range f.controllers {
			_ = c.Kill()
		}
		_ = f.lab.Kill()
	})
	f.audits = map[string]*lab.AuditReader{}
	for _, c := range f.lab.Clusters() {
		f.audits[c.Name()] = &lab.AuditReader{Path: c.AuditLog()}
	}
	f.hub = f.client("hub")
	for _, name := range memberNames {
		f.members[name] = f.client(name)
	}
	f.git, err = lab.NewGitServer(filepath.Join(f.dir, "repositories"))
	f.Expect(err).NotTo(gomega.HaveOccurred())
	t.Cleanup(func() { _ = f.git.Stop() })
	return f
}

// report tells what the controllers have logged last where the test has failed.
func (f *fleet) report() {
	if !f.t.Failed() {
		return
	}
	for _, c := range f.controllers {
		f.t.Log(c.Name + ": " + c.LogTail())
	}
	f.t.Log(f.kubectl("hub", "get", "fmc,gs,mcl", "-A", "-o", "wide"))
}

func (f *fleet) client(cluster string) client.Client {
	f.t.Helper()
	config, err := f.lab.Cluster(cluster).RESTConfig()
	f.Expect(err).NotTo(gomega.HaveOccurred())
	config.UserAgent = "test"
	scheme, err := controllers.NewScheme()
	f.Expect(err).NotTo(gomega.HaveOccurred())
	out, err := client.New(config, client.Options{Scheme: scheme})
	f.Expect(err).NotTo(gomega.HaveOccurred())
	return out
}

// kubectl acts as an administrator of a cluster.
func (f *fleet) kubectl(cluster string, args ...string) string {
	f.t.Helper()
	path, before, err := lab.Binary("kubectl")
	f.Expect(err).NotTo(gomega.HaveOccurred())
	return f.run("", path, slices.Concat(before, []string{"--kubeconfig", f.lab.Cluster(cluster).KubeconfigPath()}, args)...)
}

func (f *fleet) run(dir, name string, args ...string) string {
	f.t.Helper()
	cmd := exec.Command(name, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null")
	out, err := cmd.CombinedOutput()
	f.Expect(err).NotTo(gomega.HaveOccurred(), "%s %s: %s", name, strings.Join(args, " "), out)
	return string(out)
}

// applyCRDs and applyAll are the two steps of an upgrade before the new program starts.
func (f *fleet) applyCRDs(r *release) {
	f.t.Helper()
	f.kubectl("hub", "apply", "--server-side", "-k", filepath.Join(r.tree, "config", "crd"))
	f.kubectl("hub", "wait", "--for=condition=Established", "crd", "--all", "--timeout=60s")
}

func (f *fleet) applyAll(r *release) {
	f.t.Helper()
	f.kubectl("hub", "apply", "--server-side", "-k", filepath.Join(r.tree, "config", "default"))
}

// join gives credentials of both members, as a release wants them, to the hub.
func (f *fleet) join(r *release) {
	f.t.Helper()
	for _, name := range memberNames {
		for _, part := range []string{"policy", "cluster"} {
			f.kubectl(name, "apply", "--server-side", "-k", filepath.Join(r.tree, "config", "member", part))
		}
		kubeconfig, err := f.lab.Cluster(name).KubeconfigFor(memberAccount)
		f.Expect(err).NotTo(gomega.HaveOccurred())
		f.create(&corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: managerNamespace, Name: name},
			Data:       map[string][]byte{v1alpha1.KubeconfigKey: kubeconfig},
		})
		f.create(&v1alpha1.MemberCluster{
			ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"site": name}},
			Spec:       v1alpha1.MemberClusterSpec{Namespaces: v1alpha1.AllNamespaces(), KubeconfigSecretRef: v1alpha1.LocalReference{Name: name}},
		})
	}
}

func (f *fleet) create(object client.Object) {
	f.t.Helper()
	f.Expect(f.hub.Create(f.t.Context(), object)).To(gomega.Succeed())
}

// start starts the program of a release with the rights and the arguments of its Deployment, and waits until it is ready.
// Like the pod of a rolling update it then waits for the lease of the one before.
func (f *fleet) start(r *release) {
	f.t.Helper()
	kubeconfig, err := f.lab.Cluster("hub").KubeconfigFor(hubAccount)
	f.Expect(err).NotTo(gomega.HaveOccurred())
	path := filepath.Join(f.dir, r.name+".kubeconfig")
	f.Expect(os.WriteFile(path, kubeconfig, 0o600)).To(gomega.Succeed())
	metrics, err := lab.FreeAddress()
	f.Expect(err).NotTo(gomega.HaveOccurred())
	probes, err := lab.FreeAddress()
	f.Expect(err).NotTo(gomega.HaveOccurred())
	args := slices.Concat(f.deploymentArgs(), []string{"--kubeconfig", path, "--namespace", managerNamespace,
		"--metrics-bind-address", metrics, "--health-probe-bind-address", probes,
		"--interval-scale", "0.2", "--git-allowed-cidrs", "127.0.0.0/8,::1/128"})
	c := &controller{probes: probes, Process: &lab.Process{
		Name: "controller-" + r.name, Path: r.binary, Args: args,
		PidsDir: filepath.Join(f.dir, "pids"), LogsDir: filepath.Join(f.dir, "logs"),
	}}
	f.Expect(c.Start()).To(gomega.Succeed())
	f.controllers[r.name] = c
	f.Eventually(func() string { return get("http://" + probes + "/readyz") }).Should(gomega.Equal("200 OK ok"), c.LogTail)
}

// deploymentArgs are the arguments that the Deployment on the hub gives the controller.
func (f *fleet) deploymentArgs() []string {
	f.t.Helper()
	args := strings.Fields(f.kubectl("hub", "-n", managerNamespace, "get", "deployment", "minifleet-controller-manager",
		"-o", "jsonpath={.spec.template.spec.containers[0].args[*]}"))
	f.Expect(args).To(gomega.ContainElement("controller"))
	return args
}

// replace is a rolling update: the new program is ready before the old one is told to end, and takes over its lease.
func (f *fleet) replace(old, r *release) {
	f.t.Helper()
	before := f.leader()
	f.start(r)
	f.Expect(f.leader()).To(gomega.Equal(before), "%s leads although %s runs", r.name, old.name)
	f.Expect(f.controllers[old.name].Stop()).To(gomega.Succeed())
	f.Eventually(f.leader).ShouldNot(gomega.Or(gomega.BeEmpty(), gomega.Equal(before)))
}

func (f *fleet) leader() string {
	return f.kubectl("hub", "-n", managerNamespace, "get", "lease", "controller.minifleet.dev", "-o", "jsonpath={.spec.holderIdentity}")
}

func get(url string) string {
	response, err := http.Get(url)
	if err != nil {
		return err.Error()
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return err.Error()
	}
	return response.Status + " " + string(body)
}
