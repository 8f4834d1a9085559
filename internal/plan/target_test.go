package plan_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/internal/plan"
	"github.com/minifleet/minifleet/internal/queue"
	"github.com/minifleet/minifleet/internal/runs"
)

// The tests of this package rely on it.
func TestAlpineIsPreferred(t *testing.T) {
	for _, name := range []string{"run", "other"} {
		s := MakeSnapshot(MakeObject(name).Obj(), MakeMember("alpine"), MakeMember("basalt"))
		anyRoom(s)
		if diff := cmp.Diff([]string{"alpine"}, decided(t, s).Placement.Clusters); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

// A member matters while it is chosen, or may have something of the object.
func TestTargets(t *testing.T) {
	lost := func(reason string) *v1alpha1.ClusterStatus { return &v1alpha1.ClusterStatus{Reason: reason} }
	cases := map[string]struct {
		object *ObjectWrapper
		alpine *MemberWrapper // nil: not registered
		holds  bool
		want   *v1alpha1.ClusterStatus // nil: it does not matter
	}{
		"nothing was ever there":     {MakeObject("run").Placed("basalt"), MakeMember("alpine"), false, nil},
		"it is chosen":               {MakeObject("run").Placed("alpine"), MakeMember("alpine"), false, lost("")},
		"a run is live there":        {MakeObject("run").Runs(MakeRun("aa", "alpine", v1alpha1.RunRunning)).Placed("alpine"), MakeMember("alpine"), false, lost("")},
		"a run has ended there":      {MakeObject("run").Runs(MakeRun("aa", "alpine", v1alpha1.RunSucceeded).Of("old")).Placed("basalt"), MakeMember("alpine"), false, nil},
		"it is in the status":        {MakeObject("run").Shown(v1alpha1.ClusterStatus{Name: "alpine"}).Placed("basalt"), MakeMember("alpine"), false, lost("")},
		"the cache shows a Job":      {MakeObject("run").Runs(MakeRun("aa", "alpine", v1alpha1.RunReplaced)).Placed("basalt"), MakeMember("alpine"), true, lost("")},
		"it is lost":                 {MakeObject("run").Runs(MakeRun("aa", "alpine", v1alpha1.RunRunning)).Placed("alpine"), MakeMember("alpine").Unreachable(0), false, lost(v1alpha1.ReasonUnreachable)},
		"it is another cluster":      {MakeObject("run").Runs(MakeRun("aa", "alpine", v1alpha1.RunRunning)).Placed("alpine"), MakeMember("alpine").UID("other"), false, lost(v1alpha1.ReasonWrongCluster)},
		"another, and nothing lives": {MakeObject("run").Runs(MakeRun("aa", "alpine", v1alpha1.RunSucceeded)).Placed("alpine"), MakeMember("alpine").UID("other"), false, lost("")},
		"it is not registered":       {MakeObject("run").Runs(MakeRun("aa", "alpine", v1alpha1.RunRunning)).Placed("alpine"), nil, false, lost(v1alpha1.ReasonMemberRemoved)},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			members := []*MemberWrapper{MakeMember("basalt")}
			if c.alpine != nil {
				members = append(members, c.alpine)
			}
			s := MakeSnapshot(c.object.Obj(), members...)
			anyRoom(s)
			if c.holds {
				fact(s, "alpine", func(f *plan.Facts) { f.Cached = MakeJob("bb").Unreleased().Observation() }) // it is not adopted
			}
			d := decided(t, s)
			d.Placement = c.object.Status.Placement
			var got *v1alpha1.ClusterStatus
			for _, target := range plan.Targets(s, d, d.Ledger) {
				if target.Name == "alpine" {
					got = lost("")
					if target.Lost != nil {
						got.Reason = target.Lost.Reason
					}
				}
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// A record stays on a member from which all else was removed.
func TestHaveRecords(t *testing.T) {
	f := MakeObject("run").Runs(
		MakeRun("aa", "alpine", v1alpha1.RunFailed), MakeRun("bb", "basalt", v1alpha1.RunReplaced), MakeRun("cc", "cobalt", v1alpha1.RunRunning),
	).Obj()
	f.Status.Succeeded = []v1alpha1.EndedRun{{ID: "dd", Cluster: "dolerite", State: v1alpha1.RunSucceeded}}
	if diff := cmp.Diff([]string{"alpine", "dolerite"}, plan.HaveRecords(f)); diff != "" {
		t.Error(diff)
	}
}

// Where a step was carried out in this reconciliation, or a run evicted, nothing more is done before it is placed anew.
func TestNothingMoreIsDoneInThisReconciliation(t *testing.T) {
	drained := MakeRun("aa", "alpine", v1alpha1.RunReplaced).Stopped(v1alpha1.StopDrained)
	for name, object := range map[string]*ObjectWrapper{
		"a run was evicted":    MakeObject("run").Runs(drained),
		"a run has just begun": MakeObject("run").Runs(MakeRun("aa", "alpine", v1alpha1.RunStarting)),
	} {
		s := MakeSnapshot(object.Placed("alpine").Obj(), MakeMember("alpine"))
		anyRoom(s)
		s.Queue.Reserved["alpine"] = queue.Reservation{Gang: gang(2)}
		observed(s, "alpine", none())
		d := decided(t, s)
		if round := next(t, s, d); len(round.Changed)+len(round.Due()) != 1 {
			t.Errorf("%s: before, it is %+v", name, target(t, round).Step)
		}
		step := runs.Step{Action: runs.Nothing, Reason: v1alpha1.ReasonDeleting}
		fact(s, "alpine", func(f *plan.Facts) { f.Done, f.Step = true, &step })
		round := next(t, s, d)
		if len(round.Changed)+len(round.Due()) > 0 || target(t, round).Step != step {
			t.Errorf("%s: %+v", name, target(t, round).Step)
		}
	}
}
