package queue

import (
	"fmt"
	"slices"
	"time"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/internal/fit"
	"github.com/minifleet/minifleet/internal/fleet"
	"github.com/minifleet/minifleet/internal/nodeusage"
)

// View is what a FleetMiniCluster may count on at a member. It is a value: nothing in it changes.
type View struct {
	Member string
	// State says whether Nodes are known.
	State nodeusage.State

	spare *spare
	// line are those that wait on this member, the one among them that it was made for; own is the namespace of that.
	line    *line
	own     *tenant
	room    *nodeusage.Room
	version int
}

// Nodes are the member's, with what is free less what others have reserved: a copy, to reserve room on.
func (v *View) Nodes() []fleet.Node { return fit.Clone(v.spare.table.Nodes) }

// Scheduled is how many pods of a run have a node.
func (v *View) Scheduled(run string) fleet.Scheduled { return v.room.Scheduled(run) }

// Fit is how a gang fits on a member, in its turn.
type Fit struct {
	fit.Result
	// Blocked is why it may not begin; empty if it may. It names nobody of other namespaces.
	Blocked string
	// Quota says that the reason is a limit of its namespace.
	Quota bool
	// Behind is who comes first, where that is the reason.
	Behind Key
}

// Check says whether a gang may begin: its run stays within the limits of its namespace, all of the gang fits, and nobody
// who comes before it waits for the same room and might miss it. Where what is free is not known, it fits: the member's own
// scheduler will tell.
func (v *View) Check(gang fit.Gang, self Rank) Fit {
	out := Fit{Result: v.spare.check(gang)}
	var first *Entry
	var t turn
	if out.Fits || v.limited() { // who comes first is no matter otherwise
		first, t = v.before(v.spare.table.Nodes, gang, self)
	}
	switch {
	case t.excess != nil:
		out.Blocked, out.Quota, out.Behind = t.excess.String(), true, t.first
	case !out.Fits:
		out.Blocked = out.Miss
		if !v.spare.holds(gang) {
			out.Blocked += neverFits
		}
	case first != nil:
		out.Blocked, out.Behind = v.Turn(first, self), first.Key
	}
	return out
}

// Growth is how many more pods, no more than those given, a live run of so many may have within the limits of its
// namespace; and if it is none, why.
func (v *View) Growth(gang fit.Gang, more int, self Rank) (pods int, blocked string) {
	t := &v.own.terms
	if !v.limited() {
		return more, ""
	}
	_, own := v.before(v.spare.table.Nodes, gang, self)
	if v.line.problem != "" {
		return 0, own.excess.String()
	}
	size := gang.Size
	for ; more > 0; more-- {
		gang.Size, gang.Full = size+more, 0
		e := exceeds(v.Member, t, gang, false, v.own.usage, *own.kept)
		if e == nil {
			return more, ""
		}
		blocked = e.String()
	}
	return 0, blocked
}

// First is who comes first of those that wait for the same room, come before self and might miss it; nil if nobody does. The
// nodes are those of the view, with more or less free.
// Who would not fit even if every run had ended, or is beyond the limits of its namespace, holds nobody up.
func (v *View) First(nodes []fleet.Node, gang fit.Gang, self Rank) *Entry {
	first, _ := v.before(nodes, gang, self)
	return first
}

// limited says whether it takes more than room to begin: a place within the limits of the namespace.
func (v *View) limited() bool { return v.line.problem != "" || v.own.terms.limited() }

// before is who comes before a gang, and the turn of that itself where its namespace has limits.
func (v *View) before(nodes []fleet.Node, gang fit.Gang, self Rank) (first *Entry, own turn) {
	limited := v.limited()
	if v.State != nodeusage.Known && !limited {
		return nil, turn{}
	}
	c := v.spare.contenders(v.line)
	if len(c.heads) == 0 && !limited {
		return nil, turn{}
	}
	e := &Entry{Rank: self, Anywhere: &gang}
	b := newBackfill(nodes, gang, v.spare.unplaced)
	for t := range c.turnsWith(e, v.own, v.spare.holds) {
		if t.Entry == e {
			return first, t
		}
		if first == nil && v.State == nodeusage.Known && t.holds && t.excess == nil && b.delays(t.gang) {
			first = t.Entry
		}
		if first != nil && !limited {
			return first, turn{}
		}
	}
	return first, turn{} // not reached: it is in the line
}

// neverFits is said of pods that lack room now, and always will.
const neverFits = "; they would not fit either if every run there had ended"

// maxSpared is how many others, who come first and want the same room, a gang may have.
const maxSpared = 4

// waiters are those for whom room is kept on nodes, first come first, and the pods that may still come to any node.
type waiters struct {
	nodes   []fleet.Node
	placed  []fit.Unplaced
	entries []turn
}

// place notes the pods of a gang that may begin.
func (w *waiters) place(g fit.Gang) { w.placed = withPods(w.placed, g) }

func withPods(all []fit.Unplaced, g fit.Gang) []fit.Unplaced {
	all = append(slices.Clip(all), fit.Unplaced{Pod: g.Pod, Count: g.Pods()})
	if g.Beside != nil {
		all = append(all, fit.Unplaced{Pod: *g.Beside, Count: 1})
	}
	return all
}

// competing is the first who wants the same room as a gang, nil if nobody does.
func (w *waiters) competing(g fit.Gang) *Entry {
	for _, t := range w.entries {
		if fit.Compete(w.nodes, t.gang, g) {
			return t.Entry
		}
	}
	return nil
}

// delayed is the first who might miss what a gang takes; nil if surely nobody does.
func (w *waiters) delayed(g fit.Gang) *Entry {
	b := newBackfill(w.nodes, g, w.placed)
	for _, t := range w.entries {
		if b.delays(t.gang) {
			return t.Entry
		}
	}
	return nil
}

// backfill is a gang that begins before others for whom room is kept, if they surely miss none of it.
type backfill struct {
	nodes []fleet.Node
	gang  fit.Gang // with all pods that it may have
	// unplaced are the pods that may still come to any node, those of the others included, of whom so many want the same room.
	unplaced []fit.Unplaced
	spared   int
}

func newBackfill(nodes []fleet.Node, gang fit.Gang, unplaced []fit.Unplaced) *backfill {
	gang.Size = gang.Pods()
	return &backfill{nodes: nodes, gang: gang, unplaced: unplaced}
}

// delays says whether the next of those who come first might miss what the gang takes.
func (b *backfill) delays(next fit.Gang) bool {
	if !fit.Compete(b.nodes, next, b.gang) {
		return false
	}
	if b.spared == maxSpared || !fit.Spares(b.nodes, next, b.gang, b.unplaced) {
		return true
	}
	b.spared++
	b.unplaced = withPods(b.unplaced, next)
	return false
}

// Turn says that room is kept for one who comes first, for the status of self.
func (v *View) Turn(first *Entry, self Rank) string { return v.own.turnOf(first, self) }

// turnOf says it, and that a priority does not count, where it might be expected to.
func (t *tenant) turnOf(first *Entry, self Rank) string {
	out := first.Turn(self.Key)
	if highest := t.maxPriority; first.Key.Namespace != self.Key.Namespace && self.Priority > highest {
		out += fmt.Sprintf("; its priority %d counts as %d among other namespaces (annotation %s of its namespace)", self.Priority, highest, v1alpha1.AnnotationMaxPriority)
	}
	return out
}

// Turn says that room is kept for an entry, for the status of one behind it.
func (e *Entry) Turn(behind Key) string {
	if e.Key.Namespace != behind.Namespace {
		return "room there is kept for a run of another namespace, which waits for it and comes first"
	}
	return fmt.Sprintf("its room is kept for %s, which waits for it and comes first (priority %d, created %s)",
		e.Key, e.Priority, e.Created.UTC().Format(time.RFC3339))
}
