package clusters

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"
)

const (
	// DefaultConnects is how many members are connected at once where nothing is said.
	DefaultConnects = 32
	// turnTime is how long a member keeps its turn that is not connected yet: one that hangs delays the others by no more.
	turnTime = 250 * time.Millisecond
	// afterFailure is added to the rank of a member whose last attempt has failed; it is more than there are ranks.
	afterFailure = 1 << 10
)

// turns bound how many members are connected at once: thousands at the same time would each be so slow that all of them seem
// lost. A turn ends when the member is connected, when it has failed, or when it takes long, for whatever reason.
type turns struct {
	// most is how many there are at once; 0 is no bound.
	most int
	// keep is how long each lasts at most.
	keep time.Duration

	mu   sync.Mutex
	used int
	// waiting is ordered by rank, and for the same rank by who has come first.
	waiting []*turn
}

// turn is that of one member.
type turn struct {
	rank  int
	begun chan struct{} // closed when it begins
	end   func()        // may be called again
}

func newTurns(most int) *turns { return &turns{most: most, keep: turnTime} }

// request asks for a turn, which begins before all others of a higher rank that have not begun.
func (t *turns) request(rank int) *turn {
	own := &turn{rank: rank, begun: make(chan struct{}), end: sync.OnceFunc(func() { t.begin(1) })}
	t.mu.Lock()
	at, _ := slices.BinarySearchFunc(t.waiting, rank, func(w *turn, rank int) int { return cmp.Or(cmp.Compare(w.rank, rank), -1) })
	t.waiting = slices.Insert(t.waiting, at, own)
	t.mu.Unlock()
	t.begin(0)
	return own
}

// begin has as many turns begin as there is room for after some have ended.
func (t *turns) begin(ended int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.used -= ended
	for (t.used < t.most || t.most == 0) && len(t.waiting) > 0 {
		first := t.waiting[0]
		t.waiting = slices.Delete(t.waiting, 0, 1)
		t.used++
		time.AfterFunc(t.keep, first.end)
		close(first.begun)
	}
}

// wait waits for a turn. It says whether that has begun before the context ended.
func (t *turns) wait(ctx context.Context, own *turn) bool {
	select {
	case <-own.begun:
		return true
	case <-ctx.Done():
		t.withdraw(own)
		return false
	}
}

// withdraw takes back a request, or ends the turn where that has begun.
func (t *turns) withdraw(own *turn) {
	t.mu.Lock()
	at := slices.Index(t.waiting, own)
	if at >= 0 {
		t.waiting = slices.Delete(t.waiting, at, at+1)
	}
	t.mu.Unlock()
	if at < 0 {
		own.end()
	}
}
