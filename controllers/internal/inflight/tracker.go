// Package inflight knows which reconciliations are in flight. What comes in are their starts and ends; what goes
// out is whether all that began before a point in time have ended.
package inflight

import "sync"

// Tracker tracks the reconciliations of a controller. One that began before a member was drained or deleted may
// still record a run in the ledger and create what it needs there; one that begins later sees that it must not.
// The zero value is ready.
type Tracker struct {
	mu      sync.Mutex
	next    uint64
	running map[uint64]struct{}
}

// Start notes that a reconciliation has begun, and returns what is to be called when it has ended.
func (t *Tracker) Start() (done func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.running == nil {
		t.running = map[uint64]struct{}{}
	}
	id := t.next
	t.next++
	t.running[id] = struct{}{}
	return func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		delete(t.running, id)
	}
}

// Mark is the present as a point in time for DoneBefore. It means nothing to another Tracker.
func (t *Tracker) Mark() uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.next
}

// DoneBefore says whether all reconciliations that began before a mark have ended.
func (t *Tracker) DoneBefore(mark uint64) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	for id := range t.running {
		if id < mark {
			return false
		}
	}
	return true
}
