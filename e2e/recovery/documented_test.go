package recovery

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/hack/lab"
)

// step is a block of commands in docs/recovery.md, below a comment with its name.
type step struct{ name, commands string }

var marked = regexp.MustCompile("(?m)^ *<!-- step: ([a-z-]+) -->\n *```sh\n((?s:.*?))^ *```$")

// stepsOf are all blocks of the document, in its order.
func stepsOf(t *testing.T, document string) []step {
	t.Helper()
	var out []step
	for _, m := range marked.FindAllStringSubmatch(document, -1) {
		out = append(out, step{m[1], m[2]})
	}
	if comments := strings.Count(document, "<!-- step: "); comments != len(out) {
		t.Fatalf("%d comments, and %d of them are before a block", comments, len(out))
	}
	return out
}

// documented runs all steps of the document, in its order, and does between them what it has people do.
func (f *fleet) documented(t *testing.T) {
	const namespace = "team-documented"
	text, err := os.ReadFile(filepath.Join(f.Root, "docs", "recovery.md"))
	check(t, err)
	dir := t.TempDir()
	check(t, os.Symlink(filepath.Join(f.Root, "config"), filepath.Join(dir, "config")))
	f.begin(t, namespace)
	want := together(earlyStates, byHandStates)
	hub := oldHub
	before, after := map[string]func(){}, map[string]func(){}
	after["keep-secrets"] = func() { // the hub is lost
		f.kill(t, oldHub)
		hub = newHub
	}
	before["members"] = func() {
		f.deploy(t, newHub)
		f.start(t, newHub)
		f.awaitMembers(t, newHub, v1alpha1.ReasonConnected)
		f.awaitStates(t, newHub, namespace, want)
	}
	after["stop"] = func() {
		f.follow(t, newHub)
		f.lose(t, newHub, namespace, "by-hand", "held")
	}
	after["restore-missing"] = func() {
		if states, err := f.states(t.Context(), newHub, namespace); err != nil || len(states) != len(want) {
			t.Fatalf("%v %v", err, states)
		}
	}
	after["start"] = func() {
		f.follow(t, newHub)
		f.awaitMembers(t, newHub, v1alpha1.ReasonConnected)
		f.awaitStates(t, newHub, namespace, want)
	}
	before["velero"] = func() {
		f.kill(t, newHub)
		cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: managerNamespace, Name: v1alpha1.FleetConfigMap}}
		check(t, f.Clients[newHub].Patch(t.Context(), cm, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"velero.io/restore-name":"nightly"}}}`))))
	}
	after["velero"] = func() {
		if epoch := f.identity(t, newHub)["epoch"]; epoch != "4" {
			t.Errorf("epoch %s", epoch)
		}
		f.start(t, newHub)
		f.awaitMembers(t, newHub, v1alpha1.ReasonConnected)
	}
	var names []string
	for _, s := range stepsOf(t, string(text)) {
		names = append(names, s.name)
		if do := before[s.name]; do != nil {
			do()
		}
		t.Logf("%s on %s:\n%s\n%s", s.name, hub, s.commands, f.shell(t, hub, dir, s.commands))
		if do := after[s.name]; do != nil {
			do()
		}
	}
	if got, want := strings.Join(names, " "), "keep keep-secrets kinds rebuild-dry rebuild-hub members stop restore-missing start velero"; got != want {
		t.Errorf("the document has the steps %s; the test knows %s", got, want)
	}
	f.push(t, namespace, map[string]map[string]string{"after": brief})
	f.awaitStates(t, newHub, namespace, together(want, map[string]v1alpha1.State{"after": v1alpha1.StateSucceeded}))
	onlyOnce(t, f.ran(t, namespace), "done", "held", "failed", "by-hand", "after")
}

// shell runs commands with kubectl and minifleet, which must all succeed.
func (f *fleet) shell(t *testing.T, hub, dir, commands string) string {
	t.Helper()
	path, before, err := lab.Binary("kubectl")
	check(t, err)
	script := "set -eu -o pipefail\nkubectl() { '" + strings.Join(append([]string{path}, before...), "' '") + "' \"$@\"; }\nminifleet() { '" + f.Binary() + "' \"$@\"; }\n" + commands
	cmd := exec.Command("bash", "-c", script)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "KUBECONFIG="+f.Lab.Cluster(hub).KubeconfigPath())
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s\n%v %s", commands, err, out)
	}
	return string(out)
}

// deploy makes the Deployment of a hub, whose pods nobody runs there: the test is who does what it says.
func (f *fleet) deploy(t *testing.T, hub string) {
	t.Helper()
	labels := map[string]string{"app.kubernetes.io/name": "minifleet", "app.kubernetes.io/component": "controller"}
	check(t, f.Clients[hub].Create(t.Context(), &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: managerNamespace, Name: "minifleet-controller-manager"},
		Spec: appsv1.DeploymentSpec{Replicas: ptr.To[int32](1), Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "controller", Image: "minifleet"}}},
		}},
	}))
	code, out := f.cli(hub, "restore", "-f", f.anyBackup(t, hub))
	if code != 1 || !strings.Contains(out, "scale deployment minifleet-controller-manager --replicas 0") {
		t.Errorf("restored beside a Deployment: %d %s", code, out)
	}
}

func (f *fleet) anyBackup(t *testing.T, hub string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "any")
	f.mustCLI(t, hub, "backup", "-o", path)
	return path
}

// follow has the controller run as the Deployment says.
func (f *fleet) follow(t *testing.T, hub string) {
	t.Helper()
	var d appsv1.Deployment
	check(t, f.Clients[hub].Get(t.Context(), client.ObjectKey{Namespace: managerNamespace, Name: "minifleet-controller-manager"}, &d))
	f.kill(t, hub)
	if ptr.Deref(d.Spec.Replicas, 1) > 0 {
		f.start(t, hub)
	}
}

// lose has objects vanish without what they have on members.
func (f *fleet) lose(t *testing.T, hub, namespace string, names ...string) {
	t.Helper()
	for _, name := range names {
		obj := &v1alpha1.FleetMiniCluster{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
		check(t, errors.Join(
			f.Clients[hub].Patch(t.Context(), obj, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))),
			f.Clients[hub].Delete(t.Context(), obj)))
	}
}
