package plan_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/internal/fleet"
	"github.com/minifleet/minifleet/internal/grant"
	"github.com/minifleet/minifleet/internal/nodeusage"
	"github.com/minifleet/minifleet/internal/plan"
	"github.com/minifleet/minifleet/internal/queue"
)

// cores is the room of a member with one node that has so many CPUs free of eight.
func cores(free int64) *nodeusage.Room {
	amounts := func(n int64) fleet.Amounts {
		return fleet.Amounts{corev1.ResourceCPU: n * 1000, corev1.ResourceMemory: 1 << 40, corev1.ResourcePods: 100}
	}
	return &nodeusage.Room{State: nodeusage.Known, Nodes: []fleet.Node{{Name: "node", Free: amounts(free), Total: amounts(8)}}}
}

// foreseen is a snapshot with members that have so many CPUs free.
func foreseen(q *queue.Queue, object *v1alpha1.FleetMiniCluster, free map[string]int64) *plan.Snapshot {
	s := &plan.Snapshot{
		Object: object, Placement: object.Spec.Placement, Now: start, Facts: map[string]plan.Facts{}, Grants: &grant.Set{}, Confirmed: true,
	}
	key := queue.Key{Namespace: object.Namespace, Name: object.Name}
	for _, name := range []string{"alpine", "basalt"} {
		n, ok := free[name]
		if !ok {
			continue
		}
		m := MakeMember(name).Obj()
		m.Cluster.Labels["site"] = name
		m.Connection.Room = nodeusage.Known
		s.Members = append(s.Members, m)
		s.Facts[name] = plan.Facts{Room: q.View(name, cores(n), key)}
	}
	return s
}

func TestForesee(t *testing.T) {
	uids := []types.UID{"a", "b", "c", "d", "e", "f", "g", "h"}
	toBasalt := func(f *v1alpha1.FleetMiniCluster) {
		f.Spec.Placement.ClusterSelector = metav1.LabelSelector{MatchLabels: map[string]string{"site": "basalt"}}
	}
	both := map[string]int64{"alpine": 8, "basalt": 8}
	cases := map[string]struct {
		object *ObjectWrapper
		free   map[string]int64
		uids   []types.UID
		want   plan.Forecast
	}{
		"a new one on equals": {
			MakeObject("a"), both, uids,
			plan.Forecast{State: plan.ForecastStarts, Wanted: 1, OneOf: []string{"alpine", "basalt"}, Choose: 1},
		},
		"a new one where one has room": {
			MakeObject("a"), map[string]int64{"alpine": 1, "basalt": 8}, uids,
			plan.Forecast{State: plan.ForecastStarts, Wanted: 1, Members: []string{"basalt"}},
		},
		"one that is there, whose order is known": {
			MakeObject("a"), both, nil, plan.Forecast{State: plan.ForecastStarts, Wanted: 1, Members: []string{"alpine"}},
		},
		"no room": {
			MakeObject("a"), map[string]int64{"alpine": 1}, uids,
			plan.Forecast{State: plan.ForecastWaits, Wanted: 1, Message: "alpine: 1 of 2 pods fit; 1 CPU short on node"},
		},
		"everywhere, with room on one": {
			MakeObject("a").Everywhere(), map[string]int64{"alpine": 1, "basalt": 8}, nil,
			plan.Forecast{State: plan.ForecastStarts, Wanted: 2, Members: []string{"basalt"}, Message: "alpine: 1 of 2 pods fit; 1 CPU short on node"},
		},
		"it has run": {
			MakeObject("a").Placed("alpine").Runs(MakeRun("1", "alpine", v1alpha1.RunSucceeded)), both, nil,
			plan.Forecast{State: plan.ForecastKeeps, Wanted: 1, Keeps: []string{"alpine"}},
		},
		"it has run elsewhere": {
			MakeObject("a").Placed("alpine").Runs(MakeRun("1", "alpine", v1alpha1.RunSucceeded)).With(toBasalt), both, nil,
			plan.Forecast{State: plan.ForecastKeeps, Wanted: 1, Keeps: []string{"alpine"}},
		},
		"it runs and has changed": {
			MakeObject("a").Placed("alpine").Runs(MakeRun("1", "alpine", v1alpha1.RunRunning)).With(changed), both, nil,
			plan.Forecast{State: plan.ForecastFollows, Wanted: 1, Members: []string{"alpine"}, Message: "run 1 on alpine ends first"},
		},
		"it runs, has changed and moves": {
			MakeObject("a").Placed("alpine").Runs(MakeRun("1", "alpine", v1alpha1.RunRunning)).With(changed, toBasalt), both, nil,
			plan.Forecast{State: plan.ForecastFollows, Wanted: 1, Members: []string{"basalt"}, Message: "waiting for the run on alpine to end, which is no longer in the placement"},
		},
		"suspended": {MakeObject("a").With(suspended), both, nil, plan.Forecast{State: plan.ForecastSuspended, Wanted: 1, Members: []string{"alpine"}}},
		"invalid": {
			MakeObject("a").With(invalid), both, nil,
			plan.Forecast{State: plan.ForecastRefused, Message: "spec.miniCluster.size: Invalid value: -1: must be at least 1: the lead broker needs a pod"},
		},
		"no member": {
			MakeObject("a").With(onlyOn("cinder")), both, nil,
			plan.Forecast{State: plan.ForecastNoMember, Wanted: 1, Message: "none of 2 MemberClusters may be chosen: change the placement, or labels or taints of a member; alpine: clusterNames does not name it; basalt: clusterNames does not name it; cinder: there is no MemberCluster of this name that this namespace may use, which clusterNames asks for"},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got := plan.Foresee(foreseen(queue.New(), c.object.Obj(), c.free), c.uids...)
			if diff := cmp.Diff(c.want, got, cmpopts.EquateEmpty(), cmpopts.IgnoreUnexported(plan.Forecast{}), cmpopts.IgnoreFields(plan.Forecast{}, "Waiting", "Rejected")); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// What is foreseen for one counts for the next, as it will once both are there.
func TestForeseeTogether(t *testing.T) {
	hub := queue.New()
	q := hub.Copy()
	free := map[string]int64{"alpine": 3}
	snapshot := foreseen(q, MakeObject("a").Obj(), free)
	f := plan.Foreseer{Snapshot: *snapshot, Queue: q, Room: func(string, []string) *nodeusage.Room { return cores(3) }}
	var asks []plan.Ask
	for _, o := range []*ObjectWrapper{MakeObject("b"), MakeObject("c").Size(1), MakeObject("d").Size(1).With(priority(-1)), MakeObject("a").With(priority(1))} {
		o.UID = ""
		asks = append(asks, plan.Ask{Object: o.Obj(), Placement: o.Spec.Placement})
	}
	asks = append(asks, plan.Ask{Object: asks[0].Object, Placement: asks[0].Placement, Alone: true})
	var got []string
	for _, forecast := range f.All(asks) {
		got = append(got, string(forecast.State)+" "+forecast.Message)
	}
	want := []string{
		"Waits alpine: 1 of 2 pods fit; 1 CPU short on node",
		"Waits alpine: its room is kept for hpc/b, which waits for it and comes first (priority 0, created 2026-05-01T12:00:00Z)",
		"Waits alpine: its room is kept for hpc/b, which waits for it and comes first (priority 0, created 2026-05-01T12:00:00Z)",
		"Starts ",
		"Waits alpine: 1 of 2 pods fit; 1 CPU short on node",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if v := hub.View("alpine", cores(3), queue.Key{}); v.Nodes()[0].Free[corev1.ResourceCPU] != 3000 || hub.Pending(queue.Key{Namespace: "hpc", Name: "b"}) != nil {
		t.Error("the queue that was copied has changed")
	}
}
