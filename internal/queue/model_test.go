package queue_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/types"

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
	for i := range 8 {
		r := &racer{gangs: map[string]fit.Gang{}}
		r.Rank = queue.Rank{Priority: int32(w.random.IntN(3)), Created: hour(w.random.IntN(4)), Key: key(fmt.Sprint(i))}
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

// fits says whether a racer will ever fit on a member.
func (w *race) fits(r *racer, name string) bool {
	g, ok := r.gangs[name]
	return ok && g.Size <= w.cores[name]
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

// mayBegin says, from what is known to be true, whether it is a racer's turn on a member.
func (w *race) mayBegin(self *racer, name string) bool {
	return self.gangs[name].Size <= w.left(self, name) && !slices.ContainsFunc(w.racers, func(r *racer) bool {
		return r != self && r.inLine && r.Compare(self.Rank) < 0 && w.fits(r, name)
	})
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
		held := 0
		for _, r := range w.racers {
			if own, ok := w.queue.Reservations(r.Key)[name]; ok {
				held += own.Gang.Size - own.Succeeded
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
	if f.Fits && f.Blocked != "" {
		w.Fatalf("%s is the first on %s, and is told: %s", head.Key, name, f.Blocked)
	}
	i := slices.IndexFunc(w.racers, func(r *racer) bool { return r.Key == head.Key })
	if f.Fits && w.racers[i].member == "" && !slices.Contains(w.queue.Affected(name, room, head.Reconciled), head.Key) {
		w.Fatalf("%s is the first on %s, and is not told that it fits", head.Key, name)
	}
}

// Whatever the order in which several decide and reserve, no room is given twice, each gets its turn, and all that ever
// fit run.
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
