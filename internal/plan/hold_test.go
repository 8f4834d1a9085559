package plan_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/internal/runs"
)

// Nothing begins on alpine while a run that has to end first is live on basalt.
func TestHold(t *testing.T) {
	type outcome struct {
		Action  runs.Action
		Message string
	}
	began := outcome{Action: runs.Begin}
	cases := map[string]struct {
		object  *ObjectWrapper
		members []*MemberWrapper
		want    outcome
	}{
		"nothing is live": {MakeObject("run"), nil, began},
		"what is live elsewhere has left the placement": {
			MakeObject("run").Runs(MakeRun("bb", "basalt", v1alpha1.RunRunning).Of("old")), nil,
			outcome{runs.Nothing, "waiting for the run on basalt to end, which is no longer in the placement"},
		},
		"its member cannot be reached": {
			MakeObject("run").Runs(MakeRun("bb", "basalt", v1alpha1.RunRunning).Of("old")), []*MemberWrapper{MakeMember("basalt").Unreachable(0)},
			outcome{runs.Nothing, "waiting for the run on basalt to end, which is no longer in the placement"},
		},
		"its member is not registered": {
			MakeObject("run").Runs(MakeRun("cc", "cobalt", v1alpha1.RunRunning).Of("old")), nil,
			outcome{runs.Nothing, "waiting for the run on cobalt to end, which is no longer in the placement"},
		},
		"it is evicted": {
			MakeObject("run").Runs(MakeRun("bb", "basalt", v1alpha1.RunRunning)), []*MemberWrapper{MakeMember("basalt").Drained()},
			outcome{runs.Nothing, "waiting until nothing is left of run bb on basalt, which is stopped: its member is drained (annotation minifleet.dev/drain)"},
		},
		"it is being stopped": {
			MakeObject("run").Runs(MakeRun("bb", "basalt", v1alpha1.RunStopping).Stopped(v1alpha1.StopLost)), nil,
			outcome{runs.Nothing, "waiting until nothing is left of run bb on basalt, which is being stopped (Lost)"},
		},
		"it has ended":       {MakeObject("run").Runs(MakeRun("bb", "basalt", v1alpha1.RunSucceeded).Of("old")), nil, began},
		"all members run it": {MakeObject("run").Everywhere().Runs(MakeRun("cc", "cobalt", v1alpha1.RunRunning).Of("old")), nil, began},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			members := append([]*MemberWrapper{MakeMember("alpine")}, c.members...)
			if len(c.members) == 0 {
				members = append(members, MakeMember("basalt"))
			}
			s := MakeSnapshot(c.object.Obj(), members...)
			anyRoom(s)
			for _, m := range s.Members {
				if job := MakeJob("bb").Running(); m.Cluster.Name == "basalt" && m.Connection.Connected {
					observed(s, "basalt", job.Observation())
				}
			}
			observed(s, "alpine", none())
			step := target(t, next(t, s, decided(t, s))).Step
			if diff := cmp.Diff(c.want, outcome{step.Action, step.Message}); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// Room is kept for a run that begins as soon as another one, which is on its way out, has ended; not for one that waits
// for another to end by itself.
func TestRoomIsKeptWhileAnotherRunIsStopped(t *testing.T) {
	cases := map[string]struct {
		object *ObjectWrapper
		basalt *MemberWrapper
		want   []string
	}{
		"nothing is live":    {MakeObject("run"), MakeMember("basalt"), []string{"alpine"}},
		"one is evicted":     {MakeObject("run").Runs(MakeRun("bb", "basalt", v1alpha1.RunRunning)), MakeMember("basalt").Drained(), []string{"alpine"}},
		"one is stopped":     {MakeObject("run").Runs(MakeRun("bb", "basalt", v1alpha1.RunStopping).Stopped(v1alpha1.StopDrained)), MakeMember("basalt"), []string{"alpine"}},
		"one is to end":      {MakeObject("run").Runs(MakeRun("bb", "basalt", v1alpha1.RunRunning).Of("old")), MakeMember("basalt"), nil},
		"it is suspended":    {MakeObject("run").With(suspended), MakeMember("basalt"), nil},
		"it is for this one": {MakeObject("run").Runs(MakeRun("aa", "alpine", v1alpha1.RunRunning)), MakeMember("basalt"), nil},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			s := MakeSnapshot(c.object.Obj(), MakeMember("alpine"), c.basalt)
			anyRoom(s)
			var got []string
			for _, r := range decided(t, s).Reserve {
				got = append(got, r.View.Member)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}
