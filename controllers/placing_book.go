package controllers

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/minifleet/minifleet/clusters"
	"github.com/minifleet/minifleet/internal/fit"
	"github.com/minifleet/minifleet/internal/fleet"
	"github.com/minifleet/minifleet/internal/nodeusage"
)

// book keeps who has taken room on members, and who waits for some. It is made anew from the ledgers when
// the hub starts, and is then kept up by the pass of each FleetMiniCluster. Whoever decides where something
// goes holds its lock from the look at what is free until the room is taken, so that no two take the same.
type book struct {
	mu      sync.Mutex
	primed  bool
	since   time.Time                                 // when it was primed: soon after the hub has started
	claims  map[string]map[types.NamespacedName]claim // by member
	waiters map[types.NamespacedName]waiter
	// seen are the members whose room has been known since they were connected.
	seen map[string]*clusters.Member
	// asked are, by member, those that could not be told of its room because it was not known yet.
	asked map[string]map[types.NamespacedName]bool
}

// ask notes that a MiniCluster wants to know of a member's room as soon as that is known.
func (b *book) ask(member string, key types.NamespacedName) {
	if b.asked == nil {
		b.asked = map[string]map[types.NamespacedName]bool{}
	}
	if b.asked[member] == nil {
		b.asked[member] = map[types.NamespacedName]bool{}
	}
	b.asked[member][key] = true
}

// learn notes that a member's room is known now, and returns those that have asked. Only the first time after
// the member was connected is news.
func (b *book) learn(m *clusters.Member) []types.NamespacedName {
	if b.seen[m.Name] == m {
		return nil
	}
	if b.seen == nil {
		b.seen = map[string]*clusters.Member{}
	}
	b.seen[m.Name] = m
	asked := slices.SortedFunc(maps.Keys(b.asked[m.Name]), func(a, b types.NamespacedName) int {
		return strings.Compare(a.String(), b.String())
	})
	delete(b.asked, m.Name)
	return asked
}

// claim is the room of one live run on one member. Pods that have a node are counted there by the member
// itself, and pods that have succeeded need none: the rest is held for it.
type claim struct {
	run  string // its id, empty until it is in the ledger
	gang fit.Gang
	done int // pods that have succeeded
}

// rank is the order of those who wait: the higher priority first, then the older.
type rank struct {
	priority int32
	created  time.Time
	key      types.NamespacedName
}

func (r rank) compare(o rank) int {
	return cmp.Or(cmp.Compare(o.priority, r.priority), r.created.Compare(o.created), strings.Compare(r.key.String(), o.key.String()))
}

// waiter is a MiniCluster that would begin at once if it had room on one of these members.
type waiter struct {
	rank
	members map[string]fit.Gang
	// behind is, by member, whom its status names as ahead of it there, if anybody.
	behind map[string]types.NamespacedName
	// looked is when it was last looked at.
	looked time.Time
	// anywhere is set instead of members until it is known where it might go: after a start of the hub.
	anywhere *fit.Gang
}

// on is what waits on a member, if anything does.
func (w *waiter) on(member string) (fit.Gang, bool) {
	if w.anywhere != nil {
		return *w.anywhere, true
	}
	g, ok := w.members[member]
	return g, ok
}

func (w *waiter) same(o *waiter) bool {
	return w.priority == o.priority && (w.anywhere == nil) == (o.anywhere == nil) &&
		maps.EqualFunc(w.members, o.members, func(a, b fit.Gang) bool { return a.Pod.Key == b.Pod.Key && a.Size == b.Size })
}

// claimOf returns the claim of a MiniCluster on a member.
func (b *book) claimOf(member string, key types.NamespacedName) (claim, bool) {
	c, ok := b.claims[member][key]
	return c, ok
}

func (b *book) claim(member string, key types.NamespacedName, c claim) {
	if b.claims == nil {
		b.claims = map[string]map[types.NamespacedName]claim{}
	}
	if b.claims[member] == nil {
		b.claims[member] = map[types.NamespacedName]claim{}
	}
	b.claims[member][key] = c
}

// release gives up what a MiniCluster has claimed, but on the members to keep, and returns where.
func (b *book) release(key types.NamespacedName, keep func(member string) bool) []string {
	var out []string
	for member, claims := range b.claims {
		if _, ok := claims[key]; ok && !keep(member) {
			delete(claims, key)
			out = append(out, member)
		}
	}
	return out
}

// wait notes that a MiniCluster waits, or, given nil, that it no longer does. It returns the members where
// that may matter to others.
func (b *book) wait(key types.NamespacedName, next *waiter) []string {
	old, had := b.waiters[key]
	if b.waiters == nil {
		b.waiters = map[types.NamespacedName]waiter{}
	}
	delete(b.waiters, key)
	if next != nil {
		b.waiters[key] = *next
	}
	switch {
	case !had, next != nil && old.same(next):
		return nil // whoever it is ahead of will find out
	case old.anywhere != nil:
		return slices.Collect(maps.Keys(b.seen))
	default:
		return slices.Collect(maps.Keys(old.members))
	}
}

// nodes are a member's, less the room that others have claimed there. It is nil where that is not known.
// Pods of the runs in without are counted as gone.
func (b *book) nodes(m *clusters.Member, self types.NamespacedName, without ...string) ([]fleet.Node, nodeusage.State) {
	room := m.Room(without...)
	if room.State != nodeusage.Known {
		return nil, room.State
	}
	nodes := make([]fleet.Node, len(room.Nodes))
	for i, n := range room.Nodes {
		nodes[i] = n
		nodes[i].Free = maps.Clone(n.Free)
	}
	held, pods := map[string]int{}, map[string]fit.Pod{}
	hold := func(p fit.Pod, n int) {
		if n > 0 {
			held[p.Key] += n
			pods[p.Key] = p
		}
	}
	for key, c := range b.claims[m.Name] {
		if key == self {
			continue
		}
		scheduled := room.Scheduled(c.run)
		hold(c.gang.Pod, c.gang.Size-c.done-scheduled.Pods)
		if c.gang.Beside != nil {
			hold(*c.gang.Beside, 1-scheduled.Services)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(held)) {
		fit.Reserve(nodes, pods[key], held[key])
	}
	return nodes, room.State
}

// ahead is who waits for the same room of a member and comes before a MiniCluster; nil if nobody does. Who
// would not fit there even if every run had ended holds nobody up.
func (b *book) ahead(member string, nodes []fleet.Node, self rank, gang fit.Gang) *waiter {
	var first *waiter
	for key, w := range b.waiters {
		g, here := w.on(member)
		if key == self.key || !here || w.compare(self) > 0 || first != nil && w.compare(first.rank) > 0 {
			continue
		}
		if fit.Compete(nodes, g, gang) && fit.Holds(nodes, g) {
			first = &w
		}
	}
	return first
}

// queue are those that wait on a member, in their order.
func (b *book) queue(member string) []waiter {
	var out []waiter
	for _, w := range b.waiters {
		if _, here := w.on(member); here {
			out = append(out, w)
		}
	}
	slices.SortFunc(out, func(a, b waiter) int { return a.compare(b.rank) })
	return out
}

// stirred are those waiting on a member whom it concerns what is free there now, in their order: those that
// have room, those that wait for another reason than they say, and the first that has none, whose words are
// kept fresh, if not at every pod that comes or goes.
func (b *book) stirred(m *clusters.Member, now time.Time) []types.NamespacedName {
	queue := b.queue(m.Name)
	if len(queue) == 0 {
		return nil
	}
	nodes, state := b.nodes(m, types.NamespacedName{})
	var out []types.NamespacedName
	var stuck []waiter
	for i, w := range queue {
		g, _ := w.on(m.Name)
		fits := state != nodeusage.Known || fit.Check(nodes, g).Fits
		var behind types.NamespacedName
		if fits {
			behind = firstInTheWay(nodes, m.Name, stuck, g)
		}
		starts := fits && behind.Name == ""
		if starts {
			fit.Reserve(nodes, g.Pod, g.Size)
		} else if fit.Holds(nodes, g) {
			stuck = append(stuck, w)
		}
		stale := i == 0 && now.Sub(w.looked) > freshInterval
		if starts || stale || behind != w.behind[m.Name] {
			out = append(out, w.key)
		}
	}
	return out
}

// firstInTheWay is the first of those that are stuck that wants the same room; its name is empty if none does.
func firstInTheWay(nodes []fleet.Node, member string, stuck []waiter, g fit.Gang) types.NamespacedName {
	for _, w := range stuck {
		if theirs, _ := w.on(member); fit.Compete(nodes, theirs, g) {
			return w.key
		}
	}
	return types.NamespacedName{}
}

// turn says who is ahead, for people.
func (w *waiter) turn() string {
	return fmt.Sprintf("its room is kept for %s, which waits for it and comes first (priority %d, created %s)",
		w.key, w.priority, w.created.UTC().Format(time.RFC3339))
}
