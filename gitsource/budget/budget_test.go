package budget_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/minifleet/minifleet/gitsource/budget"
)

func TestSpend(t *testing.T) {
	b := budget.New(t.Context(), budget.Limits{MaxTreeEntries: 1000}, nil)
	if err := b.Spend(budget.TreeEntries, 1000, "a"); err != nil {
		t.Fatalf("within the limit: %v", err)
	}
	err := b.Spend(budget.TreeEntries, 1, "a/\x1b[2J"+strings.Repeat("x", 1000))
	var exceeded *budget.Exceeded
	if !errors.As(err, &exceeded) {
		t.Fatalf("beyond the limit: %v", err)
	}
	for _, part := range []string{"1,000 files and folders", `(at "a/\ufffd[2Jxxx`, "spec.path"} {
		if !strings.Contains(strings.ReplaceAll(err.Error(), "\uFFFD", `\ufffd`), part) {
			t.Errorf("%q does not say %q", err, part)
		}
	}
	if len(err.Error()) > 600 {
		t.Errorf("the message has %d bytes", len(err.Error()))
	}
	if got := b.Left(budget.TreeEntries); got != 0 {
		t.Errorf("%d left", got)
	}
}

func TestEveryKindHasALimitAndAMessage(t *testing.T) {
	b := budget.New(t.Context(), budget.Limits{}, nil)
	for kind := budget.Refs; kind <= budget.TextBytes; kind++ {
		if err := b.Spend(kind, 1, ""); err != nil {
			t.Errorf("kind %d: %v", kind, err)
		}
		err := b.Spend(kind, 1<<62, "here")
		if err == nil || strings.Contains(err.Error(), "%!") || !strings.Contains(err.Error(), "; ") {
			t.Errorf("kind %d: %v", kind, err)
		}
	}
	if err := b.Objects(budget.DefaultMaxObjects+1, "a.yaml"); err == nil || !strings.Contains(err.Error(), "5,000 objects") {
		t.Errorf("objects: %v", err)
	}
}

func TestTimeIsSpentToo(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	b := budget.New(ctx, budget.Limits{}, nil)
	cancel()
	for name, err := range map[string]error{"spend": b.Spend(budget.Values, 1, ""), "hold": b.Hold(1, "")} {
		if !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestHold(t *testing.T) {
	reserved, released := 0, 0
	b := budget.New(t.Context(), budget.Limits{MaxMemoryBytes: 3 * budget.SmallBytes}, func(context.Context) (func(), error) {
		reserved++
		return func() { released++ }, nil
	})
	steps := []struct {
		hold, free int64
		reserved   int
		fails      bool
	}{{hold: budget.SmallBytes}, {hold: 1, reserved: 1}, {free: 1, hold: budget.SmallBytes, reserved: 1}, {hold: 2 * budget.SmallBytes, reserved: 1, fails: true}}
	for i, s := range steps {
		b.Free(s.free)
		if err := b.Hold(s.hold, ""); (err != nil) != s.fails || reserved != s.reserved {
			t.Errorf("step %d: %v, %d reservations", i, err, reserved)
		}
	}
	b.Close()
	b.Close()
	if released != 1 {
		t.Errorf("released %d times", released)
	}
	refused := errors.New("no memory")
	b = budget.New(t.Context(), budget.Limits{}, func(context.Context) (func(), error) { return nil, refused })
	if err := b.Hold(budget.SmallBytes+1, ""); !errors.Is(err, refused) {
		t.Errorf("a reservation that is refused: %v", err)
	}
}

func TestWithoutABudget(t *testing.T) {
	var b *budget.Budget
	if err := errors.Join(b.Spend(budget.Values, 1<<62, ""), b.Hold(1<<62, ""), b.Objects(1<<30, "")); err != nil {
		t.Error(err)
	}
	b.Free(1)
	b.Close()
	if b.Left(budget.Values) == 0 || b.Limits().MaxFiles == 0 {
		t.Error("a nil budget has limits of its own, or nothing left")
	}
}
