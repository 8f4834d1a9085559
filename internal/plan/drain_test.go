package plan_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/internal/runs"
)

// A run on a drained member is stopped whether or not another member can take it, and a member that is closed gets none.
func TestDrain(t *testing.T) {
	type outcome struct {
		Evicted v1alpha1.StopReason
		Placed  []string
		Step    runs.Action
		Stop    v1alpha1.StopReason
	}
	running := func() *ObjectWrapper { return MakeObject("run").Runs(MakeRun("aa", "alpine", v1alpha1.RunRunning)) }
	cases := map[string]struct {
		object         *ObjectWrapper
		alpine, basalt *MemberWrapper
		job            *JobWrapper // nil: none
		want           outcome
	}{
		"not drained":        {running(), MakeMember("alpine"), MakeMember("basalt"), MakeJob("aa").Running(), outcome{Placed: []string{"alpine"}, Step: runs.Nothing}},
		"drained":            {running(), MakeMember("alpine").Drained(), MakeMember("basalt"), MakeJob("aa").Running(), outcome{v1alpha1.StopDrained, []string{"basalt"}, runs.Stop, v1alpha1.StopDrained}},
		"nobody can take it": {running(), MakeMember("alpine").Drained(), MakeMember("basalt").Drained(), MakeJob("aa").Running(), outcome{v1alpha1.StopDrained, []string{}, runs.Stop, v1alpha1.StopDrained}},
		"never created":      {MakeObject("run").Runs(MakeRun("aa", "alpine", v1alpha1.RunStarting)), MakeMember("alpine").Drained(), MakeMember("basalt"), nil, outcome{v1alpha1.StopDrained, []string{"basalt"}, runs.Finish, v1alpha1.StopDrained}},
		"it has succeeded":   {running(), MakeMember("alpine").Drained(), MakeMember("basalt"), MakeJob("aa").Succeeded(), outcome{v1alpha1.StopDrained, []string{"basalt"}, runs.Finish, ""}},
		"deleted with Drain": {running(), MakeMember("alpine").Deleted(v1alpha1.DeletionDrain), MakeMember("basalt"), MakeJob("aa").Running(), outcome{v1alpha1.StopDrained, []string{"basalt"}, runs.Stop, v1alpha1.StopDrained}},
		"deleted with Block": {running(), MakeMember("alpine").Deleted(v1alpha1.DeletionBlock), MakeMember("basalt"), MakeJob("aa").Running(), outcome{Placed: []string{"alpine"}, Step: runs.Nothing}},
		"suspended":          {running(), MakeMember("alpine").Suspended(), MakeMember("basalt"), MakeJob("aa").Running(), outcome{Placed: []string{"alpine"}, Step: runs.Nothing}},
		"succeeded before":   {MakeObject("run").Runs(MakeRun("aa", "alpine", v1alpha1.RunSucceeded)), MakeMember("alpine").Drained(), MakeMember("basalt"), MakeJob("aa").Succeeded(), outcome{Placed: []string{"alpine"}, Step: runs.Nothing}},
		"an object in error": {running().With(invalid), MakeMember("alpine").Drained(), MakeMember("basalt"), MakeJob("aa").Running(), outcome{v1alpha1.StopDrained, []string{"alpine"}, runs.Stop, v1alpha1.StopDrained}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			s := MakeSnapshot(c.object.Placed("alpine").Obj(), c.alpine, c.basalt)
			anyRoom(s)
			observed(s, "alpine", none())
			observed(s, "basalt", none())
			if c.job != nil {
				observed(s, "alpine", c.job.Observation())
			}
			d := decided(t, s)
			step := target(t, next(t, s, d)).Step
			if diff := cmp.Diff(c.want, outcome{d.Evictions["alpine"].Stop, d.Placement.Clusters, step.Action, step.Stop}); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// A retry would begin on its member, which may have been closed since it was chosen.
func TestNothingBeginsOnClosedMembers(t *testing.T) {
	for name, m := range map[string]*MemberWrapper{
		"drained": MakeMember("alpine").Drained(), "suspended": MakeMember("alpine").Suspended(), "deleted": MakeMember("alpine").Deleted(v1alpha1.DeletionBlock),
	} {
		failed := MakeRun("aa", "alpine", v1alpha1.RunFailed)
		failed.CompletionTime = at(-3600e9)
		s := MakeSnapshot(MakeObject("run").With(retried(1)).Runs(failed).Placed("alpine").Obj(), m)
		anyRoom(s)
		observed(s, "alpine", none())
		step := target(t, next(t, s, decided(t, s))).Step
		if step.Action != runs.Nothing || step.Reason != v1alpha1.ReasonMemberClosed {
			t.Errorf("%s: %+v", name, step)
		}
	}
}
