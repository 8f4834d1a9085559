package queue

import (
	"iter"
	"reflect"

	"github.com/minifleet/minifleet/internal/fit"
)

// contenders are those of a line who may come before somebody: all, less those who would not fit if everything had ended that
// ever ends. These hold nobody up, and count as nothing for the order of the others. It is a value.
type contenders struct {
	of, line *line
	heads    []*tenant
}

func contendersOf(l *line, holds func(fit.Gang) bool) *contenders {
	c := *l
	c.tenants = make(map[string]*tenant, len(l.tenants))
	everHolds := remembering(l.member, holds)
	for namespace, t := range l.tenants {
		if t = t.contending(everHolds); len(t.waiting) > 0 {
			c.tenants[namespace] = t
		}
	}
	return &contenders{of: l, line: &c, heads: c.heads()}
}

// remembering says whether an entry ever fits on a member, without asking again for one that waits for the same as the one
// before: many do, and share the map of it.
func remembering(member string, holds func(fit.Gang) bool) func(*Entry) bool {
	var before uintptr
	var held bool
	return func(e *Entry) bool {
		if this := reflect.ValueOf(e.Gangs).Pointer(); e.Anywhere != nil || this != before {
			gang, _ := e.On(member)
			before, held = this, holds(gang)
		}
		return held
	}
}

// contending is a namespace with the contenders alone. One whose priority counts for less than it is stays: it may be younger
// than those behind it, and these have their turn after it, as late as it has.
func (t *tenant) contending(everHolds func(*Entry) bool) *tenant {
	var waiting []*Entry
	for _, e := range t.waiting {
		if e.Priority > t.maxPriority || everHolds(e) {
			waiting = append(waiting, e)
		}
	}
	if len(waiting) == len(t.waiting) {
		return t
	}
	out := *t
	out.waiting = waiting
	return &out
}

// turnsWith are the turns of the contenders and of one more, in place of itself if it waits already, and of none after it. The
// tenant is its namespace.
func (c *contenders) turnsWith(e *Entry, own *tenant, holds func(fit.Gang) bool) iter.Seq[turn] {
	t := *own
	if t.waiting = nil; c.line.tenants[t.namespace] != nil {
		t.waiting = c.line.tenants[t.namespace].waiting
	}
	return c.line.turnsOf(c.heads, newcomer(t, e), holds)
}
