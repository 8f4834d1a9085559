package live

import (
	"context"
	"errors"
	"sync"
	"time"
)

// maxRemembered is how many answers are held, and requests under way.
const maxRemembered = 1000

var errBusy = errors.New("too much is asked of members at once: try again")

// memo gives those who ask for the same the same answer, for a moment. Its zero value with a clock is ready for use.
type memo[V any] struct {
	now func() time.Time

	mu      sync.Mutex
	answers map[string]*answer[V]
}

type answer[V any] struct {
	done  chan struct{} // closed when the rest is set
	at    time.Time
	value V
	err   error
}

// get returns an answer that is not older than a moment. What has not come within Limit is an error, whatever the load
// does; its context is cancelled then.
func (m *memo[V]) get(ctx context.Context, key string, load func(context.Context) (V, error)) (V, error) {
	a, err := m.join(ctx, key, load)
	if err != nil {
		var none V
		return none, err
	}
	timer := time.NewTimer(Limit)
	defer timer.Stop()
	var none V
	select {
	case <-a.done:
		return a.value, a.err
	case <-ctx.Done():
		return none, ctx.Err()
	case <-timer.C:
		return none, errSlow
	}
}

func (m *memo[V]) join(ctx context.Context, key string, load func(context.Context) (V, error)) (*answer[V], error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if a := m.answers[key]; a != nil && !m.old(a) {
		return a, nil
	}
	if !m.hasRoom() {
		return nil, errBusy
	}
	a := &answer[V]{done: make(chan struct{})}
	m.answers[key] = a
	// It goes on when the one who asked first has lost interest: others may wait for it.
	go func() {
		ctx, cancel := within(context.WithoutCancel(ctx))
		defer cancel()
		value, err := load(ctx)
		if cause := context.Cause(ctx); err != nil && cause != nil {
			err = cause
		}
		m.mu.Lock()
		a.at, a.value, a.err = m.now(), value, err
		m.mu.Unlock()
		close(a.done)
	}()
	return a, nil
}

// old says whether an answer is not to be used any more. The memo is locked.
func (m *memo[V]) old(a *answer[V]) bool {
	select {
	case <-a.done:
		return m.now().Sub(a.at) >= memory
	default:
		return false
	}
}

// hasRoom makes room for one more, if it can. The memo is locked.
func (m *memo[V]) hasRoom() bool {
	if m.answers == nil {
		m.answers = map[string]*answer[V]{}
	}
	if len(m.answers) < maxRemembered {
		return true
	}
	for key, a := range m.answers {
		if m.old(a) {
			delete(m.answers, key)
		}
	}
	return len(m.answers) < maxRemembered
}
