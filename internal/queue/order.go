package queue

import (
	"cmp"
	"container/heap"
	"iter"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/minifleet/minifleet/internal/fit"
	"github.com/minifleet/minifleet/internal/fleet"
	"github.com/minifleet/minifleet/internal/nodeusage"
)

// line is who waits on a member, by namespace, with all that their order depends on. It is a value: nothing in it changes.
type line struct {
	member string
	// total is what the member has, zero where that is not known.
	total    totals
	tenants  map[string]*tenant
	reserved map[Key]bool // who has reserved room there
	served   uint64       // the latest
	problem  string       // of the shares
}

// totals are CPU in millicores, memory in bytes, and GPUs.
type totals [3]int64

func totalsOf(a fleet.Amounts, times int64) (t totals) {
	t[0], t[1] = fleet.Times(a[corev1.ResourceCPU], times), fleet.Times(a[corev1.ResourceMemory], times)
	for name, n := range a {
		if fleet.IsGPU(name) {
			t[2] = min(t[2]+fleet.Times(n, times), fleet.MaxAmount)
		}
	}
	return t
}

func (t *totals) add(more totals) {
	for i := range t {
		t[i] = min(t[i]+more[i], fleet.MaxAmount)
	}
}

// ofGang is what the pods of a gang take that its run may have.
func ofGang(g fit.Gang, pods int, grows bool) totals {
	t := totalsOf(g.Pod.Requests, int64(pods))
	if g.Beside != nil && !grows {
		t.add(totalsOf(g.Beside.Requests, 1))
	}
	return t
}

// tenant is a namespace on a member.
type tenant struct {
	namespace   string
	terms       terms
	maxPriority int32
	used        totals
	usage       usage
	// served says when its latest run there was begun; 0 for a namespace that has had none.
	served uint64
	// share is what it takes of the member, for its weight.
	share float64
	// waiting are its entries there, the higher priority first, then the older.
	waiting []*Entry
}

// line is that of a member, without what one FleetMiniCluster has reserved there. The queue is locked.
func (q *Queue) line(member string, room *nodeusage.Room, self Key) *line {
	total := q.totals(member, room)
	if q.on[self][member] {
		return q.lineOf(member, total, self)
	}
	l := q.orders[member]
	if l == nil || l.total != total {
		l = q.lineOf(member, total, Key{})
		q.orders[member] = l
	}
	return l
}

// lineOf makes that of a member, without what one FleetMiniCluster has reserved there. The queue is locked.
func (q *Queue) lineOf(member string, total totals, without Key) *line {
	l := &line{member: member, tenants: map[string]*tenant{}, reserved: map[Key]bool{}, served: q.clock, total: total}
	if s := q.shares[member]; s != nil {
		l.problem = s.problem
	}
	for namespace, entries := range q.waiting[member] {
		q.tenant(l, namespace).waiting = entries
	}
	for namespace, entries := range q.anywhere {
		t := q.tenant(l, namespace)
		t.waiting = merged(t.waiting, entries)
	}
	for key, r := range q.reserved[member] {
		if key == without {
			continue
		}
		l.reserved[key] = true
		t, pods := q.tenant(l, key.Namespace), r.Gang.Size-r.Succeeded
		t.used.add(ofGang(r.Gang, pods, false))
		t.usage.add(need(&t.terms, r.Gang, pods, false))
		if e := q.pending[key]; e != nil && r.Run == "" { // it has got its room
			t.waiting = removed(t.waiting, e)
		}
	}
	for _, t := range l.tenants {
		t.share = shareOf(total, t.used, t.usage.runs, t.terms.weight)
	}
	return l
}

// tenant is a namespace of a line, which is added to it. The queue is locked.
func (q *Queue) tenant(l *line, namespace string) *tenant {
	t := l.tenants[namespace]
	if t == nil {
		t = q.newTenant(l.member, namespace)
		l.tenants[namespace] = t
	}
	return t
}

// newTenant is a namespace that has nothing on a member. The queue is locked.
func (q *Queue) newTenant(member, namespace string) *tenant {
	return &tenant{
		namespace: namespace, terms: q.termsOf(member, namespace), maxPriority: q.namespaces[namespace].MaxPriority,
		served: q.served[member][namespace],
	}
}

// inserted is a list in its order with one more in it, or without: the list itself is not changed.
func inserted(all []*Entry, e *Entry) []*Entry {
	i, _ := slices.BinarySearchFunc(all, e, (*Entry).compare)
	out := make([]*Entry, 0, len(all)+1)
	return append(append(append(out, all[:i]...), e), all[i:]...)
}

// merged are two lists in the order of both.
func merged(a, b []*Entry) []*Entry {
	if len(a) == 0 {
		return b
	}
	out := make([]*Entry, 0, len(a)+len(b))
	for len(a) > 0 && len(b) > 0 {
		if a[0].compare(b[0]) < 0 {
			out, a = append(out, a[0]), a[1:]
		} else {
			out, b = append(out, b[0]), b[1:]
		}
	}
	return append(append(out, a...), b...)
}

func removed(all []*Entry, e *Entry) []*Entry {
	i, found := slices.BinarySearchFunc(all, e, (*Entry).compare)
	if !found {
		return all
	}
	return append(slices.Clone(all[:i]), all[i+1:]...)
}

// totals are what a member has. The queue is locked.
func (q *Queue) totals(member string, room *nodeusage.Room) totals {
	if known, ok := q.rooms[member]; ok && known.room == room {
		return known.total
	}
	k := seen{room: room}
	for i := range room.Nodes {
		n := &room.Nodes[i]
		all := n.Allocatable
		if all == nil {
			all = n.Total
		}
		k.total.add(totalsOf(all, 1))
	}
	q.rooms[member] = k
	return k.total
}

// seen is the room of a member as it was seen last.
type seen struct {
	room  *nodeusage.Room
	total totals
}

func (e *Entry) compare(o *Entry) int { return e.Compare(o.Rank) }

// turn is an entry of a line in its turn.
type turn struct {
	*Entry
	gang fit.Gang
	// excess is why it is beyond the limits of its namespace; nil if it is not. Such a one holds nobody else up.
	excess *excess
	// first is who of the same namespace comes first for what is left of the limits, if that is the reason.
	first Key
	// holds says that room is kept for it: it would fit if everything had ended that ever ends, and is within the limits
	// by itself.
	holds bool
	// kept is what those of the same namespace take of the limits that come first. It is that until the next turn.
	kept *usage
}

// turns are those that wait, in order. Between namespaces: the higher priority comes first, as far as it counts, then who
// has the smaller share of the member for its weight, then who was served least recently, then the older. Within one: the
// higher priority, then the older. Whoever is next counts as served, with what it asks for, for those that follow.
func (l *line) turns(holds func(fit.Gang) bool) iter.Seq[turn] {
	return l.turnsOf(l.heads(), nil, holds)
}

// heads are the namespaces of which somebody waits, in the order in which they have their first turn.
func (l *line) heads() []*tenant {
	out := make([]*tenant, 0, len(l.tenants))
	for _, t := range l.tenants {
		if len(t.waiting) > 0 {
			out = append(out, t)
		}
	}
	slices.SortFunc(out, (*tenant).before)
	return out
}

// turnsOf are the turns of those that wait in the namespaces given, which are in the order of heads. Where a newcomer has its
// turn among them, it stands for its namespace, and whoever of that comes after it has none. Namespaces that have had no turn
// yet are as they were, however many there are.
func (l *line) turnsOf(heads []*tenant, newcomer *cursor, holds func(fit.Gang) bool) iter.Seq[turn] {
	return func(yield func(turn) bool) {
		heads, served := heads, l.served
		var begun cursors
		if newcomer != nil {
			begun = cursors{newcomer}
		}
		for {
			switch {
			case len(heads) > 0 && newcomer != nil && heads[0].namespace == newcomer.namespace:
				heads = heads[1:]
				continue
			case len(heads) > 0 && (len(begun) == 0 || heads[0].before(&begun[0].tenant) < 0):
				heap.Push(&begun, &cursor{tenant: *heads[0], runs: heads[0].usage.runs})
				heads = heads[1:]
			case len(begun) == 0:
				return
			}
			c := begun[0]
			t := c.turn(l, holds)
			if !yield(t) {
				return
			}
			if t.holds {
				c.keep(l, t)
			}
			if t.holds && t.excess == nil {
				served++
				c.place(l, t, served)
			}
			if c.next(); len(c.waiting) == 0 {
				heap.Pop(&begun)
			} else {
				heap.Fix(&begun, 0)
			}
		}
	}
}

// shareOf is the dominant share: the greatest of what is used of each resource, for its weight. Where it is not known what
// the member has, runs are counted.
func shareOf(total, used totals, runs int, weight int64) float64 {
	if total == (totals{}) {
		return float64(runs) / float64(weight)
	}
	share := 0.0
	for i, n := range used {
		if total[i] > 0 { // divided once, so that equal shares are equal
			share = max(share, float64(n)/(float64(total[i])*float64(weight)))
		}
	}
	return share
}

// cursor is a namespace of which some entries have had their turn, and count as served.
type cursor struct {
	tenant
	// runs are those that it has, with those that count as served.
	runs int
	// kept is what those take of the limits.
	kept  usage
	first Key // of those
	// newcomer is one that is not among those that wait, or at another place; nil if there is none.
	newcomer *Entry
}

// newcomer is the namespace of an entry that is in its line, in place of itself if it waits already, and the last there.
func newcomer(t tenant, e *Entry) *cursor {
	c := &cursor{tenant: t, runs: t.usage.runs, newcomer: e}
	c.settle()
	return c
}

// next has had the turn of the first.
func (c *cursor) next() {
	c.waiting = c.waiting[1:]
	c.settle()
}

// settle has the newcomer come first if its place is there.
func (c *cursor) settle() {
	e := c.newcomer
	if e == nil {
		return
	}
	if len(c.waiting) > 0 && c.waiting[0].Key == e.Key {
		c.waiting = c.waiting[1:]
	}
	if len(c.waiting) == 0 || e.compare(c.waiting[0]) < 0 {
		c.waiting, c.newcomer = []*Entry{e}, nil
	}
}

// turn is that of the next.
func (c *cursor) turn(l *line, holds func(fit.Gang) bool) turn {
	e := c.waiting[0]
	gang, _ := e.On(l.member)
	t := turn{Entry: e, gang: gang, kept: &c.kept}
	if l.problem != "" {
		t.excess = &excess{problem: l.problem}
		return t
	}
	if c.terms.limited() {
		t.excess = exceeds(l.member, &c.terms, gang, l.reserved[e.Key], c.usage, c.kept)
	}
	if t.excess != nil && t.excess.asks+t.excess.used <= t.excess.limit {
		t.first = c.first
	}
	t.holds = (t.excess == nil || !t.excess.never()) && holds(gang)
	return t
}

// keep keeps what an entry asks for of the limits from those of its namespace that follow.
func (c *cursor) keep(l *line, t turn) {
	if !c.terms.limited() {
		return
	}
	c.kept.add(need(&c.terms, t.gang, t.gang.Pods(), l.reserved[t.Key]))
	if c.first.Name == "" {
		c.first = t.Key
	}
}

// place counts an entry as served.
func (c *cursor) place(l *line, t turn, served uint64) {
	grows := l.reserved[t.Key]
	c.used.add(ofGang(t.gang, t.gang.Pods(), grows))
	c.served = served
	if !grows {
		c.runs++
	}
	c.share = shareOf(l.total, c.used, c.runs, c.terms.weight)
}

// cursors are a heap of namespaces, whose next entry comes first first.
type cursors []*cursor

func (h cursors) Len() int           { return len(h) }
func (h cursors) Less(i, j int) bool { return h[i].before(&h[j].tenant) < 0 }
func (h cursors) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *cursors) Push(x any)        { *h = append(*h, x.(*cursor)) } //nolint:forcetypeassert // what the heap is of

func (h *cursors) Pop() any {
	last := len(*h) - 1
	out := (*h)[last]
	*h = (*h)[:last]
	return out
}

// before is negative where the next of a namespace comes before that of another.
func (t *tenant) before(o *tenant) int {
	a, b := t.waiting[0], o.waiting[0]
	if mine, theirs := min(a.Priority, t.maxPriority), min(b.Priority, o.maxPriority); mine != theirs {
		return cmp.Compare(theirs, mine)
	}
	if n := cmp.Or(cmp.Compare(t.share, o.share), cmp.Compare(t.served, o.served), a.Created.Compare(b.Created)); n != 0 {
		return n
	}
	return compareKeys(a.Key, b.Key)
}

// shape is the same for gangs that need the same.
type shape struct {
	pod, beside string
	size, pods  int
}

func shapeOf(g fit.Gang) shape { return shape{g.Pod.Key, besideKey(g), g.Size, g.Pods()} }
