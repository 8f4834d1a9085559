package queue_test

import (
	"errors"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/minifleet/minifleet/internal/queue"
)

func TestRestore(t *testing.T) {
	q := queue.New()
	equal(t, time.Time{}, q.Since())
	failed := errors.New("listing FleetMiniClusters: no answer")
	if err := q.Restore(hour(1), func() ([]queue.Restored, error) {
		return []queue.Restored{{Key: key("z"), Reservations: reservations{"alpine": {Gang: gang(1)}}}}, failed
	}); !errors.Is(err, failed) {
		t.Errorf("got %v", err)
	}
	equal(t, time.Time{}, q.Since())
	equal(t, map[string]int{}, q.Runs())

	e := entry("b", 4, 1, gang(2), anywhere)
	equal(t, nil, q.Restore(hour(2), func() ([]queue.Restored, error) {
		return []queue.Restored{
			{Key: key("a"), Reservations: reservations{"alpine": {Run: runA, Gang: gang(4), Succeeded: 1}, "basalt": {Run: runB, Gang: gang(1)}}},
			{Key: key("b"), Entry: &e},
			{Key: key("c")},
		}, nil
	}))
	equal(t, nil, q.Restore(hour(3), func() ([]queue.Restored, error) {
		t.Error("it is loaded again")
		return nil, nil
	}))
	equal(t, hour(2), q.Since())
	equal(t, reservations{"alpine": {Run: runA, Gang: gang(4), Succeeded: 1}, "basalt": {Run: runB, Gang: gang(1)}}, q.Reservations(key("a")))
	equal(t, &e, q.Pending(key("b")))
	equal(t, map[string]int{"alpine": 1, "basalt": 1}, q.Runs())
	equal(t, map[string]int64{"a": 5}, freeCores(q.View("alpine", newMember(node("a", "8", nil)).Room(), key("self"))))
	equal(t, true, q.Waits("cinder"))
}

func TestRestoreKeepsReservationsThatAreNewer(t *testing.T) {
	q := queue.New()
	reserve(q, "a", reservations{"alpine": {Run: runB, Gang: gang(1)}})
	equal(t, nil, q.Restore(hour(2), func() ([]queue.Restored, error) {
		return []queue.Restored{
			{Key: key("a"), Reservations: reservations{"alpine": {Run: runA, Gang: gang(4)}}},
			{Key: key("b"), Reservations: reservations{"alpine": {Run: runC, Gang: gang(2)}}},
		}, nil
	}))
	equal(t, reservations{"alpine": {Run: runB, Gang: gang(1)}}, q.Reservations(key("a")))
	equal(t, reservations{"alpine": {Run: runC, Gang: gang(2)}}, q.Reservations(key("b")))
}

// Whoever comes while the queue is being restored finds it restored.
func TestRestoreHasOthersWait(t *testing.T) {
	q := queue.New()
	var early atomic.Bool
	restored := make(chan struct{})
	equal(t, nil, q.Restore(hour(1), func() ([]queue.Restored, error) {
		var returned atomic.Bool
		go func() {
			defer close(restored)
			if err := q.Restore(hour(2), func() ([]queue.Restored, error) {
				early.Store(true)
				return nil, nil
			}); err != nil {
				t.Error(err)
			}
			returned.Store(true)
			equal(t, map[string]int{"alpine": 1}, q.Runs())
		}()
		for range 1000 {
			runtime.Gosched()
		}
		if returned.Load() {
			t.Error("it does not wait")
		}
		return []queue.Restored{{Key: key("a"), Reservations: reservations{"alpine": {Gang: gang(1)}}}}, nil
	}))
	<-restored
	if early.Load() {
		t.Error("it is loaded twice")
	}
	equal(t, hour(1), q.Since())
}
