package queue_test

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/internal/fit"
	"github.com/minifleet/minifleet/internal/queue"
)

// racer is a FleetMiniCluster that goes through: view, reserve, ledger, pods scheduled, pods succeeded, over.
type racer struct {
	queue.Rank
	gangs  map[string]fit.Gang
	inLine bool
	// view is what it has decided on, at a time when so many reservations had been made on the member.
	view *queue.View
	seen int
	// member is where it has reserved room, empty if nowhere.
	member    string
	run       string // empty until it is in the ledger
	pods      []types.UID
	scheduled int
	succeeded int
	told      int // how many of them the queue knows to have succeeded
	over      bool
}

// tenant is a namespace of theirs. Limits are of cores and runs on each member, -1 for none.
type tenant struct {
	weight, cap int32
	cores, runs int
	served      map[string]int // by member
}

// holds is how many cores of its member it takes from others.
func (r *racer) holds() int { return r.gangs[r.member].Size - r.told }

// race is several of them on two members, and what is known to be true of them.
type race struct {
	*testing.T
	random  *rand.Rand
	queue   *queue.Queue
	members map[string]*member
	cores   map[string]int
	taken   map[string]int // how many reservations were made, by member
	racers  []*racer
	tenants map[string]*tenant
	begun   int
}

func newRace(t *testing.T, seed uint64) *race {
	w := &race{
		T: t, random: rand.New(rand.NewPCG(seed, 1)), queue: queue.New(), taken: map[string]int{},
		members: map[string]*member{
			"alpine": newMember(node("a", "4", nil), node("b", "4", nil)),
			"basalt": newMember(node("a", "5", nil)),
		},
		cores: map[string]int{"alpine": 8, "basalt": 5},
	}
	w.tenants = map[string]*tenant{}
	for i := range 1 + w.random.IntN(3) {
		t := &tenant{weight: 1 + int32(w.random.IntN(3)), cap: int32(w.random.IntN(3)), cores: -1, runs: -1, served: map[string]int{}}
		if w.random.IntN(2) == 0 {
			t.cores = 2 + w.random.IntN(6)
		}
		if w.random.IntN(3) == 0 {
			t.runs = 1 + w.random.IntN(2)
		}
		w.tenants[fmt.Sprint("team-", i)] = t
	}
	w.setShares()
	for i := range 10 {
		r := &racer{gangs: map[string]fit.Gang{}}
		namespace := fmt.Sprint("team-", w.random.IntN(len(w.tenants)))
		r.Rank = queue.Rank{Priority: int32(w.random.IntN(3)), Created: hour(w.random.IntN(4)), Key: of(namespace, fmt.Sprint(i))}
		for _, name := range memberNames {
			if w.random.IntN(4) > 0 {
				r.gangs[name] = gang(1 + w.random.IntN(9))
			}
		}
		w.racers = append(w.racers, r)
	}
	return w
}

var memberNames = []string{"alpine", "basalt"}

// setShares tells the queue of the tenants.
func (w *race) setShares() {
	for _, member := range memberNames {
		var shares []v1alpha1.NamespaceShare
		for name, t := range w.tenants {
			limits := map[corev1.ResourceName]string{}
			if t.cores >= 0 {
				limits["cpu"] = fmt.Sprint(t.cores)
			}
			shares = append(shares, share(t.weight, limits, int32(t.runs), name))
			w.queue.SetNamespace(name, queue.Namespace{MaxPriority: t.cap})
		}
		w.queue.SetShares(shared(member, 1, shares...))
	}
}

// fits says whether a racer will ever fit on a member, and within the limits there.
func (w *race) fits(r *racer, name string) bool {
	g, ok := r.gangs[name]
	t := w.tenants[r.Key.Namespace]
	return ok && g.Size <= w.cores[name] && (t.cores < 0 || g.Size <= t.cores)
}

// mayRun says that a racer has a run before it, on one member at least.
func (w *race) mayRun(r *racer) bool { return !r.over && (w.fits(r, "alpine") || w.fits(r, "basalt")) }

// left is what others do not take of a member.
func (w *race) left(self *racer, name string) int {
	n := w.cores[name]
	for _, r := range w.racers {
		if r != self && r.member == name {
			n -= r.holds()
		}
	}
	return n
}

// use is what a tenant has of a member, and what those of it take that come first.
type use struct{ cores, runs, served, keptCores, keptRuns int }

// mayBegin says, from what is known to be true, whether it is a racer's turn on a member.
func (w *race) mayBegin(self *racer, name string) bool {
	uses, line := map[string]*use{}, []*racer{self}
	for namespace, t := range w.tenants {
		uses[namespace] = &use{served: t.served[name]}
	}
	for _, r := range w.racers {
		if r == self {
			continue
		}
		if r.member == name {
			uses[r.Key.Namespace].cores += r.holds()
			uses[r.Key.Namespace].runs++
		}
		if _, here := r.gangs[name]; here && r.inLine && r.member != name {
			line = append(line, r)
		}
	}
	for {
		r := w.next(line, uses)
		u, t, size := uses[r.Key.Namespace], w.tenants[r.Key.Namespace], r.gangs[name].Size
		within := (t.cores < 0 || u.cores+u.keptCores+size <= t.cores) && (t.runs < 0 || u.runs+u.keptRuns < t.runs)
		switch {
		case r == self:
			return within && size <= w.left(self, name)
		case !w.fits(r, name):
		case within:
			return false // all pods are equal, so nothing is left over
		default:
			u.keptCores += size
			u.keptRuns++
		}
		line = slices.DeleteFunc(slices.Clone(line), func(o *racer) bool { return o == r })
	}
}

// next is who comes first: the obvious way.
func (w *race) next(line []*racer, uses map[string]*use) *racer {
	share := func(r *racer) int { // of the member's cores, for a weight of 1 to 3, in sixths
		return uses[r.Key.Namespace].cores * 6 / int(w.tenants[r.Key.Namespace].weight)
	}
	var first *racer
	for _, r := range line {
		own := func(o *racer) bool { return o.Key.Namespace == r.Key.Namespace && o.Compare(r.Rank) < 0 }
		if slices.ContainsFunc(line, own) {
			continue
		}
		if first == nil || cmp.Or(
			cmp.Compare(min(first.Priority, w.tenants[first.Key.Namespace].cap), min(r.Priority, w.tenants[r.Key.Namespace].cap)),
			cmp.Compare(share(r), share(first)), cmp.Compare(uses[r.Key.Namespace].served, uses[first.Key.Namespace].served),
			r.Created.Compare(first.Created), cmp.Compare(r.Key.Namespace, first.Key.Namespace)) < 0 {
			first = r
		}
	}
	return first
}

// step lets a racer do what comes next for it.
func (w *race) step(r *racer) {
	switch {
	case r.over:
	case r.member == "" && r.view == nil:
		w.decide(r)
	case r.member == "":
		w.reserve(r)
	case r.run == "":
		r.run, r.inLine = fmt.Sprintf("%010x", w.random.Uint64()&0xffffffffff), false
		w.begun++
		w.tenants[r.Key.Namespace].served[r.member] = w.begun
		w.update(r)
	case r.scheduled < r.gangs[r.member].Size:
		w.schedule(r)
	case len(r.pods) > 0:
		w.members[r.member].RemovePod(r.pods[0])
		r.pods = r.pods[1:]
		r.succeeded++
		if w.random.IntN(2) == 0 || len(r.pods) == 0 {
			w.update(r)
		}
	default:
		w.queue.Release(r.Key)
		r.over, r.member = true, ""
	}
}

// update brings the queue in line with how a run gets on.
func (w *race) update(r *racer) {
	r.told = r.succeeded
	w.queue.Update(r.Key, reservations{r.member: {Run: r.run, Gang: r.gangs[r.member], Succeeded: r.succeeded}}, nil)
}

// decide takes a view of each member, and keeps the first on which the racer may begin. If there is none, it waits.
func (w *race) decide(r *racer) {
	for _, i := range w.random.Perm(len(memberNames)) {
		name := memberNames[i]
		g, ok := r.gangs[name]
		if !ok {
			continue
		}
		v := w.queue.View(name, w.members[name].Room(), r.Key)
		blocked := v.Check(g, r.Rank).Blocked
		if want := w.mayBegin(r, name); want != (blocked == "") {
			w.Fatalf("%s on %s: %q, it may begin: %t", r.Key, name, blocked, want)
		}
		if blocked == "" {
			r.view, r.seen = v, w.taken[name]
			return
		}
	}
	w.queue.Update(r.Key, nil, &queue.Entry{Rank: r.Rank, Gangs: r.gangs})
	r.inLine = true
}

// reserve does so with a view that may be outdated. It is refused if, and only if, others have taken room since.
func (w *race) reserve(r *racer) {
	name, v := r.view.Member, r.view
	r.view = nil
	ok := w.queue.Reserve(r.Key, []queue.Request{request(v, r.gangs[name])})
	if ok != (r.seen == w.taken[name]) {
		w.Fatalf("%s reserved on %s: %t, after %d others since its view", r.Key, name, ok, w.taken[name]-r.seen)
	}
	if ok {
		r.member = name
		w.taken[name]++
	}
}

// schedule gives a pod some node that has room. There is one, for the room was reserved.
func (w *race) schedule(r *racer) {
	m := w.members[r.member]
	nodes := slices.Clone(m.Room().Nodes)
	w.random.Shuffle(len(nodes), func(i, j int) { nodes[i], nodes[j] = nodes[j], nodes[i] })
	for _, n := range nodes {
		if n.Free["cpu"] >= 1000 {
			r.pods = append(r.pods, m.schedule(r.run, n.Name, "1"))
			r.scheduled++
			return
		}
	}
	w.Fatalf("%s has reserved room on %s, and a pod of it finds none", r.Key, r.member)
}

// check is what holds at all times.
func (w *race) check() {
	for _, name := range memberNames {
		held, byTenant, runs := 0, map[string]int{}, map[string]int{}
		for _, r := range w.racers {
			if own, ok := w.queue.Reservations(r.Key)[name]; ok {
				held += own.Gang.Size - own.Succeeded
				byTenant[r.Key.Namespace] += own.Gang.Size - own.Succeeded
				runs[r.Key.Namespace]++
			}
		}
		for namespace, t := range w.tenants {
			if t.cores >= 0 && byTenant[namespace] > t.cores || t.runs >= 0 && runs[namespace] > t.runs {
				w.Fatalf("%s has %d runs and %d cores on %s, and may have %d and %d", namespace, runs[namespace], byTenant[namespace], name, t.runs, t.cores)
			}
		}
		if held > w.cores[name] {
			w.Fatalf("%d cores are reserved on %s, which has %d", held, name, w.cores[name])
		}
		w.checkHead(name)
	}
}

// checkHead is about the first in a line: if it fits, it may begin at once, and is told so.
func (w *race) checkHead(name string) {
	room := w.members[name].Room()
	line := w.queue.Line(name, room, 0).Standings
	if len(line) == 0 {
		return
	}
	head := line[0]
	f := w.queue.View(name, room, head.Key).Check(head.Gangs[name], head.Rank)
	if f.Quota {
		return
	}
	if f.Fits && f.Blocked != "" {
		w.Fatalf("%s is the first on %s, and is told: %s", head.Key, name, f.Blocked)
	}
	i := slices.IndexFunc(w.racers, func(r *racer) bool { return r.Key == head.Key })
	if f.Fits && w.racers[i].member == "" && !slices.Contains(w.queue.Affected(name, room, head.Reconciled), head.Key) {
		w.Fatalf("%s is the first on %s, and is not told that it fits", head.Key, name)
	}
}

// Whatever the order in which several decide and reserve, no room is given twice, no namespace exceeds its limits, each gets
// its turn, and all that ever fit run.
func TestQueueUnderRandomSchedules(t *testing.T) {
	for seed := range uint64(40) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			w := newRace(t, seed)
			for steps := 0; slices.ContainsFunc(w.racers, w.mayRun); steps++ {
				if steps == 5000 {
					t.Fatal("some never get their turn")
				}
				w.step(w.racers[w.random.IntN(len(w.racers))])
				w.check()
			}
		})
	}
}
