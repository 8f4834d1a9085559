package live

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func TestMemo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, loads := &memo[int]{now: time.Now}, 0
		load := func(context.Context) (int, error) {
			loads++
			time.Sleep(100 * time.Millisecond)
			return loads, t.Context().Err()
		}
		ask := func(want int) {
			t.Helper()
			if got, err := m.get(t.Context(), "k", load); err != nil || got != want {
				t.Errorf("got %d, %v", got, err)
			}
		}
		var all sync.WaitGroup
		for range 50 {
			all.Go(func() { ask(1) })
		}
		all.Wait()
		ask(1)
		time.Sleep(memory)
		ask(2)
		if _, err := m.get(t.Context(), "other", load); err != nil || loads != 3 {
			t.Errorf("%d loads, %v", loads, err)
		}
	})
}

// Whoever hangs is waited for no longer than Limit, and its answer is given up; errors are remembered like answers.
func TestMemoOfWhatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, deaf := &memo[int]{now: time.Now}, make(chan struct{})
		ended := false
		for name, load := range map[string]func(context.Context) (int, error){
			"until it is told to end": func(ctx context.Context) (int, error) {
				<-ctx.Done()
				_, hasDeadline := ctx.Deadline()
				ended = !hasDeadline
				return 0, ctx.Err()
			},
			"for ever": func(context.Context) (int, error) { <-deaf; return 0, nil },
		} {
			start := time.Now()
			_, err := m.get(t.Context(), name, load)
			if !errors.Is(err, errSlow) || time.Since(start) != Limit {
				t.Errorf("%s: %v after %s", name, err, time.Since(start))
			}
		}
		synctest.Wait()
		if !ended {
			t.Error("the load goes on, or had a deadline, which would cast doubt on the member")
		}
		close(deaf)
	})
}

// The first who asks may lose interest, and others get the answer all the same.
func TestMemoWhenTheFirstIsCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &memo[int]{now: time.Now}
		load := func(ctx context.Context) (int, error) {
			time.Sleep(100 * time.Millisecond)
			return 1, ctx.Err()
		}
		first, cancel := context.WithCancel(t.Context())
		var all sync.WaitGroup
		all.Go(func() {
			if _, err := m.get(first, "k", load); !errors.Is(err, context.Canceled) {
				t.Errorf("got %v", err)
			}
		})
		synctest.Wait()
		all.Go(func() {
			if got, err := m.get(t.Context(), "k", load); got != 1 || err != nil {
				t.Errorf("got %d, %v", got, err)
			}
		})
		synctest.Wait()
		cancel()
		all.Wait()
	})
}

func TestMemoIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &memo[int]{now: time.Now}
		load := func(context.Context) (int, error) { return 1, nil }
		for i := range 2 * maxRemembered {
			_, err := m.get(t.Context(), fmt.Sprint(i), load)
			if full := i >= maxRemembered; full != errors.Is(err, errBusy) {
				t.Fatalf("%d: %v", i, err)
			}
		}
		time.Sleep(memory)
		if _, err := m.get(t.Context(), "new", load); err != nil || len(m.answers) != 1 {
			t.Errorf("%v, %d answers are held", err, len(m.answers))
		}
	})
}
