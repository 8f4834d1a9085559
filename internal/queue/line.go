package queue

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/minifleet/minifleet/internal/fit"
	"github.com/minifleet/minifleet/internal/nodeusage"
)

// Rank is a place among those of the same namespace: the higher priority comes first, then the older.
type Rank struct {
	Priority int32
	Created  time.Time
	Key      Key
}

// Compare is negative for a rank that comes before another.
func (r Rank) Compare(o Rank) int {
	if n := cmp.Or(cmp.Compare(o.Priority, r.Priority), r.Created.Compare(o.Created)); n != 0 {
		return n
	}
	return compareKeys(r.Key, o.Key)
}

func compareKeys(a, b Key) int {
	return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
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
		maps.EqualFunc(e.Gangs, o.Gangs, func(a, b fit.Gang) bool { return a.Pod.Key == b.Pod.Key && a.Size == b.Size && a.Pods() == b.Pods() })
}

// keepsPlace says whether an entry may stand for another in the line.
func (e *Entry) keepsPlace(o *Entry) bool {
	return e.Priority == o.Priority && e.Created.Equal(o.Created) && (e.Anywhere == nil) == (o.Anywhere == nil) &&
		(e.Anywhere == nil || alike(*e.Anywhere, *o.Anywhere)) && maps.EqualFunc(e.Gangs, o.Gangs, alike)
}

// enqueue makes next the entry of a FleetMiniCluster, nil for none. It returns the members where that gives others a
// turn. The queue is locked.
func (q *Queue) enqueue(key Key, next *Entry) []string {
	old := q.pending[key]
	if old != nil && next != nil && old.keepsPlace(next) {
		own := *next
		own.Gangs = old.Gangs
		q.pending[key] = &own
		return nil
	}
	if old != nil {
		q.remove(old)
	}
	if next != nil {
		q.insert(next)
	}
	switch {
	case old == nil, next != nil && old.same(next):
		return nil // whoever it comes before will find out
	case old.Anywhere != nil:
		return slices.Collect(maps.Keys(q.known))
	default:
		return slices.Collect(maps.Keys(old.Gangs))
	}
}

// insert puts an entry into its lines. The queue is locked.
func (q *Queue) insert(e *Entry) {
	own := *e
	own.Gangs = q.gangs.of(e.Gangs)
	q.pending[e.Key] = &own
	q.lines[e.Key.Namespace] = inserted(q.lines[e.Key.Namespace], &own)
	if e.Anywhere != nil {
		q.anywhere[e.Key.Namespace] = inserted(q.anywhere[e.Key.Namespace], &own)
		clear(q.orders)
		return
	}
	for member := range e.Gangs {
		if q.waiting[member] == nil {
			q.waiting[member] = map[string][]*Entry{}
		}
		q.waiting[member][e.Key.Namespace] = inserted(q.waiting[member][e.Key.Namespace], &own)
		delete(q.orders, member)
	}
}

// remove takes an entry out of its lines. The queue is locked.
func (q *Queue) remove(e *Entry) {
	delete(q.pending, e.Key)
	take(q.lines, e)
	if e.Anywhere != nil {
		take(q.anywhere, e)
		clear(q.orders)
		return
	}
	for member := range e.Gangs {
		delete(q.orders, member)
		if take(q.waiting[member], e); len(q.waiting[member]) == 0 {
			delete(q.waiting, member)
		}
	}
}

// take takes an entry out of the line of its namespace.
func take(lines map[string][]*Entry, e *Entry) {
	if lines[e.Key.Namespace] = removed(lines[e.Key.Namespace], e); len(lines[e.Key.Namespace]) == 0 {
		delete(lines, e.Key.Namespace)
	}
}

// Waits says whether anybody waits on a member.
func (q *Queue) Waits(member string) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.waiting[member])+len(q.anywhere) > 0
}

// refreshInterval is the shortest time after which the first in a line is reconciled again merely so that what its
// status says of the room that it lacks is not old.
const refreshInterval = 5 * time.Second

// Affected are those in the line of a member to be reconciled now that its room is what it is, in their order: those
// that fit, those that wait for somebody else than their status says, and the first that does not fit, whose status is
// kept fresh, if not at every pod that comes or goes.
func (q *Queue) Affected(member string, room *nodeusage.Room, now time.Time) []Key {
	s := q.scene(member, room)
	var out []Key
	first := true
	for t := range s.line.turns(s.holds) {
		f := s.next(t, false)
		told := s.latest(t.Entry)
		behind := f.Behind
		if !f.Fits && !f.Quota {
			behind = Key{} // its status says what is missing
		}
		stale := first && !f.Quota && now.Sub(told.Reconciled) > refreshInterval
		if f.Blocked == "" || stale || !sameBehind(behind, told.Behind[member], t.Key) {
			out = append(out, t.Key)
		}
		first = first && f.Quota
	}
	return out
}

// sameBehind says whether the status of a FleetMiniCluster says the same of either: it names none of other namespaces.
func sameBehind(a, b, self Key) bool {
	told := func(k Key) Key {
		if k.Name != "" && k.Namespace != self.Namespace {
			return Key{Namespace: "*", Name: "*"}
		}
		return k
	}
	return told(a) == told(b)
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
