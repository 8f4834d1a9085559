package auth

import (
	"context"
	"time"

	"golang.org/x/sync/singleflight"
	"k8s.io/utils/lru"
)

// answers keeps what the API server has said, the most recently used so many. An error is not an answer. One question is
// asked once at a time, however many wait for it.
type answers[V any] struct {
	kept    *lru.Cache
	flights singleflight.Group
	timeout time.Duration
	now     func() time.Time
}

type answer[V any] struct {
	value V
	asked time.Time // not when the answer came: what it says may have ended right after
}

func newAnswers[V any](most int, timeout time.Duration, now func() time.Time) *answers[V] {
	return &answers[V]{kept: lru.New(most), timeout: timeout, now: now}
}

// last returns the last answer that is kept, and its age.
func (a *answers[V]) last(key digest) (value V, age time.Duration, ok bool) {
	if kept, found := a.kept.Get(key); found {
		if last, is := kept.(answer[V]); is {
			return last.value, a.now().Sub(last.asked), true
		}
	}
	return value, 0, false
}

// get returns an answer that is at most so old, and asks if there is none. A caller that goes away does not end the
// question for the others who wait for it.
func (a *answers[V]) get(ctx context.Context, key digest, within time.Duration, ask func(context.Context) (V, error)) (V, error) {
	if value, age, ok := a.last(key); ok && age < within {
		return value, nil
	}
	var none V
	if err := ctx.Err(); err != nil {
		return none, err
	}
	flight := a.flights.DoChan(string(key[:]), func() (any, error) {
		if value, age, ok := a.last(key); ok && age < within {
			return value, nil
		}
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), a.timeout)
		defer cancel()
		asked := a.now()
		value, err := ask(ctx)
		if err != nil {
			return nil, err
		}
		a.kept.Add(key, answer[V]{value, asked})
		return value, nil
	})
	// Whatever asks may not heed its context.
	timeout := time.NewTimer(a.timeout)
	defer timeout.Stop()
	select {
	case <-ctx.Done():
		return none, ctx.Err()
	case <-timeout.C:
		return none, context.DeadlineExceeded
	case result := <-flight:
		if value, ok := result.Val.(V); ok && result.Err == nil {
			return value, nil
		}
		return none, result.Err
	}
}
