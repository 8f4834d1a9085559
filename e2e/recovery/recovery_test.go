package recovery

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	fluxv1alpha2 "github.com/minifleet/minifleet/api/flux/v1alpha2"
	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/hack/lab"
)

var (
	held   = map[string]string{lab.AskHold: "true"}
	brief  = map[string]string{lab.AskSeconds: "0"}
	longer = map[string]string{lab.AskSeconds: "2"}
	broken = map[string]string{lab.AskSeconds: "0", lab.AskExitCode: "3"}
)

// early is what is pushed first, and what becomes of it.
var early = map[string]map[string]string{"done": brief, "held": held, "failed": broken}

var earlyStates = map[string]v1alpha1.State{"done": v1alpha1.StateSucceeded, "held": v1alpha1.StateRunning, "failed": v1alpha1.StateFailed}

// byHand are those that are in no repository.
var byHandStates = map[string]v1alpha1.State{"by-hand": v1alpha1.StateSucceeded, "suspended": v1alpha1.StateSuspended}

// large is a push that takes longer than a hub lives.
const large = 60

func largePush() (files map[string]map[string]string, states map[string]v1alpha1.State) {
	files, states = map[string]map[string]string{}, map[string]v1alpha1.State{}
	for i := range large {
		name := fmt.Sprintf("run-%02d", i)
		files[name], states[name] = longer, v1alpha1.StateSucceeded
	}
	return files, states
}

func (f *fleet) byHand(t *testing.T, hub, namespace string) {
	t.Helper()
	for name := range byHandStates {
		obj := &v1alpha1.FleetMiniCluster{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
		obj.Spec.PlacementRef, obj.Spec.Suspend = &v1alpha1.LocalReference{Name: "any"}, name == "suspended"
		obj.Spec.MiniCluster = fluxv1alpha2.MiniClusterSpec{Size: 1, Containers: []fluxv1alpha2.MiniClusterContainer{{Image: "example.org/app", Command: "true"}}}
		obj.Spec.MiniCluster.Pod.Annotations = brief
		check(t, f.Clients[hub].Create(t.Context(), obj))
	}
}

func together(all ...map[string]v1alpha1.State) map[string]v1alpha1.State {
	out := map[string]v1alpha1.State{}
	for _, states := range all {
		maps.Copy(out, states)
	}
	return out
}

// begin makes a fleet on the old hub, with runs that have ended in every way, and live ones.
func (f *fleet) begin(t *testing.T, namespace string) {
	t.Helper()
	f.wipe(t, oldHub)
	f.wipe(t, newHub)
	t.Cleanup(func() { f.clear(t, namespace) })
	f.found(t, oldHub, namespace)
	f.source(t, oldHub, namespace)
	f.byHand(t, oldHub, namespace)
	f.push(t, namespace, early)
	f.start(t, oldHub)
	f.awaitStates(t, oldHub, namespace, together(earlyStates, byHandStates))
}

// withoutBackup carries over what docs/recovery.md has people keep who have no backup: the identity, and the members with their
// credentials; and what makes Git be applied again.
func (f *fleet) withoutBackup(t *testing.T, namespace string) {
	t.Helper()
	before := f.identity(t, oldHub)
	f.found(t, newHub, namespace)
	check(t, f.Clients[newHub].Create(t.Context(), &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: managerNamespace, Name: v1alpha1.FleetConfigMap},
		Data:       map[string]string{"id": before["id"], "epoch": "2"},
	}))
	var source v1alpha1.GitSource
	check(t, f.Clients[oldHub].Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: "fleet"}, &source))
	check(t, f.Clients[newHub].Create(t.Context(), &v1alpha1.GitSource{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "fleet"}, Spec: source.Spec}))
}

// Each part has a fleet of its own, since both mostly wait.
func TestRecovery(t *testing.T) {
	for name, part := range map[string]func(f *fleet, t *testing.T){"of a fleet that runs": (*fleet).inPushes, "of a fleet that has run": (*fleet).withoutPushes} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			part(startFleet(t), t)
		})
	}
}

func (f *fleet) inPushes(t *testing.T) {
	for name, c := range map[string]struct {
		restore func(t *testing.T, namespace, today, old string)
		lost    []string // which nobody has
	}{
		"today's backup": {func(t *testing.T, _, today, _ string) { f.mustCLI(t, newHub, "restore", "-f", today) }, nil},
		"an old backup":  {func(t *testing.T, _, _, old string) { f.mustCLI(t, newHub, "restore", "-f", old) }, nil},
		"no backup":      {func(t *testing.T, namespace, _, _ string) { f.withoutBackup(t, namespace) }, []string{"by-hand", "suspended"}},
	} {
		t.Run("a hub is lost in the middle of a large push, and another is made from "+name, func(t *testing.T) {
			namespace := "team-" + strings.NewReplacer(" ", "-", "'", "").Replace(name)
			f.lostInAPush(t, namespace, c.restore, c.lost)
		})
	}
}

func (f *fleet) withoutPushes(t *testing.T) {
	t.Run("the document is followed word for word", f.documented)
	t.Run("objects come back without a status, as Velero leaves them", f.withoutStatus)
	t.Run("the same hub loses all objects and is restored", f.sameHub)
	t.Run("what may not be restored is refused, and nothing is changed", f.refusals)
	t.Run("many objects", f.many)
}

func (f *fleet) lostInAPush(t *testing.T, namespace string, restore func(t *testing.T, namespace, today, old string), lost []string) {
	f.begin(t, namespace)
	old, today := filepath.Join(t.TempDir(), "old.yaml"), filepath.Join(t.TempDir(), "today.yaml")
	f.mustCLI(t, oldHub, "backup", "--include-secrets", "-o", old)
	files, states := largePush()
	f.push(t, namespace, files)
	f.awaitRan(t, namespace, large/4)
	f.mustCLI(t, oldHub, "backup", "--include-secrets", "-o", today)
	f.awaitRan(t, namespace, large/2)
	f.kill(t, oldHub)
	if n := len(f.ran(t, namespace)); n >= large {
		t.Fatalf("%d have run before the hub was lost: it was not in the middle of the push", n)
	}

	restore(t, namespace, today, old)
	f.start(t, newHub)
	f.awaitMembers(t, newHub, v1alpha1.ReasonConnected)
	want := together(earlyStates, byHandStates, states)
	for _, name := range lost {
		delete(want, name)
	}
	f.awaitStates(t, newHub, namespace, want)
	ran := f.ran(t, namespace)
	onlyOnce(t, ran, append(slices.Collect(maps.Keys(files)), "done", "held", "failed", "by-hand")...)
	if len(ran["suspended"]) > 0 {
		t.Error("what is suspended ran")
	}
	if epoch := f.identity(t, newHub)["epoch"]; epoch != "2" {
		t.Errorf("epoch %s", epoch)
	}

	f.start(t, oldHub)
	f.awaitMembers(t, oldHub, v1alpha1.ReasonFenced)
	f.push(t, namespace, map[string]map[string]string{"after": brief})
	f.awaitStates(t, newHub, namespace, together(want, map[string]v1alpha1.State{"after": v1alpha1.StateSucceeded}))
	onlyOnce(t, f.ran(t, namespace), "after")
}

// awaitRan waits until so many have run.
func (f *fleet) awaitRan(t *testing.T, namespace string, n int) {
	t.Helper()
	await(t, fmt.Sprintf("%d have run", n), func() error {
		if ran := len(f.ran(t, namespace)); ran < n {
			return fmt.Errorf("%d", ran)
		}
		return nil
	})
}

// sameHub has all objects of a hub be deleted, and restored there, with and without Secrets in the backup.
func (f *fleet) sameHub(t *testing.T) {
	const namespace = "team-same"
	f.begin(t, namespace)
	f.kill(t, oldHub)
	file := filepath.Join(t.TempDir(), "backup.yaml")
	f.mustCLI(t, oldHub, "backup", "-o", file)
	f.noKeyIn(t, file)
	f.wipe(t, oldHub)

	out := f.mustCLI(t, oldHub, "restore", "-f", file)
	for _, want := range []string{"epoch raised to 2", "GitSource team-same/fleet: created", "still missing: Secret minifleet-system/alpine, for MemberCluster alpine"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	before := f.dump(t, oldHub)
	if out = f.mustCLI(t, oldHub, "restore", "-f", file); !strings.Contains(out, "epoch stays 2") || strings.Contains(out, ": created") {
		t.Errorf("the second time:\n%s", out)
	}
	if after := f.dump(t, oldHub); after != before {
		t.Error("the second time something was changed")
	}
	for _, member := range memberNames {
		check(t, f.Clients[oldHub].Create(t.Context(), f.kubeconfigOf(member)))
	}
	f.start(t, oldHub)
	want := together(earlyStates, byHandStates)
	f.awaitMembers(t, oldHub, v1alpha1.ReasonConnected)
	f.awaitStates(t, oldHub, namespace, want)
	f.push(t, namespace, map[string]map[string]string{"after": brief})
	f.awaitStates(t, oldHub, namespace, together(want, map[string]v1alpha1.State{"after": v1alpha1.StateSucceeded}))
	onlyOnce(t, f.ran(t, namespace), "done", "held", "failed", "by-hand", "after")

	var ns corev1.Namespace
	check(t, f.Clients[oldHub].Get(t.Context(), client.ObjectKey{Name: namespace}, &ns))
	if ns.Labels["team"] != "md" || ns.Annotations[v1alpha1.AnnotationMaxPriority] != "7" {
		t.Errorf("namespace %v %v", ns.Labels, ns.Annotations)
	}
	// What Git no longer has goes, which shows that the source knows its objects.
	clone := filepath.Join(f.Dir, "clones", namespace)
	check(t, os.Remove(filepath.Join(clone, "after.yaml")))
	f.push(t, namespace, nil)
	f.awaitStates(t, oldHub, namespace, want)
}

// noKeyIn fails where anything of the members' kubeconfigs, or a CURVE key, is in a file.
func (f *fleet) noKeyIn(t *testing.T, file string) {
	t.Helper()
	content, err := os.ReadFile(file)
	check(t, err)
	for _, word := range []string{"client-key-data", "kind: Secret\n", "curve.pub", "BEGIN", "LS0tLS1CRUdJTi"} {
		if strings.Contains(string(content), word) {
			t.Errorf("%q is in the file", word)
		}
	}
	info, err := os.Stat(file)
	check(t, err)
	if info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v", info.Mode())
	}
}

// dump is all of MiniFleet that a hub has, with resource versions.
func (f *fleet) dump(t *testing.T, hub string) string {
	t.Helper()
	var b strings.Builder
	for _, list := range []client.ObjectList{&v1alpha1.GitSourceList{}, &v1alpha1.FleetMiniClusterList{}, &v1alpha1.PlacementList{}, &v1alpha1.MemberClusterList{}, &corev1.SecretList{}, &corev1.NamespaceList{}} {
		check(t, f.Clients[hub].List(t.Context(), list))
		list.SetResourceVersion("")
		check(t, json.NewEncoder(&b).Encode(list))
	}
	var cm corev1.ConfigMap
	err := f.Clients[hub].Get(t.Context(), client.ObjectKey{Namespace: managerNamespace, Name: v1alpha1.FleetConfigMap}, &cm)
	check(t, client.IgnoreNotFound(err))
	fmt.Fprintf(&b, "%v\n", cm.Data)
	return b.String()
}

// refusals tries what may not be restored, with a controller that leads by its lease.
func (f *fleet) refusals(t *testing.T) {
	const namespace = "team-refused"
	f.begin(t, namespace)
	whole := filepath.Join(t.TempDir(), "backup.yaml")
	f.mustCLI(t, oldHub, "backup", "--include-secrets", "-o", whole)
	content, err := os.ReadFile(whole)
	check(t, err)
	f.kill(t, oldHub)
	edited := func(name string, edit func(string) string) string {
		path := filepath.Join(t.TempDir(), name)
		check(t, os.WriteFile(path, []byte(edit(string(content))), 0o600))
		return path
	}
	damaged := edited("damaged", func(s string) string { return strings.Replace(s, "size: 1", "size: 2", 1) })
	short := edited("short", func(s string) string { return s[:len(s)/2] })
	refuse := func(what, file string, code int, want string, args ...string) {
		t.Helper()
		before := f.dump(t, oldHub)
		got, out := f.cli(oldHub, append([]string{"restore", "-f", file}, args...)...)
		if got != code || !strings.Contains(out, want) {
			t.Errorf("%s: exit code %d\n%s", what, got, out)
		}
		if f.dump(t, oldHub) != before {
			t.Errorf("%s: something was changed", what)
		}
	}
	refuse("damaged", damaged, 2, "damaged")
	refuse("half of it", short, 2, "damaged")

	leading := f.start(t, oldHub, "--leader-elect")
	await(t, "the controller leads", func() error {
		code, out := f.cli(oldHub, "check")
		if !strings.Contains(out, "is active") {
			return fmt.Errorf("%d %s", code, out)
		}
		return nil
	})
	f.push(t, namespace, map[string]map[string]string{"newer": brief})
	f.awaitStates(t, oldHub, namespace, together(earlyStates, byHandStates, map[string]v1alpha1.State{"newer": v1alpha1.StateSucceeded}))
	f.atRest(t, oldHub)
	refuse("a running controller", whole, 1, "is active on the hub")
	check(t, leading.Stop())

	done := &v1alpha1.FleetMiniCluster{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "done"}}
	check(t, f.Clients[oldHub].Patch(t.Context(), done, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"annotations":{"minifleet.dev/hold":"true"}}}`))))
	refuse("newer objects", whole, 1, "FleetMiniCluster team-refused/done")
	refuse("a dry run", whole, 0, "dry run", "--dry-run", "--existing", "replace")

	cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: managerNamespace, Name: v1alpha1.FleetConfigMap}}
	check(t, f.Clients[oldHub].Patch(t.Context(), cm, client.RawPatch(types.MergePatchType, []byte(`{"data":{"id":"another"}}`))))
	refuse("another fleet's", whole, 1, `the hub is of fleet "another"`)
}

// atRest waits until a hub writes nothing any more.
func (f *fleet) atRest(t *testing.T, hub string) {
	t.Helper()
	before := ""
	await(t, hub+" writes nothing", func() error {
		now := f.dump(t, hub)
		if now != before {
			before = now
			return errors.New("it has written")
		}
		return nil
	})
}
