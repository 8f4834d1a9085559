package plan_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/internal/plan"
	"github.com/minifleet/minifleet/internal/runs"
)

// The plan asks for no more than a decision takes.
func TestReads(t *testing.T) {
	running := func() *ObjectWrapper {
		return MakeObject("run").Runs(MakeRun("aa", "alpine", v1alpha1.RunRunning)).Placed("alpine")
	}
	cases := map[string]struct {
		object         *ObjectWrapper
		alpine, basalt *MemberWrapper
		decide, next   plan.Reads // next: where decide has nothing
	}{
		"a new run asks for room": {object: MakeObject("run"), decide: plan.Reads{Members: map[string][]plan.Fact{"alpine": {plan.ReadRoom}}}},
		"a live run is confirmed": {object: running(), next: plan.Reads{Members: map[string][]plan.Fact{"alpine": {plan.ReadConfirmed}}}},
		"a run that has ended is not": {object: MakeObject("run").Runs(MakeRun("aa", "alpine", v1alpha1.RunSucceeded)).Placed("alpine"),
			next: plan.Reads{Members: map[string][]plan.Fact{"alpine": {plan.ReadObserved}}}},
		"nothing is asked of members that are lost":       {object: running(), alpine: MakeMember("alpine").Unreachable(0)},
		"nor of another cluster":                          {object: running(), alpine: MakeMember("alpine").UID("other")},
		"permissions are asked for where some are needed": {object: running().With(privileged), decide: plan.Reads{Grants: true}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if c.alpine == nil {
				c.alpine = MakeMember("alpine")
			}
			s := MakeSnapshot(c.object.Obj(), c.alpine, MakeMember("basalt"))
			d, reads := plan.Decide(s, nil)
			if diff := cmp.Diff(c.decide, reads); diff != "" {
				t.Fatal(diff)
			}
			if reads.Any() {
				return
			}
			_, reads = plan.Next(s, d, d.Ledger)
			if diff := cmp.Diff(c.next, reads); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// copied is a snapshot that shares nothing with another that a plan could change.
func copied(s *plan.Snapshot) *plan.Snapshot {
	c := *s
	c.Object, c.Placement = s.Object.DeepCopy(), s.Placement.DeepCopy()
	c.Members = slices.Clone(s.Members)
	for i := range c.Members {
		c.Members[i].Cluster = c.Members[i].Cluster.DeepCopy()
	}
	c.Facts = map[string]plan.Facts{}
	for name, f := range s.Facts {
		for _, o := range []**plan.Observation{&f.Observed, &f.Cached} {
			if *o != nil && (*o).Job != nil {
				job := *(*o).Job
				*o = &plan.Observation{Job: &job, Object: (*o).Object.DeepCopy()}
			}
		}
		c.Facts[name] = f
	}
	return &c
}

// What a decision is made of stays as it is, and leads to the same decision every time.
func TestPlanChangesNothingThatItIsGiven(t *testing.T) {
	ignored := cmp.Options{
		cmpopts.IgnoreTypes(plan.Variants{}), cmpopts.EquateEmpty(),
		cmp.FilterPath(func(p cmp.Path) bool {
			n := p.Last().String()
			return n == ".Room" || n == ".RoomBeside" || n == ".Variants" || n == ".View" || n == ".Gang" || n == ".Gangs" || n == ".Anywhere" || n == ".Needs" || n == ".uid" || n == ".asked" || n == ".unknownRun" || n == ".succeeded" || n == ".superseded"
		}, cmp.Ignore()),
	}
	for _, name := range []string{"a change, replacing", "drained, and a slow start", "lost with its runs", "room for one on each", "pods do not start", "retried"} {
		s := *stories[name]
		s.calm, s.stale, s.slow = true, false, false
		calls := 0
		s.explore(t, func(given *plan.Snapshot, d *plan.Decision, ledger runs.Ledger) {
			if calls++; calls%7 != 0 || t.Failed() {
				return
			}
			before, lines := copied(given), slices.Clone(ledger)
			if d == nil {
				first, reads := plan.Decide(given, nil)
				second, again := plan.Decide(given, first)
				if diff := cmp.Diff(first, second, ignored) + cmp.Diff(reads, again); diff != "" {
					t.Errorf("%s: another decision: %s", name, diff)
				}
			} else {
				first, reads := plan.Next(given, d, ledger)
				second, again := plan.Next(given, d, ledger)
				if diff := cmp.Diff(first, second, ignored) + cmp.Diff(reads, again); diff != "" {
					t.Errorf("%s: another round: %s", name, diff)
				}
			}
			if diff := cmp.Diff(before, given, ignored) + cmp.Diff(lines, ledger); diff != "" {
				t.Errorf("%s: changed: %s", name, diff)
			}
		})
		if calls < 100 {
			t.Errorf("%s: only %d decisions", name, calls)
		}
	}
}
