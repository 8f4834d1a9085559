package queue_test

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/minifleet/minifleet/internal/fit"
	"github.com/minifleet/minifleet/internal/queue"
)

// Many use a queue at once, each for a FleetMiniCluster of its own. What all have reserved at any time fits.
func TestQueueIsSafeForConcurrentUse(t *testing.T) {
	const users, turns, capacity = 8, 60, 16
	q, room := queue.New(), newMember(node("a", "8", nil), node("b", "8", nil)).Room()
	var reserved, granted atomic.Int64
	turn := func(r queue.Rank, size int) {
		g := gang(size)
		v := q.View("alpine", room, r.Key)
		if v.Check(g, r).Blocked != "" || !q.Reserve(r.Key, []queue.Request{request(v, g)}) {
			q.Update(r.Key, nil, &queue.Entry{Rank: r, Gangs: map[string]fit.Gang{"alpine": g}})
			return
		}
		granted.Add(1)
		if n := reserved.Add(int64(size)); n > capacity {
			t.Errorf("%d cores are reserved of %d", n, capacity)
		}
		q.Update(r.Key, reservations{"alpine": {Run: runA, Gang: g}}, nil)
		reserved.Add(-int64(size)) // before it is released, so that this is never more than what is reserved
		q.Release(r.Key)
	}
	var all sync.WaitGroup
	for i := range users {
		all.Go(func() {
			r := queue.Rank{Priority: int32(i % 2), Key: key(fmt.Sprint(i))}
			for n := range turns {
				turn(r, 1+(i+n)%capacity)
				q.NotifyWhenKnown("alpine", r.Key)
				q.Known("alpine", n)
				q.Affected("alpine", room, hour(n%24))
				q.Waits("alpine")
				q.Pending(r.Key)
				q.Reservations(r.Key)
				q.Runs()
				if err := q.Restore(hour(1), func() ([]queue.Restored, error) { return nil, nil }); err != nil {
					t.Error(err)
				}
				q.Since()
			}
			q.Dequeue(r.Key)
		})
	}
	all.Wait()
	if granted.Load() == 0 {
		t.Error("nobody has reserved anything")
	}
	equal(t, map[string]int{}, q.Runs())
	equal(t, false, q.Waits("alpine"))
}
