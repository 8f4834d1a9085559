package plan_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/internal/plan"
)

// After a restart of the hub, whoever was live has its room, and whoever waited waits, as far as the status tells.
func TestRestore(t *testing.T) {
	type outcome struct {
		Reserved map[string]int
		Done     int // pods that have succeeded
		Waits    bool
	}
	running := func() *ObjectWrapper { return MakeObject("run").Runs(MakeRun("aa", "alpine", v1alpha1.RunRunning)) }
	nothing := outcome{Reserved: map[string]int{}}
	cases := map[string]struct {
		object *ObjectWrapper
		want   outcome
	}{
		"nothing has run":        {MakeObject("run"), nothing},
		"it is live":             {running(), outcome{Reserved: map[string]int{"alpine": 2}}},
		"it starts":              {MakeObject("run").Runs(MakeRun("aa", "alpine", v1alpha1.RunStarting)), outcome{Reserved: map[string]int{"alpine": 2}}},
		"it is stopped":          {MakeObject("run").Runs(MakeRun("aa", "alpine", v1alpha1.RunStopping)), outcome{Reserved: map[string]int{"alpine": 2}}},
		"it has ended":           {MakeObject("run").Runs(MakeRun("aa", "alpine", v1alpha1.RunSucceeded)), nothing},
		"it is suspended":        {running().With(suspended), nothing},
		"it is held":             {running().With(held), nothing},
		"it is live on two":      {running().Runs(MakeRun("bb", "basalt", v1alpha1.RunRunning)), outcome{Reserved: map[string]int{"alpine": 2, "basalt": 2}}},
		"a pod has succeeded":    {running().Shown(v1alpha1.ClusterStatus{Name: "alpine", Run: "aa", Pods: v1alpha1.PodCounts{Succeeded: 1}}), outcome{Reserved: map[string]int{"alpine": 2}, Done: 1}},
		"a pod of another has":   {running().Shown(v1alpha1.ClusterStatus{Name: "alpine", Run: "old", Pods: v1alpha1.PodCounts{Succeeded: 1}}), outcome{Reserved: map[string]int{"alpine": 2}}},
		"it waits to be resumed": {running().Shown(v1alpha1.ClusterStatus{Name: "alpine", Run: "aa", Health: v1alpha1.Suspended, Reason: v1alpha1.ReasonInsufficientCapacity}), nothing},
		"it waits for room":      {MakeObject("run").Ready(v1alpha1.ReasonInsufficientCapacity), outcome{Reserved: map[string]int{}, Waits: true}},
		"it waits for minSize":   {MakeObject("run").With(sized(4), quorum(2)).Ready(v1alpha1.ReasonInsufficientCapacity), outcome{Reserved: map[string]int{}, Waits: true}},
		"it is live, of minSize": {running().With(sized(4), quorum(2)), outcome{Reserved: map[string]int{"alpine": 4}}},
		"it waits for members":   {MakeObject("run").Ready(v1alpha1.ReasonConnecting), outcome{Reserved: map[string]int{}, Waits: true}},
		"it waits for another":   {MakeObject("run").Ready(v1alpha1.ReasonWaitingForCompletion), nothing},
		"it was being deleted":   {MakeObject("run").Ready(v1alpha1.ReasonInsufficientCapacity).With(func(f *v1alpha1.FleetMiniCluster) { f.DeletionTimestamp = at(0) }), nothing},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			r := plan.Restore(c.object.Obj(), c.object.Spec.Placement, nil)
			got := outcome{Reserved: map[string]int{}, Waits: r.Entry != nil && r.Entry.Anywhere.Size == 2}
			for member, reserved := range r.Reservations {
				got.Reserved[member] = reserved.Gang.Size
				got.Done += reserved.Succeeded
				if want := c.object.Status.Runs[0].ID; member == "alpine" && reserved.Run != want {
					t.Errorf("it is reserved for run %q, want %q", reserved.Run, want)
				}
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}
