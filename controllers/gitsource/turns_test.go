package gitsource

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/minifleet/minifleet/gitsource/fetch"
)

func TestTurnsOfANamespace(t *testing.T) {
	var turns turns
	key := func(namespace string, i int) types.NamespacedName {
		return types.NamespacedName{Namespace: namespace, Name: fmt.Sprint(i)}
	}
	var ends []func()
	for i := range 1000 {
		end, again := turns.take(key("hostile", i))
		switch {
		case i < DefaultPerNamespace && end == nil:
			t.Fatalf("source %d has no turn", i)
		case i >= DefaultPerNamespace && (end != nil || again < minTurnDelay || again > maxTurnDelay):
			t.Fatalf("source %d: a turn, or asks again after %s", i, again)
		case end != nil:
			ends = append(ends, end)
		}
	}
	if _, again := turns.take(key("hostile", 999)); again < 10*time.Second {
		t.Errorf("with a thousand that wait, it asks again after %s", again)
	}
	other, _ := turns.take(key("other", 1))
	if other == nil {
		t.Fatal("another namespace has to wait")
	}
	ends[0]()
	end, _ := turns.take(key("hostile", 500))
	if end == nil {
		t.Fatal("no turn after one has ended")
	}
	end()
	ends[1]()
	other()
	for i := range 1000 {
		turns.forget(key("hostile", i))
	}
	if len(turns.active)+len(turns.waiting) != 0 {
		t.Errorf("what is left: %v, %v", turns.active, turns.waiting)
	}
}

func TestReservations(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var r reservations
		first, err := r.take(t.Context(), "hostile")
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, err = r.take(ctx, "hostile")
		var failure *fetch.Error
		if !errors.As(err, &failure) || failure.Reason != fetch.ReasonWaitingForMemory || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a second one of the namespace: %v", err)
		}
		second, err := r.take(t.Context(), "other")
		if err != nil {
			t.Errorf("one of another namespace: %v", err)
		}
		got := make(chan error)
		go func() {
			_, err := r.take(t.Context(), "third")
			got <- err
		}()
		synctest.Wait()
		select {
		case err := <-got:
			t.Errorf("a third one did not wait: %v", err)
		default:
		}
		second()
		second() // counts once
		if err := <-got; err != nil {
			t.Error(err)
		}
		first()
		if r.total != 1 {
			t.Errorf("%d are taken", r.total)
		}
	})
}

// Those that wait do so no longer than for a turn.
func TestTurnThatEndsWakesAnother(t *testing.T) {
	var woken []string
	turns := turns{perNamespace: 1, wake: func(key types.NamespacedName) { woken = append(woken, key.String()) }}
	key := func(namespace, name string) types.NamespacedName {
		return types.NamespacedName{Namespace: namespace, Name: name}
	}
	end, _ := turns.take(key("physics", "a"))
	for _, name := range []string{"b", "c"} {
		if second, _ := turns.take(key("physics", name)); second != nil {
			t.Fatal("a second turn at the same time")
		}
	}
	other, _ := turns.take(key("chemistry", "a"))
	other()
	if len(woken) != 0 {
		t.Error("a turn of another namespace wakes", woken)
	}
	end()
	if len(woken) != 1 || woken[0] != "physics/b" && woken[0] != "physics/c" {
		t.Fatal(woken)
	}
	next, _ := turns.take(types.NamespacedName{Namespace: "physics", Name: woken[0][len("physics/"):]})
	next()
	if len(woken) != 2 || woken[0] == woken[1] {
		t.Error(woken)
	}
}
