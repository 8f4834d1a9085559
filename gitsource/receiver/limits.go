package receiver

import (
	"time"

	"golang.org/x/time/rate"
)

// Limit is how many requests of one kind are read.
type Limit struct {
	// PerSecond is how many in a second, Burst how many of them at once at first.
	PerSecond, Burst int
	// Open is how many may be under way.
	Open int
}

// Limits bound the work that requests make. Those of one path, namespace or kind do not take away from others.
type Limits struct {
	// Path is for each path, whether there is a hook or not, Namespace for all hooks of one namespace, Hooks for all hooks.
	Path, Namespace, Hooks Limit
	// Unknown is for all requests to paths without a hook. Beyond it they are answered as ever, without work.
	Unknown Limit
	// Triggers is how often a hook has its source reconciled at once. More wait, all together, for the next time.
	Triggers Limit
}

// DefaultLimits are for a hub with some thousand sources.
func DefaultLimits() Limits {
	return Limits{
		Path:      Limit{PerSecond: 10, Burst: 60, Open: 8},
		Namespace: Limit{PerSecond: 50, Burst: 200, Open: 32},
		Hooks:     Limit{PerSecond: 200, Burst: 800, Open: 128},
		Unknown:   Limit{PerSecond: 20, Burst: 60, Open: 16},
		Triggers:  Limit{PerSecond: 1, Burst: 5},
	}
}

// allowance is what is left of a Limit.
type allowance struct {
	rate  *rate.Limiter
	slots chan struct{}
}

func newAllowance(l Limit) *allowance {
	return &allowance{rate: rate.NewLimiter(rate.Limit(l.PerSecond), l.Burst), slots: make(chan struct{}, l.Open)}
}

// take counts a request that begins, unless there are too many. The caller calls end when it has ended.
func (a *allowance) take(now time.Time) bool {
	if !a.rate.AllowN(now, 1) {
		return false
	}
	select {
	case a.slots <- struct{}{}:
		return true
	default:
		return false
	}
}

func (a *allowance) end() { <-a.slots }

// takeAll takes of all of them, or none. It returns what gives that back, or nil.
func takeAll(now time.Time, all ...*allowance) (end func()) {
	for i, a := range all {
		if !a.take(now) {
			endAll(all[:i])
			return nil
		}
	}
	return func() { endAll(all) }
}

func endAll(all []*allowance) {
	for _, a := range all {
		a.end()
	}
}

// pace spaces the reconciliations that a hook asks for.
type pace struct {
	rate *rate.Limiter
	// pending is when the last one is due; until then others come with it.
	pending time.Time
}

// next is after how long to reconcile for a request at a time; none is due for it if one is that has not begun.
func (p *pace) next(now time.Time) (after time.Duration, due bool) {
	if p.pending.After(now) {
		return 0, false
	}
	after = p.rate.ReserveN(now, 1).DelayFrom(now)
	p.pending = now.Add(after)
	return after, true
}
