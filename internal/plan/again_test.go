package plan_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/minifleet/minifleet/internal/plan"
	"github.com/minifleet/minifleet/internal/queue"
	"github.com/minifleet/minifleet/internal/runs"
)

// sameDecision leaves out what decisions keep for the next attempt, and what is the same by identity.
var sameDecision = cmp.Options{
	cmpopts.IgnoreTypes(plan.Variants{}), cmpopts.IgnoreUnexported(plan.Decision{}), cmpopts.EquateEmpty(),
	cmpopts.IgnoreFields(queue.Request{}, "View"), cmpopts.IgnoreFields(queue.Reservation{}, "Gang"),
}

// What an attempt takes over from the one before is what it would have found itself.
func TestAttemptsDecideAsOneThatBeginsAnew(t *testing.T) {
	attempts := 0
	for _, name := range []string{"a change, replacing", "drained, and a slow start", "lost with its runs", "room for one on each", "pods do not start", "retried"} {
		s := *stories[name]
		s.calm, s.stale, s.slow = true, false, false
		var snapshot *plan.Snapshot
		var before *plan.Decision
		s.explore(t, func(given *plan.Snapshot, d *plan.Decision, _ runs.Ledger) {
			switch {
			case d != nil || t.Failed():
				return
			case given == snapshot:
				attempts++
			default:
				snapshot, before = given, nil
			}
			next, reads := plan.Decide(given, before)
			anew, again := plan.Decide(given, nil)
			if diff := cmp.Diff(anew, next, sameDecision) + cmp.Diff(again, reads); diff != "" {
				t.Errorf("%s: %s", name, diff)
			}
			before = next
		})
	}
	if attempts < 200 {
		t.Errorf("only %d attempts had one before", attempts)
	}
}

// So it is where rooms are asked for again and again.
func TestAttemptsAtALargeFleet(t *testing.T) {
	f := newLargeFleet(100, 1, 50)
	f.wait(3)
	for name, change := range placements {
		o := MakeObject("run").With(change).Obj()
		s, before := f.snapshot(o), (*plan.Decision)(nil)
		attempts := 1
		for ; ; attempts++ {
			next, reads := plan.Decide(s, before)
			anew, again := plan.Decide(s, nil)
			if diff := cmp.Diff(anew, next, sameDecision) + cmp.Diff(again, reads); diff != "" {
				t.Fatalf("%s: attempt %d: %s", name, attempts, diff)
			}
			if before = next; !reads.Any() {
				break
			}
			f.read(t, s, reads)
		}
		if attempts < 3 {
			t.Errorf("%s: %d attempts", name, attempts)
		}
	}
}
