package queue_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/internal/fit"
	"github.com/minifleet/minifleet/internal/nodeusage"
	"github.com/minifleet/minifleet/internal/queue"
)

// Ids of runs.
const runA, runB, runC = "00000000aa", "00000000bb", "00000000cc"

func key(name string) queue.Key { return queue.Key{Namespace: "hpc", Name: name} }

// of is a key of another namespace.
func of(namespace, name string) queue.Key { return queue.Key{Namespace: namespace, Name: name} }

// hour is a time of some day.
func hour(n int) time.Time { return time.Date(2026, 1, 1, n, 0, 0, 0, time.UTC) }

var ssd, hdd = map[string]string{"disk": "ssd"}, map[string]string{"disk": "hdd"}

// gang is so many pods of one core each, unless told otherwise.
func gang(pods int, change ...func(*corev1.PodSpec)) fit.Gang {
	spec := &corev1.PodSpec{Containers: []corev1.Container{{}}}
	cpu("1")(spec)
	for _, c := range change {
		c(spec)
	}
	return fit.Gang{Pod: fit.PodOf(spec), Size: pods}
}

func cpu(amount string) func(*corev1.PodSpec) {
	return func(s *corev1.PodSpec) { s.Containers[0].Resources.Requests = cores(amount) }
}

func on(labels map[string]string) func(*corev1.PodSpec) {
	return func(s *corev1.PodSpec) { s.NodeSelector = labels }
}

// beside adds a pod of services of so many cores.
func beside(g fit.Gang, amount string) fit.Gang {
	pod := gang(1, cpu(amount)).Pod
	g.Beside = &pod
	return g
}

func cores(amount string) corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(amount)}
}

// member is one whose nodes and pods are known.
type member struct {
	*nodeusage.Sums
	pods int
}

// newMember has these nodes. Each takes many pods.
func newMember(nodes ...*corev1.Node) *member {
	m := &member{Sums: nodeusage.New(true)}
	m.ReplaceNodes(slices.Values(nodes))
	m.ReplacePods(slices.Values([]*nodeusage.Pod(nil)))
	return m
}

func node(name, amount string, labels map[string]string) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{UID: types.UID(name), Name: name, Labels: labels}}
	n.Status.Allocatable = cores(amount)
	n.Status.Allocatable[corev1.ResourcePods] = resource.MustParse("110")
	return n
}

// schedule puts a pod on a node, and returns its UID. The run is empty for a stranger's pod.
func (m *member) schedule(run, node, amount string, change ...func(*corev1.Pod)) types.UID {
	m.pods++
	uid := types.UID(fmt.Sprint("pod-", m.pods))
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: uid, Labels: map[string]string{}}}
	if run != "" {
		p.Labels[v1alpha1.LabelRun] = run
	}
	p.Spec.NodeName, p.Spec.RestartPolicy = node, corev1.RestartPolicyNever
	p.Spec.Containers = []corev1.Container{{Resources: corev1.ResourceRequirements{Requests: cores(amount)}}}
	for _, c := range change {
		c(p)
	}
	m.SetPod(nodeusage.PodFrom(p))
	return uid
}

// services makes a pod the one beside a run.
func services(p *corev1.Pod) { p.Labels[v1alpha1.LabelManagedBy] = v1alpha1.ManagedBy }

// entry waits on alpine for a gang, unless told otherwise.
func entry(name string, priority int32, created int, g fit.Gang, change ...func(*queue.Entry)) queue.Entry {
	e := queue.Entry{
		Rank:  queue.Rank{Priority: priority, Created: hour(created), Key: key(name)},
		Gangs: map[string]fit.Gang{"alpine": g}, Reconciled: hour(12),
	}
	for _, c := range change {
		c(&e)
	}
	return e
}

func elsewhere(e *queue.Entry) { e.Gangs = map[string]fit.Gang{"basalt": e.Gangs["alpine"]} }

func anywhere(e *queue.Entry) {
	g := e.Gangs["alpine"]
	e.Anywhere, e.Gangs = &g, nil
}

// in is of another namespace.
func in(namespace string) func(*queue.Entry) {
	return func(e *queue.Entry) { e.Key.Namespace = namespace }
}

// shared is a member with shares.
func shared(name string, generation int64, shares ...v1alpha1.NamespaceShare) *v1alpha1.MemberCluster {
	m := &v1alpha1.MemberCluster{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name), Generation: generation}}
	m.Spec.Shares = shares
	return m
}

// share is that of the namespaces named.
func share(weight int32, limits map[corev1.ResourceName]string, runs int32, names ...string) v1alpha1.NamespaceShare {
	s := v1alpha1.NamespaceShare{Name: names[0], Weight: weight, Namespaces: v1alpha1.ShareNamespaces{Names: names}}
	for name, amount := range limits {
		if s.Limits == nil {
			s.Limits = v1alpha1.ShareLimits{}
		}
		s.Limits[name] = resource.MustParse(amount)
	}
	if runs >= 0 {
		s.Runs = &runs
	}
	return s
}

// behind has its status name another as the one who comes first on alpine.
func behind(name string) func(*queue.Entry) {
	return func(e *queue.Entry) { e.Behind = map[string]queue.Key{"alpine": key(name)} }
}

// waiting is a queue with these in line.
func waiting(entries ...queue.Entry) *queue.Queue {
	q := queue.New()
	for _, e := range entries {
		q.Update(e.Key, nil, &e)
	}
	return q
}

// reserve updates the reservations of one who does not wait.
func reserve(q *queue.Queue, name string, reservations map[string]queue.Reservation) []string {
	return q.Update(key(name), reservations, nil)
}

func names(keys []queue.Key) []string {
	var out []string
	for _, k := range keys {
		out = append(out, k.Name)
	}
	return out
}

// freeCores are what a view shows of each node.
func freeCores(v *queue.View) map[string]int64 {
	out := map[string]int64{}
	for _, n := range v.Nodes() {
		out[n.Name] = n.Free[corev1.ResourceCPU] / 1000
	}
	return out
}

// byKey compares pods by what they need.
var byKey = cmp.Comparer(func(a, b fit.Pod) bool { return a.Key == b.Key })

func equal[T any](t *testing.T, want, got T) {
	t.Helper()
	if diff := cmp.Diff(want, got, byKey); diff != "" {
		t.Error(diff)
	}
}

func quantity(amount string) resource.Quantity { return resource.MustParse(amount) }
