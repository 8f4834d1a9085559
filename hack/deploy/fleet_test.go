package deploy

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/minifleet/minifleet/controllers"
	"github.com/minifleet/minifleet/hack/lab"
	"github.com/minifleet/minifleet/hack/lab/podrun"
)

const (
	managerNamespace = "minifleet-system"
	deploymentName   = "minifleet-controller-manager"
	// image is what is deployed; no registry is asked for it.
	image = "registry.example.org/hpc/minifleet:test"
	// patience is for what takes seconds on a machine that has nothing else to do.
	patience = 3 * time.Minute
)

// movedPorts are the flags by which the ports of the controller's container are moved to free ones of this machine.
var movedPorts = map[string]string{
	"health": "--health-probe-bind-address", "metrics": "--metrics-bind-address",
	"dashboard": "--dashboard-bind-address", "receiver": "--receiver-bind-address",
}

// fleet is a hub and a member without anything of MiniFleet, and the image.
type fleet struct {
	root, work  string
	hub, alpine *lab.Cluster
	hubConfig   *rest.Config
	onHub       client.Client
	onAlpine    client.Client
	image       podrun.Image
	rootfs      string
	// pod is what runs, if anything does; pods is how many were started.
	pod  *podrun.Pod
	pods int
}

func newFleet(t *testing.T) *fleet {
	t.Helper()
	root, err := lab.RepositoryRoot()
	if err != nil {
		t.Fatal(err)
	}
	f := &fleet{root: root, work: t.TempDir()}
	running, err := lab.Start(t.Context(), lab.Options{Dir: t.TempDir(), Env: lab.Hasty, Clusters: []lab.ClusterSpec{
		{Name: "hub", Controllers: true},
		// A run lasts until the test says otherwise. Each pod of a MiniCluster wants a node of its own.
		{Name: "alpine", PodSeconds: 3600, Nodes: []lab.Node{{Name: "alpine-0", CPU: "64", Memory: "256Gi"}, {Name: "alpine-1", CPU: "64", Memory: "256Gi"}}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = running.Kill() })
	f.hub, f.alpine = running.Cluster("hub"), running.Cluster("alpine")
	if f.hubConfig, err = f.hub.RESTConfig(); err != nil {
		t.Fatal(err)
	}
	f.onHub, f.onAlpine = clientOf(t, f.hub), clientOf(t, f.alpine)
	t.Cleanup(func() { f.kill() })
	return f
}

func clientOf(t *testing.T, cluster *lab.Cluster) client.Client {
	t.Helper()
	config, err := cluster.RESTConfig()
	if err != nil {
		t.Fatal(err)
	}
	scheme, err := controllers.NewScheme()
	if err != nil {
		t.Fatal(err)
	}
	c, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// makeImage makes the image for this machine, as people do, and unpacks it.
func (f *fleet) makeImage(t *testing.T) {
	t.Helper()
	platform, layout := "linux/"+runtime.GOARCH, filepath.Join(f.work, "layout")
	f.make(t, "image", "IMG="+image, "IMAGE_DIR="+layout, "IMAGE_PLATFORMS="+platform)
	f.rootfs = filepath.Join(f.work, "rootfs")
	var err error
	if f.image, err = podrun.Unpack(layout, platform, f.rootfs); err != nil {
		t.Fatal(err)
	}
}

// make runs a target against the hub.
func (f *fleet) make(t *testing.T, args ...string) {
	t.Helper()
	f.run(t, f.makeCommand(t, args...))
}

func (f *fleet) makeCommand(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "make", append(args, "KUBECONFIG="+f.hub.KubeconfigPath())...)
	cmd.Dir = f.root
	// What a make above this test was told is not for this one.
	cmd.Env = slices.DeleteFunc(os.Environ(), func(pair string) bool {
		return strings.HasPrefix(pair, "MAKE") || strings.HasPrefix(pair, "MFLAGS=") || strings.HasPrefix(pair, "KUBECONFIG=")
	})
	return cmd
}

// minifleet runs the command line as an administrator of the hub.
func (f *fleet) minifleet(t *testing.T, args ...string) {
	t.Helper()
	f.run(t, f.minifleetCommand(t, args...))
}

func (f *fleet) minifleetCommand(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), filepath.Join(f.root, "bin", "minifleet"), args...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+f.hub.KubeconfigPath())
	return cmd
}

func (f *fleet) run(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	output, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s\n%s\n%s", strings.Join(cmd.Args, " "), err, output, f.statuses(), f.logs())
	}
}

// start runs the container of the Deployment that is installed, as it is installed, and waits until it is ready.
func (f *fleet) start(t *testing.T) {
	t.Helper()
	deployment := &appsv1.Deployment{}
	f.get(t, client.ObjectKey{Namespace: managerNamespace, Name: deploymentName}, deployment)
	if used := deployment.Spec.Template.Spec.Containers[0].Image; used != image {
		t.Fatalf("the Deployment uses %s", used)
	}
	f.pods++
	var err error
	f.pod, err = podrun.Start(t.Context(), podrun.Options{
		Dir: filepath.Join(f.work, fmt.Sprint("pod-", f.pods)), Rootfs: f.rootfs, Image: f.image, Hub: f.hubConfig, Namespace: managerNamespace,
		Template: deployment.Spec.Template, Ports: portsOf(deployment.Spec.Template), Say: func(line string) { t.Log(line) },
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := f.pod.Ready(ctx); err != nil {
		t.Fatal(err)
	}
	if err := f.pod.Live(ctx); err != nil {
		t.Error(err)
	}
}

// portsOf are the moved ports that a template has. The port of the probes is the default of its flag.
func portsOf(template corev1.PodTemplateSpec) map[string]string {
	ports := map[string]string{}
	for _, port := range template.Spec.Containers[0].Ports {
		if flag, found := movedPorts[port.Name]; found {
			ports[port.Name] = flag
		}
	}
	return ports
}

// stop ends the container as a kubelet does.
func (f *fleet) stop(t *testing.T) {
	t.Helper()
	if err := f.pod.Stop(); err != nil {
		t.Error(err)
	}
	f.pod = nil
}

func (f *fleet) kill() {
	if f.pod != nil {
		_ = f.pod.Kill()
	}
}

func (f *fleet) logs() string {
	if f.pod == nil {
		return ""
	}
	logs, _ := f.pod.Logs()
	return "the end of the controller's log:\n" + logs[max(0, len(logs)-4000):]
}

func (f *fleet) get(t *testing.T, key client.ObjectKey, object client.Object) {
	t.Helper()
	if err := f.onHub.Get(t.Context(), key, object); err != nil {
		t.Fatal(err)
	}
}

// eventually waits until a check returns no error.
func (f *fleet) eventually(t *testing.T, check func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	var last error
	for {
		err := check(ctx)
		if err == nil {
			return
		}
		if ctx.Err() == nil {
			last = err
		}
		select {
		case <-ctx.Done():
			t.Fatalf("%v\n%s\n%s", last, f.statuses(), f.logs())
		case <-tick.C:
		}
	}
}

// statuses are what the hub says of the MiniClusters and what there is of them on the member, for a test that fails.
func (f *fleet) statuses() string {
	return kubectl(f.hub, "get", "fleetminiclusters,memberclusters", "-o", "yaml") + kubectl(f.alpine, "get", "jobs,pods", "-o", "wide")
}

func kubectl(cluster *lab.Cluster, args ...string) string {
	path, before, err := lab.Binary("kubectl")
	if err != nil {
		return err.Error()
	}
	cmd := exec.Command(path, slices.Concat(before, args, []string{"--all-namespaces", "--kubeconfig", cluster.KubeconfigPath()})...)
	output, _ := cmd.CombinedOutput()
	return string(output)
}

func errorIf(wrong bool, format string, args ...any) error {
	if wrong {
		return fmt.Errorf(format, args...)
	}
	return nil
}
