// Package queue keeps who has reserved room on members, and who waits in line for some.
//
// In come reservations and entries of the line, one set per FleetMiniCluster, and what nodes have free
// (nodeusage). Out come views: what one FleetMiniCluster may count on, given everybody else's reservations and
// those who come first. Whoever decides on a view reserves with it, and is refused where others have reserved
// since; so no room is given twice, though nobody holds a lock while deciding.
//
// A Queue is safe for concurrent use. Its lock is never held outside of its methods.
package queue

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/minifleet/minifleet/internal/fit"
	"github.com/minifleet/minifleet/internal/fleet"
	"github.com/minifleet/minifleet/internal/nodeusage"
)

// Key is NAMESPACE/NAME of a FleetMiniCluster.
type Key = types.NamespacedName

// Reservation is the room of one run on one member. Pods that have a node are counted on the member itself, and
// pods that have succeeded need none: the rest is reserved.
type Reservation struct {
	// Run is the run's id, empty until it is in the ledger.
	Run  string
	Gang fit.Gang
	// Succeeded is how many of the gang's pods have.
	Succeeded int
}

// grows says whether a reservation takes more than the one before it.
func (r Reservation) grows(before Reservation) bool {
	return r.Gang.Pod.Key != before.Gang.Pod.Key || r.Gang.Size-r.Succeeded > before.Gang.Size-before.Succeeded ||
		besideKey(r.Gang) != besideKey(before.Gang)
}

// besideKey is that of the pod of services beside a gang, empty where it has none.
func besideKey(g fit.Gang) string {
	if g.Beside == nil {
		return ""
	}
	return g.Beside.Key
}

// Queue is the reservations and the line of a fleet.
type Queue struct {
	restoring sync.Mutex
	restored  bool

	mu       sync.Mutex
	since    time.Time
	reserved map[string]map[Key]Reservation // by member
	// on are the members on which a FleetMiniCluster has reserved room. runs is how many have on each member, nil until
	// somebody asks.
	on   map[Key]map[string]bool
	runs map[string]int
	// spares and orders are what is the same in all views of a member: what is free, and who waits. They are made when they
	// are asked for, and forgotten when they change.
	spares map[string]*spare
	orders map[string]*line
	// version counts, by member, the changes that leave less room for others.
	version map[string]int
	pending map[Key]*Entry
	// lines are the same entries by namespace, in their order, waiting those that wait on a member, and anywhere those that
	// wait on every one. No list is changed, nor is an entry. One may be older than that in pending as far
	// as its place and its gangs are the same.
	lines    map[string][]*Entry
	waiting  map[string]map[string][]*Entry
	anywhere map[string][]*Entry
	gangs    sharedGangs
	// namespaces and shares are what the order of namespaces depends on, shares by member.
	namespaces map[string]Namespace
	shares     map[string]*shares
	// served says when the latest run of a namespace was begun on a member: the count of runs begun until then.
	served map[string]map[string]uint64
	clock  uint64
	// rooms are those of members as they were seen last.
	rooms map[string]seen
	// newer are those that changed before the queue was restored, which may have been listed for that already: whether
	// that was about their reservations as well, or only about the line.
	newer map[Key]bool
	// known are the members whose room has been known since they were connected; asking are those who could not
	// be told of a member's room because it was not known yet.
	known  map[string]any
	asking map[string]map[Key]bool
}

// New returns an empty Queue.
func New() *Queue {
	return &Queue{
		reserved: map[string]map[Key]Reservation{}, on: map[Key]map[string]bool{}, spares: map[string]*spare{}, orders: map[string]*line{},
		version: map[string]int{}, pending: map[Key]*Entry{}, lines: map[string][]*Entry{},
		waiting: map[string]map[string][]*Entry{}, anywhere: map[string][]*Entry{},
		namespaces: map[string]Namespace{}, shares: map[string]*shares{},
		served: map[string]map[string]uint64{}, rooms: map[string]seen{}, newer: map[Key]bool{}, known: map[string]any{}, asking: map[string]map[Key]bool{},
	}
}

// Restored is what a FleetMiniCluster had before the hub was restarted.
type Restored struct {
	Key          Key
	Reservations map[string]Reservation // by member
	Entry        *Entry
	// Begun is when its latest run was begun, by member, also of those that have ended.
	Begun map[string]time.Time
}

// Restore fills the queue from what load returns, once; load is called again after an error only. What is in the
// queue already is newer and stays. Until the first call has succeeded, others wait.
func (q *Queue) Restore(now time.Time, load func() ([]Restored, error)) error {
	q.restoring.Lock()
	defer q.restoring.Unlock()
	if q.restored {
		return nil
	}
	all, err := load()
	if err != nil {
		return err
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, r := range all {
		q.restore(r)
	}
	q.restoreServed(all)
	q.restored, q.since, q.newer = true, now, nil
	return nil
}

// restoreServed puts down in which order namespaces were served. What was begun since is later. The queue is locked.
func (q *Queue) restoreServed(all []Restored) {
	type begun struct {
		member, namespace string
		at                time.Time
	}
	var runs []begun
	for _, r := range all {
		for member, at := range r.Begun {
			runs = append(runs, begun{member, r.Key.Namespace, at})
		}
	}
	slices.SortFunc(runs, func(a, b begun) int {
		if n := a.at.Compare(b.at); n != 0 {
			return n
		}
		return cmp.Or(strings.Compare(a.member, b.member), strings.Compare(a.namespace, b.namespace))
	})
	for _, r := range runs {
		q.serve(r.member, r.namespace)
	}
	clear(q.orders)
}

// serve notes that a run of a namespace is begun on a member. The queue is locked.
func (q *Queue) serve(member, namespace string) {
	if q.served[member] == nil {
		q.served[member] = map[string]uint64{}
	}
	q.clock++
	q.served[member][namespace] = q.clock
}

// restore puts down what is not newer in the queue. The queue is locked.
func (q *Queue) restore(r Restored) {
	reservations, line := q.newer[r.Key]
	for member, reservation := range r.Reservations {
		if _, ok := q.reserved[member][r.Key]; !ok && !reservations {
			q.set(member, r.Key, reservation)
		}
	}
	if r.Entry != nil && !line {
		q.enqueue(r.Key, r.Entry)
	}
}

// Since is when the queue was restored: soon after the hub has started.
func (q *Queue) Since() time.Time {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.since
}

// set puts down a reservation. The queue is locked.
func (q *Queue) set(member string, key Key, r Reservation) {
	if q.reserved[member] == nil {
		q.reserved[member] = map[Key]Reservation{}
	}
	before, ok := q.reserved[member][key]
	if !ok || r.grows(before) {
		q.version[member]++
	}
	if r.Run != "" && r.Run != before.Run {
		q.serve(member, key.Namespace)
	}
	q.reserved[member][key] = r
	q.forget(member)
	if ok {
		return
	}
	q.runs = nil
	if q.on[key] == nil {
		q.on[key] = map[string]bool{}
	}
	q.on[key][member] = true
}

// unset takes a reservation away. The queue is locked.
func (q *Queue) unset(member string, key Key) {
	delete(q.reserved[member], key)
	q.forget(member)
	q.runs = nil
	if delete(q.on[key], member); len(q.on[key]) == 0 {
		delete(q.on, key)
	}
}

// forget has what is the same in all views of a member made anew. The queue is locked.
func (q *Queue) forget(member string) {
	delete(q.spares, member)
	delete(q.orders, member)
}

// Forget drops what was seen of a member that is not registered any more. What is reserved on it, and who waits there, is for
// those to change who do. Its version goes on: a view that was made before is none of a member that gets the same name.
func (q *Queue) Forget(member string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	delete(q.rooms, member)
	delete(q.known, member)
	delete(q.asking, member)
	delete(q.shares, member)
	delete(q.served, member)
	delete(q.spares, member)
	delete(q.orders, member)
	q.version[member]++
}

// Runs is how many reservations there are on each member.
func (q *Queue) Runs() map[string]int {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.runs == nil {
		q.runs = make(map[string]int, len(q.reserved))
		for member, all := range q.reserved {
			if len(all) > 0 {
				q.runs[member] = len(all)
			}
		}
	}
	return maps.Clone(q.runs)
}

// Reservations are those of a FleetMiniCluster, by member.
func (q *Queue) Reservations(key Key) map[string]Reservation {
	q.mu.Lock()
	defer q.mu.Unlock()
	out := make(map[string]Reservation, len(q.on[key]))
	for member := range q.on[key] {
		out[member] = q.reserved[member][key]
	}
	return out
}

// Pending is the entry of a FleetMiniCluster that waits, nil for one that does not.
func (q *Queue) Pending(key Key) *Entry {
	q.mu.Lock()
	defer q.mu.Unlock()
	if e := q.pending[key]; e != nil {
		own := *e
		return &own
	}
	return nil
}

// View is what a FleetMiniCluster may know of a member: room is the member's, with or without the
// FleetMiniCluster's own pods.
func (q *Queue) View(member string, room *nodeusage.Room, key Key) *View {
	q.mu.Lock()
	defer q.mu.Unlock()
	v := &View{
		Member: member, State: room.State, spare: q.spare(member, room, key), line: q.line(member, room, key), room: room, version: q.version[member],
	}
	if v.own = v.line.tenants[key.Namespace]; v.own == nil {
		v.own = q.newTenant(member, key.Namespace)
	}
	return v
}

// free is what nodes have free, less what all but one FleetMiniCluster have reserved, and the pods that this is for. The
// nodes may be those of the room. The queue is locked.
func (q *Queue) free(member string, room *nodeusage.Room, self Key) ([]fleet.Node, []fit.Unplaced) {
	if room.State != nodeusage.Known {
		return nil, nil
	}
	held, pods := map[string]int{}, map[string]fit.Pod{}
	hold := func(p fit.Pod, n int) {
		if n > 0 {
			held[p.Key] += n
			pods[p.Key] = p
		}
	}
	for key, r := range q.reserved[member] {
		if key == self {
			continue
		}
		scheduled := room.Scheduled(r.Run)
		hold(r.Gang.Pod, r.Gang.Size-r.Succeeded-scheduled.Pods)
		if r.Gang.Beside != nil {
			hold(*r.Gang.Beside, 1-scheduled.Services)
		}
	}
	if len(held) == 0 {
		return room.Nodes, nil
	}
	var unplaced []fit.Unplaced
	nodes := fit.Clone(room.Nodes)
	for _, key := range pickiestFirst(nodes, pods) {
		fit.Reserve(nodes, pods[key], held[key])
		unplaced = append(unplaced, fit.Unplaced{Pod: pods[key], Count: held[key]})
	}
	return nodes, unplaced
}

// pickiestFirst are the keys of pods, those first of which the fewest fit. Others would be spread over the room that
// only these can have, which then seemed to need none.
func pickiestFirst(nodes []fleet.Node, pods map[string]fit.Pod) []string {
	keys := slices.Sorted(maps.Keys(pods))
	if len(keys) < 2 {
		return keys
	}
	places := map[string]int{}
	for key, pod := range pods {
		places[key] = fit.Check(nodes, fit.Gang{Pod: pod, Size: math.MaxInt}).Pods
	}
	slices.SortStableFunc(keys, func(a, b string) int { return cmp.Compare(places[a], places[b]) })
	return keys
}

// Request asks for a reservation that was decided on with a view.
type Request struct {
	View        *View
	Reservation Reservation
}

// Reserve makes all reservations of a FleetMiniCluster, or none where others have taken room on one of the members
// since its view was made: then there is to be another decision, on new views.
func (q *Queue) Reserve(key Key, requests []Request) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, r := range requests {
		if q.version[r.View.Member] != r.View.version {
			return false
		}
	}
	for _, r := range requests {
		q.set(r.View.Member, key, r.Reservation)
	}
	return true
}

// Update makes the reservations of a FleetMiniCluster those given, by member, and its place in the line the entry
// given, nil for none. It returns the members where others may have more room, or another turn.
func (q *Queue) Update(key Key, reservations map[string]Reservation, entry *Entry) []string {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.restored {
		q.newer[key] = true
	}
	var affected []string
	for member := range q.on[key] {
		if _, ok := reservations[member]; !ok {
			q.unset(member, key)
			affected = append(affected, member)
		}
	}
	for member, r := range reservations {
		before, had := q.reserved[member][key]
		if !had || !r.same(before) {
			q.set(member, key, r)
			affected = append(affected, member) // it may need less than before
		}
	}
	affected = append(affected, q.enqueue(key, entry)...)
	slices.Sort(affected)
	return slices.Compact(affected)
}

func (r Reservation) same(o Reservation) bool {
	return r.Run == o.Run && r.Succeeded == o.Succeeded && r.Gang.Size == o.Gang.Size && r.Gang.Pod.Key == o.Gang.Pod.Key &&
		besideKey(r.Gang) == besideKey(o.Gang)
}

// Dequeue takes a FleetMiniCluster out of the line. It returns the members where that gives others a turn.
func (q *Queue) Dequeue(key Key) []string {
	q.mu.Lock()
	defer q.mu.Unlock()
	if _, ok := q.newer[key]; !q.restored && !ok {
		q.newer[key] = false
	}
	return q.enqueue(key, nil)
}

// Release forgets a FleetMiniCluster altogether, and returns the members where others may have more room.
func (q *Queue) Release(key Key) []string { return q.Update(key, nil, nil) }
