package plan_test

import (
	"fmt"
	"maps"
	"slices"
	"syscall"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/internal/fit"
	"github.com/minifleet/minifleet/internal/nodeusage"
	"github.com/minifleet/minifleet/internal/plan"
	"github.com/minifleet/minifleet/internal/queue"
)

// largeFleet is one of many members with nodes, of whose runs all pods are scheduled, and a queue in which these have
// reserved room.
type largeFleet struct {
	members []plan.Member
	rooms   map[string]*nodeusage.Sums
	queue   *queue.Queue
}

// nodesOf is a member's: 64 CPU each, of which every fourth has GPUs behind a taint.
func nodesOf(n int) []*corev1.Node {
	out := make([]*corev1.Node, n)
	for i := range out {
		name := fmt.Sprintf("node-%03d", i)
		out[i] = &corev1.Node{ObjectMeta: metav1.ObjectMeta{UID: types.UID(name), Name: name, Labels: map[string]string{"kubernetes.io/hostname": name, "zone": fmt.Sprint(i % 3)}}}
		out[i].Status.Allocatable = corev1.ResourceList{
			"cpu": resource.MustParse("64"), "memory": resource.MustParse("256Gi"), "pods": resource.MustParse("110"), "ephemeral-storage": resource.MustParse("1Ti"),
		}
		if i%4 == 3 {
			out[i].Status.Allocatable["nvidia.com/gpu"] = resource.MustParse("4")
			out[i].Spec.Taints = []corev1.Taint{{Key: "gpu", Effect: corev1.TaintEffectNoSchedule}}
		}
	}
	return out
}

// newLargeFleet has members of so many nodes, and runs of two pods each. Some members have taints, and some are for other
// namespaces.
func newLargeFleet(members, nodes, live int) *largeFleet {
	f := &largeFleet{rooms: map[string]*nodeusage.Sums{}, queue: queue.New()}
	for i := range members {
		w := MakeMember(fmt.Sprintf("member-%04d", i)).Observed()
		w.Cluster.Labels["region"], w.Cluster.Labels["price"] = fmt.Sprint(i%7), fmt.Sprint(i%11)
		switch i % 10 {
		case 3:
			w.Cluster.Spec.Taints = []v1alpha1.Taint{{Key: "spare", Effect: v1alpha1.PreferNoSelect}}
		case 5:
			w.Cluster.Spec.Namespaces = &v1alpha1.NamespaceAccess{From: v1alpha1.NamespacesFromNames, Names: []string{"physics"}}
		case 7:
			w.Cluster.Spec.Namespaces = &v1alpha1.NamespaceAccess{
				From: v1alpha1.NamespacesFromSelector, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"team": "hpc"}},
			}
		}
		sums := nodeusage.New(true)
		sums.ReplaceNodes(slices.Values(nodesOf(nodes)))
		sums.ReplacePods(slices.Values([]*nodeusage.Pod(nil)))
		f.members, f.rooms[w.Cluster.Name] = append(f.members, w.Obj()), sums
	}
	pod := corev1.PodSpec{RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{{Resources: corev1.ResourceRequirements{
		Requests: corev1.ResourceList{"cpu": resource.MustParse("1"), "memory": resource.MustParse("1Gi")},
	}}}}
	gang := fit.Gang{Pod: fit.PodOf(&pod), Size: 2}
	for i := range live {
		name, id := f.members[i%members].Cluster.Name, fmt.Sprintf("%010x", i)
		for p := range gang.Size {
			scheduled := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: types.UID(fmt.Sprint(id, p)), Labels: map[string]string{v1alpha1.LabelRun: id}}, Spec: pod}
			scheduled.Spec.NodeName = fmt.Sprintf("node-%03d", (i+p)%nodes)
			f.rooms[name].SetPod(nodeusage.PodFrom(scheduled))
		}
		key := queue.Key{Namespace: fmt.Sprint("team-", i%50), Name: id}
		f.queue.Update(key, map[string]queue.Reservation{name: {Run: id, Gang: gang}}, nil)
	}
	return f
}

// wait has so many others wait on all members for more than any has.
func (f *largeFleet) wait(n int) {
	all := make([]string, len(f.members))
	for i := range f.members {
		all[i] = f.members[i].Cluster.Name
	}
	gang := fit.Gang{Pod: fit.PodOf(&corev1.PodSpec{Containers: []corev1.Container{{Resources: corev1.ResourceRequirements{
		Requests: corev1.ResourceList{"cpu": resource.MustParse("60")},
	}}}}), Size: 1000}
	gangs := map[string]fit.Gang{}
	for _, name := range all {
		gangs[name] = gang
	}
	for i := range n {
		key := queue.Key{Namespace: fmt.Sprint("team-", i%50), Name: fmt.Sprint("waits-", i)}
		f.queue.Update(key, nil, &queue.Entry{Rank: queue.Rank{Created: start, Key: key}, Gangs: gangs, Reconciled: start})
	}
}

// snapshot is of one that has no run yet.
func (f *largeFleet) snapshot(o *v1alpha1.FleetMiniCluster) *plan.Snapshot {
	key := keyOf(o)
	return &plan.Snapshot{
		Object: o, Placement: o.Spec.Placement, Now: start, NamespaceLabels: map[string]string{"team": "hpc"}, Members: f.members, Facts: map[string]plan.Facts{},
		Queue:   plan.QueueState{Reserved: f.queue.Reservations(key), Pending: f.queue.Pending(key), Runs: f.queue.Runs()},
		HadRuns: ptr.To(false),
	}
}

// read answers what an attempt asks.
func (f *largeFleet) read(b testing.TB, s *plan.Snapshot, reads plan.Reads) {
	b.Helper()
	for name, facts := range reads.Members {
		have := s.Facts[name]
		for _, fact := range facts {
			switch fact {
			case plan.ReadRecord:
				have.Record = &plan.Record{}
			case plan.ReadRoom:
				have.Room = f.queue.View(name, f.rooms[name].Room(), keyOf(s.Object))
			default:
				b.Fatalf("%s of %s is read", fact, name)
			}
		}
		s.Facts[name] = have
	}
}

// place decides where a FleetMiniCluster goes that has no run yet, as a reconciliation does, and reserves its room.
func (f *largeFleet) place(b testing.TB, o *v1alpha1.FleetMiniCluster) *plan.Decision {
	b.Helper()
	s := f.snapshot(o)
	var d *plan.Decision
	for range maxReads {
		var reads plan.Reads
		if d, reads = plan.Decide(s, d); !reads.Any() {
			if !f.queue.Reserve(keyOf(o), d.Reserve) {
				b.Fatal("nobody else reserves anything")
			}
			return d
		}
		f.read(b, s, reads)
	}
	b.Fatal("it asks for more all the time")
	return nil
}

// placements are ways to place a MiniCluster.
var placements = map[string]func(*v1alpha1.FleetMiniCluster){
	"as it comes": func(*v1alpha1.FleetMiniCluster) {},
	"selected":    selecting,
	"by what is free": func(f *v1alpha1.FleetMiniCluster) {
		selecting(f)
		f.Spec.Placement.PrioritizerPolicy.Configurations = []v1alpha1.PrioritizerConfig{
			{ScoreCoordinate: v1alpha1.ScoreCoordinate{Type: v1alpha1.ScoreBuiltIn, BuiltIn: v1alpha1.FreeCPU}},
			{ScoreCoordinate: v1alpha1.ScoreCoordinate{Type: v1alpha1.ScoreLabel, Label: "price"}},
		}
	},
	"spread over regions": func(f *v1alpha1.FleetMiniCluster) {
		f.Spec.Placement.NumberOfClusters = ptr.To(int32(20))
		f.Spec.Placement.SpreadPolicy.SpreadConstraints = []v1alpha1.SpreadConstraint{{TopologyKey: "region", MaxSkew: 1, WhenUnsatisfiable: v1alpha1.DoNotSchedule}}
	},
	"without room": func(f *v1alpha1.FleetMiniCluster) { f.Spec.MiniCluster.Size = 10000 },
	"on nodes of a kind": func(f *v1alpha1.FleetMiniCluster) {
		f.Spec.MiniCluster.Pod.NodeSelector = map[string]string{"zone": "1"}
		f.Spec.Placement.PrioritizerPolicy.Configurations = []v1alpha1.PrioritizerConfig{
			{ScoreCoordinate: v1alpha1.ScoreCoordinate{Type: v1alpha1.ScoreBuiltIn, BuiltIn: v1alpha1.FreeMemory}},
		}
	},
}

// selecting are the members of most regions, those with taints too.
func selecting(f *v1alpha1.FleetMiniCluster) {
	f.Spec.Placement.ClusterSelector = metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
		{Key: "region", Operator: metav1.LabelSelectorOpNotIn, Values: []string{"0", "1"}},
	}}
	f.Spec.Placement.Tolerations = []v1alpha1.Toleration{{Key: "spare", Operator: v1alpha1.TolerateExists}}
}

// cpuTime measures what the process has spent on each operation, whatever else the machine does.
func cpuTime(b *testing.B) (stop func()) {
	b.Helper()
	spent := func() float64 {
		var u syscall.Rusage
		if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
			b.Fatal(err)
		}
		return float64(u.Utime.Nano()+u.Stime.Nano()) / 1e6
	}
	began := spent()
	return func() { b.ReportMetric((spent()-began)/float64(b.N), "cpu-ms/op") }
}

// BenchmarkPlacement is one placement over 1,000 members of 100 nodes each, on which 10,000 runs are live. Each time the
// room of one member has changed since the last. The floor is a walk over what the nodes have free.
func BenchmarkPlacement(b *testing.B) {
	f := newLargeFleet(1000, 100, 10000)
	f.bench(b)
	f.wait(1000)
	b.Run("others wait", f.bench)
}

func (f *largeFleet) bench(b *testing.B) {
	b.Run("floor", func(b *testing.B) {
		defer cpuTime(b)()
		sum := int64(0)
		for b.Loop() {
			for _, r := range f.rooms {
				for i, nodes := 0, r.Room().Nodes; i < len(nodes); i++ {
					sum += nodes[i].Free[corev1.ResourceCPU]
				}
			}
		}
		b.ReportMetric(float64(sum%2), "odd")
	})
	for _, name := range slices.Sorted(maps.Keys(placements)) {
		b.Run(name, func(b *testing.B) {
			o := MakeObject("run").Obj()
			placements[name](o)
			f.place(b, o)
			f.queue.Release(keyOf(o))
			defer cpuTime(b)()
			for i := 0; b.Loop(); i++ {
				f.change(i)
				f.place(b, o)
				f.queue.Release(keyOf(o))
			}
		})
	}
}

// change has a pod of somebody else come to a member, or end there.
func (f *largeFleet) change(i int) {
	r := f.rooms[f.members[i/2%len(f.members)].Cluster.Name]
	if i%2 == 1 {
		r.RemovePod("stranger")
		return
	}
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "stranger"}, Spec: corev1.PodSpec{NodeName: "node-001"}}
	p.Spec.Containers = []corev1.Container{{Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{"cpu": resource.MustParse("1")}}}}
	r.SetPod(nodeusage.PodFrom(p))
}

// A placement is decided however many members have no room, with few attempts and as few questions as there are members.
func TestManyMembersWithoutRoom(t *testing.T) {
	for _, members := range []int{1, 30, 300, 2000} {
		f := newLargeFleet(members, 1, 0)
		o := MakeObject("run").Size(10000).Obj()
		d := f.place(t, o)
		usable := members - members/10 // some are for other namespaces
		if members == 1 {
			usable = 1
		}
		if got := len(d.Line.Lacking); got < usable-members/10 || got > usable || len(d.Placement.Clusters) > 0 {
			t.Errorf("%d members: waits for %d of them, placed on %v", members, got, d.Placement.Clusters)
		}
		if len(d.Placement.Waiting) == 0 {
			t.Errorf("%d members: the status names nobody who lacks room", members)
		}
	}
}

// What a placement allocates does not grow with the FleetMiniClusters that it has nothing to do with: whether ten times as
// many others run, or wait.
func TestPlacementDoesNotGrowWithOthers(t *testing.T) {
	allocations := func(live, waiting int) float64 {
		f := newLargeFleet(30, 4, live)
		f.wait(waiting)
		o := MakeObject("run").With(placements["by what is free"]).Obj()
		return testing.AllocsPerRun(5, func() {
			f.place(t, o)
			f.queue.Release(keyOf(o))
		})
	}
	few := allocations(100, 100)
	for name, many := range map[string]float64{"run": allocations(1000, 100), "wait": allocations(100, 1000)} {
		if many > 1.5*few {
			t.Errorf("%.0f allocations where 100 others run and wait, %.0f where 1,000 %s", few, many, name)
		}
	}
}
