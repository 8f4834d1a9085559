package clusters

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestTurnsBeginByRank(t *testing.T) {
	turns := newTurns(1)
	turns.keep = time.Hour
	first := turns.request(2)
	requests := map[string]*turn{}
	for _, r := range []struct {
		name string
		rank int
	}{{"a2", 2}, {"b1", 1}, {"c0", 0}, {"d1", 1}, {"e0", 0}, {"f2", 2}} {
		requests[r.name] = turns.request(r.rank)
	}
	var order []string
	for running := first; running != nil; {
		running.end()
		running.end() // once more counts for nothing
		running = nil
		for name, r := range requests {
			select {
			case <-r.begun:
				order, running = append(order, name), r
				delete(requests, name)
			default:
			}
		}
	}
	if diff := cmp.Diff([]string{"c0", "e0", "b1", "d1", "a2", "f2"}, order); diff != "" {
		t.Error(diff)
	}
	if turns.used != 0 || len(turns.waiting) != 0 {
		t.Errorf("%d turns are left, %d wait", turns.used, len(turns.waiting))
	}
}

// A member that has failed, whatever its rank, comes after those that have not, and by its rank among others that have.
func TestFailedAttemptsComeLast(t *testing.T) {
	turns := newTurns(1)
	turns.keep = time.Hour
	running := turns.request(0)
	live := &connection{provider: &Provider{turns: turns}}
	idle := &connection{provider: live.provider, target: Target{Rank: 2}}
	inOrder := []*turn{3: idle.nextTurn(true), 2: live.nextTurn(true), 1: idle.nextTurn(false), 0: live.nextTurn(false)}
	for i, next := range inOrder {
		running.end()
		select {
		case <-next.begun:
			running = next
		default:
			t.Fatalf("%d is not the next", i)
		}
	}
}

func TestTurnsAreBounded(t *testing.T) {
	turns := newTurns(3)
	turns.keep = time.Hour
	var all []*turn
	for range 5 {
		all = append(all, turns.request(0))
	}
	if turns.used != 3 || len(turns.waiting) != 2 {
		t.Errorf("%d turns at once, %d wait", turns.used, len(turns.waiting))
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if turns.wait(ctx, all[4]) {
		t.Error("the fifth has begun")
	}
	turns.withdraw(all[0]) // it has begun
	if !turns.wait(t.Context(), all[3]) {
		t.Error("the fourth does not begin")
	}
	for _, turn := range all[1:4] {
		turn.end()
	}
	if turns.used != 0 || len(turns.waiting) != 0 {
		t.Errorf("%d turns are left, %d wait", turns.used, len(turns.waiting))
	}
}

// None of those that hang ends its turn, and all others have theirs.
func TestNoMemberWaitsForOneThatHangs(t *testing.T) {
	turns := newTurns(2)
	turns.keep = time.Millisecond
	for range 10 {
		turns.request(0)
	}
	if !turns.wait(t.Context(), turns.request(5)) {
		t.Fatal("no turn for one that answers")
	}
}

func TestTurnsWithoutBound(t *testing.T) {
	turns := newTurns(0)
	for range 100 {
		if !turns.wait(t.Context(), turns.request(0)) {
			t.Fatal("no turn")
		}
	}
}
