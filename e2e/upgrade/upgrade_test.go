package upgrade

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	fluxv1alpha2 "github.com/minifleet/minifleet/api/flux/v1alpha2"
	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/hack/lab"
)

// namespace is that of all runs, on the hub and on the members.
const namespace = "research"

// A hub with runs in every state is upgraded from the previous release and rolled back. Nothing is repeated, moved, lost
// or deleted, and each version takes up the runs that the other has begun.
func TestUpgradeAndRollback(t *testing.T) {
	old := previous(t)
	now := current(t)
	f := newFleet(t)

	t.Logf("installing %s", old.name)
	f.applyCRDs(old)
	f.applyAll(old)
	f.start(old)
	f.join(old)
	clone := f.makeRuns()
	f.expectStates(map[string]v1alpha1.State{
		"done": "Succeeded", "failed": "Failed", "live": "Running", "single": "Running",
		"suspended": "Suspended", "paused": "Suspended", "queued": "Waiting",
	})
	f.expectBothProgramsRead(old, now)
	f.reconcileAll(clone, "installed")
	before := f.snapshot()
	since := len(f.audit("hub"))

	t.Logf("upgrading from %s", old.name)
	f.applyCRDs(now)
	f.reconcileAll(clone, "with the CRDs of the next release")
	f.expectSame(before)
	f.applyAll(now)
	f.replace(old, now)
	f.reconcileAll(clone, "upgraded")
	f.expectSame(before)
	f.expectBothProgramsRead(old, now)
	f.Expect(f.refused("hub", since)).To(gomega.BeEmpty(), "rights that the controller does not have")

	t.Log("going on with the runs")
	f.create(onAlpine("fresh", map[string]string{lab.AskSeconds: "0"}, "1"))
	f.create(onAlpine("next", map[string]string{lab.AskHold: "true"}, "10"))
	f.release("single")
	f.expectStates(map[string]v1alpha1.State{"single": "Succeeded", "queued": "Running", "fresh": "Succeeded", "next": "Waiting"})
	f.reconcileAll(clone, "after further runs")
	before = f.snapshot()

	t.Logf("rolling back to %s", old.name)
	f.applyAll(old)
	f.replace(now, old)
	f.reconcileAll(clone, "rolled back")
	f.expectSame(before)

	t.Log("finishing all runs")
	f.suspend("suspended", false)
	f.suspend("paused", false)
	want := map[string]v1alpha1.State{"failed": "Failed"}
	for _, name := range []string{"done", "live", "single", "suspended", "paused", "queued", "fresh", "next"} {
		want[name] = "Succeeded"
	}
	f.Eventually(func() string {
		f.release("live", "suspended", "paused", "queued", "next")
		return gocmp.Diff(want, f.states())
	}).Should(gomega.BeEmpty())
	created := map[string]int{}
	for name := range want {
		created[name] = f.jobsCreated(name)
	}
	f.Expect(gocmp.Diff(map[string]int{
		"done": 1, "failed": 1, "live": 2, "single": 1, "suspended": 1, "paused": 1, "queued": 1, "fresh": 1, "next": 1,
	}, created)).To(gomega.BeEmpty(), "Jobs created on both members together, by name")
}

// makeRuns makes runs in every state, two of them from Git, and returns the clone of the repository.
func (f *fleet) makeRuns() string {
	f.t.Helper()
	f.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}})
	f.create(&v1alpha1.Placement{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "one"}, Spec: v1alpha1.PlacementSpec{NumberOfClusters: ptr.To[int32](1)},
	})
	f.create(&v1alpha1.Placement{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "both"}})
	for _, name := range memberNames {
		f.Eventually(func() string { return f.kubectl("hub", "get", "mcl", name) }).Should(gomega.MatchRegexp(name + ` +True`))
	}

	f.Expect(f.git.CreateRepo("runs")).To(gomega.Succeed())
	clone := filepath.Join(f.dir, "clone")
	f.run("", "git", "clone", "-q", f.git.URL("runs"), clone)
	f.commit(clone, "runs", map[string]string{
		"done.yaml": miniCluster("done", "one", `lab.minifleet.dev/seconds: "0"`),
		"live.yaml": miniCluster("live", "both", `lab.minifleet.dev/hold: "true"`),
	})
	f.create(&v1alpha1.GitSource{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "runs"},
		Spec:       v1alpha1.GitSourceSpec{URL: f.git.URL("runs"), Interval: metav1.Duration{Duration: time.Second}, Timeout: metav1.Duration{Duration: 10 * time.Second}},
	})

	held := map[string]string{lab.AskHold: "true"}
	f.create(onAlpine("failed", map[string]string{lab.AskSeconds: "0", lab.AskExitCode: "3"}, "1"))
	f.create(onAlpine("suspended", held, "1"))
	f.create(onAlpine("single", held, "10"))
	paused := onAlpine("paused", held, "1")
	paused.Spec.Suspend = true
	f.create(paused)
	f.Eventually(f.states).Should(gomega.And(
		gomega.HaveKeyWithValue("suspended", v1alpha1.StateRunning), gomega.HaveKeyWithValue("single", v1alpha1.StateRunning)))
	f.suspend("suspended", true)
	f.create(onAlpine("queued", held, "10"))
	// The pods of what is suspended end after the run says so.
	f.Eventually(func() int {
		var pods corev1.PodList
		f.Expect(f.members["alpine"].List(f.t.Context(), &pods, client.InNamespace(namespace),
			client.MatchingLabels{"batch.kubernetes.io/job-name": "suspended"})).To(gomega.Succeed())
		return len(pods.Items)
	}).Should(gomega.BeZero())
	return clone
}

// onAlpine is a FleetMiniCluster of one pod that asks for so much CPU of member alpine.
func onAlpine(name string, annotations map[string]string, cpu string) *v1alpha1.FleetMiniCluster {
	item := &v1alpha1.FleetMiniCluster{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	item.Spec.Placement = &v1alpha1.PlacementSpec{ClusterSelector: metav1.LabelSelector{MatchLabels: map[string]string{"site": "alpine"}}}
	item.Spec.MiniCluster = fluxv1alpha2.MiniClusterSpec{
		Size: 1,
		Containers: []fluxv1alpha2.MiniClusterContainer{{
			Image: "example.org/app", Command: "true",
			Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)}},
		}},
	}
	item.Spec.MiniCluster.Pod.Annotations = annotations
	return item
}

// miniCluster is a file in Git.
func miniCluster(name, placement, podAnnotation string) string {
	return "apiVersion: flux-framework.org/v1alpha2\nkind: MiniCluster\nmetadata:\n  name: " + name +
		"\n  labels:\n    minifleet.dev/placement: " + placement +
		"\nspec:\n  size: 1\n  pod:\n    annotations:\n      " + podAnnotation +
		"\n  containers:\n    - image: example.org/app\n      command: \"true\"\n"
}

// commit writes files and pushes them, and returns the hash.
func (f *fleet) commit(clone, message string, files map[string]string) string {
	f.t.Helper()
	for path, content := range files {
		f.Expect(os.WriteFile(filepath.Join(clone, path), []byte(content), 0o600)).To(gomega.Succeed())
	}
	f.run(clone, "git", "add", "-A")
	f.run(clone, "git", "-c", "user.name=test", "-c", "user.email=test@example.org", "commit", "-q", "--allow-empty", "-m", message)
	f.run(clone, "git", "push", "-q", "origin", "HEAD")
	return strings.TrimSpace(f.run(clone, "git", "rev-parse", "HEAD"))
}

// reconcileAll has the running version read a new commit, which changes no run, and every FleetMiniCluster, by a change
// of its priority that affects no run either, and waits until it has done both.
func (f *fleet) reconcileAll(clone, why string) {
	f.t.Helper()
	hash := f.commit(clone, why, map[string]string{"README.md": why + "\n"})
	f.Eventually(func() string {
		var source v1alpha1.GitSource
		f.Expect(f.hub.Get(f.t.Context(), client.ObjectKey{Namespace: namespace, Name: "runs"}, &source)).To(gomega.Succeed())
		return source.Status.Commit
	}).Should(gomega.Equal(hash), "the commit that was read, %s", why)
	asked := map[string]int64{}
	for _, item := range f.all() {
		f.patch(&item, map[string]any{"spec": map[string]any{"priority": item.Spec.Priority + 1}})
		asked[item.Name] = item.Generation
	}
	f.Eventually(func() []string {
		var behind []string
		for _, item := range f.all() {
			if item.Status.ObservedGeneration < asked[item.Name] || item.Status.ObservedGeneration < item.Generation {
				behind = append(behind, item.Name)
			}
		}
		return behind
	}).Should(gomega.BeEmpty(), "FleetMiniClusters that were not reconciled, %s", why)
}

func (f *fleet) all() []v1alpha1.FleetMiniCluster {
	f.t.Helper()
	var list v1alpha1.FleetMiniClusterList
	f.Expect(f.hub.List(f.t.Context(), &list, client.InNamespace(namespace))).To(gomega.Succeed())
	return list.Items
}

func (f *fleet) patch(item *v1alpha1.FleetMiniCluster, change map[string]any) {
	f.t.Helper()
	body, err := json.Marshal(change)
	f.Expect(err).NotTo(gomega.HaveOccurred())
	f.Expect(f.hub.Patch(f.t.Context(), item, client.RawPatch(types.MergePatchType, body))).To(gomega.Succeed())
}

func (f *fleet) suspend(name string, value bool) {
	f.t.Helper()
	item := &v1alpha1.FleetMiniCluster{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	f.patch(item, map[string]any{"spec": map[string]any{"suspend": value}})
}

// release lets the pods of runs end.
func (f *fleet) release(names ...string) {
	f.t.Helper()
	for _, member := range memberNames {
		_, err := f.lab.Cluster(member).Release(f.t.Context(), namespace, "batch.kubernetes.io/job-name in ("+strings.Join(names, ",")+")", 0)
		f.Expect(client.IgnoreNotFound(err)).To(gomega.Succeed())
	}
}

// states are STATE of `kubectl get`, by FleetMiniCluster.
func (f *fleet) states() map[string]v1alpha1.State {
	out := map[string]v1alpha1.State{}
	for _, item := range f.all() {
		out[item.Name] = item.Status.State
	}
	return out
}

// expectStates waits until some FleetMiniClusters are in these states.
func (f *fleet) expectStates(want map[string]v1alpha1.State) {
	f.t.Helper()
	f.Eventually(func() string {
		got := f.states()
		for name := range got {
			if _, asked := want[name]; !asked {
				delete(got, name)
			}
		}
		return gocmp.Diff(want, got)
	}).Should(gomega.BeEmpty())
}

// expectSame compares all that must stay with what was.
func (f *fleet) expectSame(before *snapshot) {
	f.t.Helper()
	if diff := gocmp.Diff(before, f.snapshot(), cmpopts.EquateEmpty()); diff != "" {
		f.t.Fatalf("changed (-before +after):\n%s", diff)
	}
}

// expectBothProgramsRead lists the runs with the command lines of both releases.
func (f *fleet) expectBothProgramsRead(programs ...*release) {
	f.t.Helper()
	kubeconfig := f.lab.Cluster("hub").KubeconfigPath()
	var names []string
	for _, item := range f.all() {
		names = append(names, item.Name)
	}
	slices.Sort(names)
	for _, r := range programs {
		var list struct{ Items []v1alpha1.FleetMiniCluster }
		out := f.run("", r.binary, "get", "--kubeconfig", kubeconfig, "-n", namespace, "-o", "json")
		f.Expect(json.Unmarshal([]byte(out), &list)).To(gomega.Succeed(), out)
		var read []string
		for i := range list.Items {
			read = append(read, list.Items[i].Name)
		}
		slices.Sort(read)
		f.Expect(read).To(gomega.Equal(names), "%s get", r.name)
		f.run("", r.binary, "check", "--kubeconfig", kubeconfig, "-n", namespace)
	}
}
