package nodeusage

import (
	"fmt"
	"iter"
	"maps"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/internal/fleet"
)

const runA, runB = "00000000aa", "00000000bb"

func resources(cpu, memory string, gpus int64) corev1.ResourceList {
	l := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory)}
	if gpus > 0 {
		l["nvidia.com/gpu"] = *resource.NewQuantity(gpus, resource.DecimalSI)
	}
	return l
}

func nodeOf(uid string, unschedulable bool, l corev1.ResourceList) *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{UID: types.UID(uid), Name: uid},
		Spec:       corev1.NodeSpec{Unschedulable: unschedulable}, Status: corev1.NodeStatus{Allocatable: l},
	}
}

func podOf(uid, node string, l corev1.ResourceList) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{UID: types.UID(uid), Name: uid},
		Spec:       corev1.PodSpec{NodeName: node, Containers: []corev1.Container{{Resources: corev1.ResourceRequirements{Requests: l}}}},
	}
}

func ofRun(run string, p *corev1.Pod) *corev1.Pod {
	p.Labels = map[string]string{v1alpha1.LabelRun: run}
	return p
}

func free(r *Room, node string) fleet.Amounts {
	i := slices.IndexFunc(r.Nodes, func(n fleet.Node) bool { return n.Name == node })
	return r.Nodes[i].Free
}

// reduced lists pods as they are kept.
func reduced(pods ...*corev1.Pod) iter.Seq[*Pod] {
	return func(yield func(*Pod) bool) {
		for _, p := range pods {
			if !yield(PodFrom(p)) {
				return
			}
		}
	}
}

func TestRoom(t *testing.T) {
	s := New(true)
	all := resources("4", "8Gi", 2)
	all[corev1.ResourcePods] = resource.MustParse("10")
	n := nodeOf("a", true, all)
	n.Labels = map[string]string{"disk": "ssd"}
	n.Spec.Taints = []corev1.Taint{{Key: "x", Effect: corev1.TaintEffectNoSchedule}}
	daemon := podOf("d", "a", resources("100m", "1Gi", 0))
	daemon.Spec.RestartPolicy = corev1.RestartPolicyAlways
	services := ofRun(runA, podOf("s", "a", resources("100m", "1Gi", 0)))
	services.Labels[v1alpha1.LabelManagedBy] = v1alpha1.ManagedBy
	s.ReplaceNodes(slices.Values([]*corev1.Node{n}))
	s.ReplacePods(reduced(daemon, services, ofRun(runA, podOf("p", "a", resources("1", "1Gi", 1))), ofRun("hostile label", podOf("q", "a", resources("1", "0", 0)))))

	want := fleet.Node{
		Name: "a", Labels: map[string]string{"disk": "ssd"}, Taints: n.Spec.Taints, Unschedulable: true,
		Allocatable: fleet.Amounts{"cpu": 4000, "memory": 8 << 30, "pods": 10, "nvidia.com/gpu": 2},
		Total:       fleet.Amounts{"cpu": 3900, "memory": 7 << 30, "pods": 9, "nvidia.com/gpu": 2},
		Free:        fleet.Amounts{"cpu": 1800, "memory": 5 << 30, "pods": 6, "nvidia.com/gpu": 1},
		Ending: []fleet.PodGroup{
			{Requests: fleet.Amounts{"cpu": 100, "memory": 1 << 30, "pods": 1}, Count: 1},
			{Requests: fleet.Amounts{"cpu": 1000, "memory": 0, "pods": 1}, Count: 1},
			{Requests: fleet.Amounts{"cpu": 1000, "memory": 1 << 30, "pods": 1, "nvidia.com/gpu": 1}, Count: 1},
		},
	}
	r := s.Room()
	if diff := cmp.Diff([]fleet.Node{want}, r.Nodes); diff != "" || r.State != Known {
		t.Error(r.State, diff)
	}
	if got := r.Scheduled(runA); got != (fleet.Scheduled{Pods: 1, Services: 1}) {
		t.Errorf("scheduled: %+v", got)
	}
	if s.Room(runB) != r {
		t.Error("it is made anew although nothing has changed")
	}
	want.Free = fleet.Amounts{"cpu": 2900, "memory": 7 << 30, "pods": 8, "nvidia.com/gpu": 2}
	if diff := cmp.Diff(want.Free, free(s.Room(runA), "a")); diff != "" {
		t.Error(diff)
	}
	if free(s.Room(), "a")["cpu"] != 1800 {
		t.Error("room without a run has changed what others see")
	}
	s.RemovePod("p")
	if got := s.Room().Scheduled(runA); got.Pods != 0 {
		t.Errorf("scheduled: %+v", got)
	}
}

// After any sequence of events the room is what the nodes have less what the pods on them ask for.
func TestRoomNeverDrifts(t *testing.T) {
	random := rand.New(rand.NewPCG(9, 10))
	s := New(true)
	s.ReplacePods(reduced())
	s.ReplaceNodes(slices.Values([]*corev1.Node(nil)))
	nodes, pods := map[string]*corev1.Node{}, map[string]*corev1.Pod{}
	some := func() corev1.ResourceList {
		l := resources(fmt.Sprintf("%dm", random.IntN(64000)), fmt.Sprint(random.IntN(1<<40)), int64(random.IntN(3)))
		l["example.org/nic"] = *resource.NewQuantity(int64(random.IntN(3)), resource.DecimalSI)
		return l
	}
	for step := range 3000 {
		uid := fmt.Sprint(random.IntN(12))
		n := nodeOf(uid, false, some())
		p := ofRun([]string{runA, runB, ""}[random.IntN(3)], podOf(uid, fmt.Sprint(random.IntN(12)), some()))
		switch random.IntN(6) {
		case 0, 1:
			nodes[uid] = n
			s.SetNode(n)
		case 2:
			delete(nodes, uid)
			s.RemoveNode(n.UID)
		case 3, 4:
			pods[uid] = p
			s.SetPod(PodFrom(p))
		default:
			delete(pods, uid)
			s.RemovePod(p.UID)
		}
		want, freed := map[string]fleet.Amounts{}, map[string]fleet.Amounts{}
		for name, n := range nodes {
			want[name], freed[name] = fleet.AmountsOf(n.Status.Allocatable), fleet.AmountsOf(n.Status.Allocatable)
		}
		count := 0
		for _, p := range pods {
			mine := p.Labels[v1alpha1.LabelRun] == runA
			if mine {
				count++
			}
			for i, sums := range []map[string]fleet.Amounts{want, freed} {
				sum := sums[p.Spec.NodeName]
				if sum == nil || mine && i == 1 {
					continue
				}
				for name, n := range fleet.AmountsOf(p.Spec.Containers[0].Resources.Requests) {
					sum[name] -= n
				}
				sum[corev1.ResourcePods]--
			}
		}
		compareRoom(t, step, want, s.Room())
		compareRoom(t, step, freed, s.Room(runA))
		if got := s.Room().Scheduled(runA).Pods; got != count {
			t.Fatalf("step %d: %d pods of the run, want %d", step, got, count)
		}
	}
}

func compareRoom(t *testing.T, step int, want map[string]fleet.Amounts, r *Room) {
	t.Helper()
	nonZero := func(m fleet.Amounts) fleet.Amounts {
		m = maps.Clone(m)
		maps.DeleteFunc(m, func(_ corev1.ResourceName, n int64) bool { return n == 0 })
		return m
	}
	got := map[string]fleet.Amounts{}
	for _, n := range r.Nodes {
		got[n.Name] = nonZero(n.Free)
		level := maps.Clone(n.Total)
		for _, g := range n.Ending {
			for name, amount := range g.Requests {
				level[name] -= int64(g.Count) * amount
			}
		}
		if diff := cmp.Diff(nonZero(n.Free), nonZero(level)); diff != "" {
			t.Fatalf("step %d: what is free, and what there is less the pods that end: %s", step, diff)
		}
	}
	for name := range want {
		want[name] = nonZero(want[name])
	}
	if diff := cmp.Diff(want, got); diff != "" && len(want) > 0 {
		t.Fatalf("step %d: %s", step, diff)
	}
}

// Equal pods are counted, those that never end are not among them, and more than a few different ones are not listed.
func TestPodsThatEnd(t *testing.T) {
	s := New(true)
	s.ReplaceNodes(slices.Values([]*corev1.Node{nodeOf("a", false, resources("400", "8Gi", 0))}))
	daemon := podOf("d", "a", resources("1", "0", 0))
	daemon.Spec.RestartPolicy = corev1.RestartPolicyAlways
	s.ReplacePods(reduced(daemon, podOf("p", "a", resources("1", "0", 0)), podOf("q", "a", resources("1", "0", 0))))
	two := []fleet.PodGroup{{Requests: fleet.Amounts{"cpu": 1000, "memory": 0, "pods": 1}, Count: 2}}
	if diff := cmp.Diff(two, s.Room().Nodes[0].Ending); diff != "" {
		t.Error(diff)
	}
	for i := range maxGroups {
		s.SetPod(PodFrom(podOf(fmt.Sprint(i), "a", resources(fmt.Sprint(2+i), "0", 0))))
	}
	if n := s.Room().Nodes[0]; n.Ending != nil || !n.EndingOmitted {
		t.Errorf("%d groups are listed, omitted: %t", len(n.Ending), n.EndingOmitted)
	}
	s.RemovePod("0")
	if n := s.Room().Nodes[0]; len(n.Ending) != maxGroups || n.EndingOmitted {
		t.Errorf("%d groups are listed, omitted: %t", len(n.Ending), n.EndingOmitted)
	}
}

// What a pod costs does not depend on how big it is.
func TestMemoryOfAPod(t *testing.T) {
	const n = 20000
	s := New(true)
	list := make([]*corev1.Pod, n)
	for i := range list {
		p := podOf(fmt.Sprintf("00000000-0000-0000-0000-%012d", i), fmt.Sprintf("node-%d.example.org", i%100), resources("1", "1Gi", 0))
		list[i] = p
	}
	heap := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := heap()
	s.ReplacePods(reduced(list...))
	after := heap()
	each := float64(after-before) / n
	t.Logf("%.0f bytes a pod", each)
	if each > 300 {
		t.Errorf("a pod costs %.0f bytes", each)
	}
	runtime.KeepAlive(list)
	runtime.KeepAlive(s)
}

// A pod that is changed in place takes what it had or what it is to have, whichever is more, until that is done.
func TestRoomOfAPodThatIsResized(t *testing.T) {
	cases := map[string]struct {
		spec, allocated, actual string
		free                    int64
	}{
		"smaller, not done":  {"1", "3", "3", 1000},
		"smaller, allocated": {"1", "1", "3", 1000},
		"done":               {"1", "1", "1", 3000},
		"larger, not done":   {"3", "1", "1", 1000},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			s := New(true)
			p := podOf("p", "a", resources(tc.spec, "0", 0))
			p.Spec.Containers[0].Name = "c"
			p.Status.ContainerStatuses = []corev1.ContainerStatus{{
				Name: "c", AllocatedResources: resources(tc.allocated, "0", 0),
				Resources: &corev1.ResourceRequirements{Requests: resources(tc.actual, "0", 0)},
			}}
			s.ReplaceNodes(slices.Values([]*corev1.Node{nodeOf("a", true, resources("4", "8Gi", 0))}))
			s.ReplacePods(reduced(p))
			if got := free(s.Room(), "a")["cpu"]; got != tc.free {
				t.Errorf("%d millicores are free, want %d", got, tc.free)
			}
		})
	}
}

// A pod that never ends by itself does when it is deleted: its room is worth waiting for from then on.
func TestRoomOfAPodThatIsDeleted(t *testing.T) {
	s := New(true)
	p := podOf("p", "a", resources("3", "0", 0))
	p.Spec.RestartPolicy = corev1.RestartPolicyAlways
	s.ReplaceNodes(slices.Values([]*corev1.Node{nodeOf("a", true, resources("4", "8Gi", 0))}))
	s.ReplacePods(reduced(p))
	if n := s.Room().Nodes[0]; n.Free["cpu"] != 1000 || n.Total["cpu"] != 1000 {
		t.Errorf("before: free %d of %d", n.Free["cpu"], n.Total["cpu"])
	}
	p = p.DeepCopy()
	p.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
	s.SetPod(PodFrom(p))
	if n := s.Room().Nodes[0]; n.Free["cpu"] != 1000 || n.Total["cpu"] != 4000 {
		t.Errorf("deleted: free %d of %d", n.Free["cpu"], n.Total["cpu"])
	}
}
