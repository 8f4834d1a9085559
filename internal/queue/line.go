package queue

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/minifleet/minifleet/internal/fit"
	"github.com/minifleet/minifleet/internal/fleet"
	"github.com/minifleet/minifleet/internal/nodeusage"
)

// Rank is a place in the line: the higher priority comes first, then the older.
type Rank struct {
	Priority int32
	Created  time.Time
	Key      Key
}

// Compare is negative for a rank that comes before another.
func (r Rank) Compare(o Rank) int {
	return cmp.Or(cmp.Compare(o.Priority, r.Priority), r.Created.Compare(o.Created), strings.Compare(r.Key.String(), o.Key.String()))
}

// Entry is a FleetMiniCluster in the line: it would begin at once, or grow, if it had room on one of these members.
type Entry struct {
	Rank
	// Gangs is what it needs, by member.
	Gangs map[string]fit.Gang
	// Anywhere is set instead of Gangs until it is known where it might go: after a restart of the hub.
	Anywhere *fit.Gang
	// Behind is, by member, whom its status names as the one who comes first there, if anybody.
	Behind map[string]Key
	// Reconciled is when it was last reconciled.
	Reconciled time.Time
}

// On is what it waits for on a member, if it waits for that.
func (e *Entry) On(member string) (fit.Gang, bool) {
	if e.Anywhere != nil {
		return *e.Anywhere, true
	}
	g, ok := e.Gangs[member]
	return g, ok
}

func (e *Entry) same(o *Entry) bool {
	return e.Priority == o.Priority && (e.Anywhere == nil) == (o.Anywhere == nil) &&
		maps.EqualFunc(e.Gangs, o.Gangs, func(a, b fit.Gang) bool { return a.Pod.Key == b.Pod.Key && a.Size == b.Size })
}

// enqueue makes next the entry of a FleetMiniCluster, nil for none. It returns the members where that gives others a
// turn. The queue is locked.
func (q *Queue) enqueue(key Key, next *Entry) []string {
	old, had := q.pending[key]
	delete(q.pending, key)
	if next != nil {
		q.pending[key] = *next
	}
	switch {
	case !had, next != nil && old.same(next):
		return nil // whoever it comes before will find out
	case old.Anywhere != nil:
		return slices.Collect(maps.Keys(q.known))
	default:
		return slices.Collect(maps.Keys(old.Gangs))
	}
}

// others are those who wait on a member, but for one, first come first. The queue is locked.
func (q *Queue) others(member string, self Key) []Entry {
	var out []Entry
	for key, e := range q.pending {
		if _, here := e.On(member); here && key != self {
			out = append(out, e)
		}
	}
	slices.SortFunc(out, func(a, b Entry) int { return a.Compare(b.Rank) })
	return out
}

// Head is who comes first in the line of a member, nil where nobody waits.
func (q *Queue) Head(member string) *Entry {
	q.mu.Lock()
	defer q.mu.Unlock()
	line := q.others(member, Key{})
	if len(line) == 0 {
		return nil
	}
	return &line[0]
}

// refreshInterval is the shortest time after which the first in a line is reconciled again merely so that what its
// status says of the room that it lacks is not old.
const refreshInterval = 5 * time.Second

// Affected are those in the line of a member to be reconciled now that its room is what it is, in their order: those
// that fit, those that wait for somebody else than their status says, and the first that does not fit, whose status is
// kept fresh, if not at every pod that comes or goes.
func (q *Queue) Affected(member string, room *nodeusage.Room, now time.Time) []Key {
	q.mu.Lock()
	defer q.mu.Unlock()
	line := q.others(member, Key{})
	if len(line) == 0 {
		return nil
	}
	nodes := q.free(member, room, Key{})
	var out []Key
	var blocked []Entry
	for i, e := range line {
		g, _ := e.On(member)
		fits := room.State != nodeusage.Known || fit.Check(nodes, g).Fits
		var behind Key
		if fits {
			behind = firstCompeting(nodes, member, blocked, g)
		}
		starts := fits && behind.Name == ""
		if starts {
			fit.Reserve(nodes, g.Pod, g.Size)
		} else if fit.Holds(nodes, g) {
			blocked = append(blocked, e)
		}
		stale := i == 0 && now.Sub(e.Reconciled) > refreshInterval
		if starts || stale || behind != e.Behind[member] {
			out = append(out, e.Key)
		}
	}
	return out
}

// firstCompeting is the first of those that wants the same room as a gang; its name is empty if none does.
func firstCompeting(nodes []fleet.Node, member string, blocked []Entry, g fit.Gang) Key {
	for _, e := range blocked {
		if theirs, _ := e.On(member); fit.Compete(nodes, theirs, g) {
			return e.Key
		}
	}
	return Key{}
}

// NotifyWhenKnown has a FleetMiniCluster reconciled as soon as the room of a member is known.
func (q *Queue) NotifyWhenKnown(member string, key Key) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.asking[member] == nil {
		q.asking[member] = map[Key]bool{}
	}
	q.asking[member][key] = true
}

// Known notes that the room of a member is known, and returns those who have asked, sorted. The connection, which
// must be comparable, tells one from the next: only the first time on each is news.
func (q *Queue) Known(member string, connection any) []Key {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.known[member] == connection {
		return nil
	}
	q.known[member] = connection
	asked := slices.SortedFunc(maps.Keys(q.asking[member]), func(a, b Key) int { return strings.Compare(a.String(), b.String()) })
	delete(q.asking, member)
	return asked
}
