package plan_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/internal/fit"
	"github.com/minifleet/minifleet/internal/plan"
	"github.com/minifleet/minifleet/internal/queue"
)

// Who waits goes on waiting while a member is not known, and no longer once it is and nothing is needed.
func TestPlaceInTheLine(t *testing.T) {
	four := gang(4)
	cases := map[string]struct {
		target plan.Target
		first  bool // it waits although it did not before
		want   bool // it waits for alpine, as it did before
	}{
		"it needs room":         {plan.Target{Name: "alpine", Needs: &four}, true, true},
		"it is not known":       {plan.Target{Name: "alpine", Connecting: true}, false, true},
		"it needs none":         {plan.Target{Name: "alpine"}, false, false},
		"another is not known":  {plan.Target{Name: "basalt", Connecting: true}, false, false},
		"another needs to wait": {plan.Target{Name: "basalt", Needs: &four}, true, false},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			s := MakeSnapshot(MakeObject("run").With(suspended).Obj(), MakeMember("alpine"), MakeMember("basalt"))
			anyRoom(s)
			d, round := decided(t, s), plan.Round{Targets: []plan.Target{c.target}}
			_, entry := round.Reservations(s, d)
			if (entry != nil) != c.first {
				t.Errorf("before it has waited: %+v", entry)
			}
			s.Queue.Pending = &queue.Entry{Gangs: map[string]fit.Gang{"alpine": four}}
			_, entry = round.Reservations(s, d)
			here := false
			if entry != nil {
				_, here = entry.On("alpine")
			}
			if here != c.want {
				t.Errorf("it waits for alpine: %t, want %t", here, c.want)
			}
		})
	}
}

// It waits for the members that would be chosen if they had room, but not where it could not begin even then.
func TestWhatItWaitsFor(t *testing.T) {
	type outcome struct {
		Waits  map[string]int
		Behind string
	}
	cases := map[string]struct {
		object *ObjectWrapper
		want   outcome
	}{
		"no room for minSize":         {MakeObject("run").With(sized(4), quorum(2)), outcome{Waits: map[string]int{"alpine": 2}}},
		"no room":                     {MakeObject("run"), outcome{Waits: map[string]int{"alpine": 2}}},
		"suspended":                   {MakeObject("run").With(suspended), outcome{}},
		"something is wrong with it":  {MakeObject("run").With(invalid), outcome{}},
		"another run has to end":      {MakeObject("run").Runs(MakeRun("cc", "cobalt", v1alpha1.RunRunning).Of("old")), outcome{}},
		"what is wanted runs already": {MakeObject("run").Runs(MakeRun("aa", "alpine", v1alpha1.RunRunning)), outcome{}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			s := MakeSnapshot(c.object.Obj(), MakeMember("alpine").Observed())
			viewed(s, queue.New(), "alpine", 3, 2)
			observed(s, "alpine", none())
			if c.object.Status.Runs != nil {
				observed(s, "alpine", MakeJob("aa").Running().Observation())
			}
			d := decided(t, s)
			_, entry := next(t, s, d).Reservations(s, d)
			var got outcome
			if entry != nil {
				got.Waits = map[string]int{}
				for member, g := range entry.Gangs {
					got.Waits[member] = g.Size
				}
				if !entry.Reconciled.Equal(start) || entry.Key.Name != "run" {
					t.Errorf("%+v", entry)
				}
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
			if waits := d.WaitInterval(s) > 0; waits != (d.Placement != nil && len(d.Placement.Waiting) > 0) {
				t.Errorf("it is reconciled again for room: %t", waits)
			}
		})
	}
}

// A placement waits for a moment for what is not known yet, and for nobody that cannot be reached.
func TestMembersThatAreNotKnownYet(t *testing.T) {
	type outcome struct {
		Placed, Notify []string
		After          time.Duration
	}
	cases := map[string]struct {
		alpine *MemberWrapper
		since  time.Duration // when the hub was started
		want   outcome
	}{
		"known":                      {MakeMember("alpine"), -time.Hour, outcome{Placed: []string{"alpine"}}},
		"connected, and not listed":  {MakeMember("alpine").NotListed(-2 * time.Second), -time.Hour, outcome{Placed: []string{}, Notify: []string{"alpine"}, After: 8 * time.Second}},
		"listing takes too long":     {MakeMember("alpine").NotListed(-time.Minute), -time.Hour, outcome{Placed: []string{"basalt"}}},
		"the hub has just started":   {MakeMember("alpine").NeverAttempted(), -3 * time.Second, outcome{Placed: []string{}, After: 7 * time.Second}},
		"the hub has started before": {MakeMember("alpine").NeverAttempted(), -time.Hour, outcome{Placed: []string{"basalt"}}},
		"it cannot be reached":       {MakeMember("alpine").Unreachable(time.Second), -time.Second, outcome{Placed: []string{"basalt"}}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			s := MakeSnapshot(MakeObject("run").Obj(), c.alpine, MakeMember("basalt"))
			s.Queue.Since = start.Add(c.since)
			anyRoom(s)
			d := decided(t, s)
			if diff := cmp.Diff(c.want, outcome{d.Placement.Clusters, d.Line.Notify, d.After}); diff != "" {
				t.Error(diff)
			}
		})
	}
}
