package queue_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/minifleet/minifleet/internal/nodeusage"
	"github.com/minifleet/minifleet/internal/queue"
)

// order are the names of those that wait on alpine.
func order(q *queue.Queue, room *nodeusage.Room) string {
	var out []string
	for _, s := range q.Line("alpine", room, 0).Standings {
		out = append(out, s.Key.Name)
	}
	return strings.Join(out, " ")
}

func TestOrderBetweenNamespaces(t *testing.T) {
	a, b, c := in("a"), in("b"), in("c")
	// Eight cores, all of them in use by somebody else.
	eight := newMember(node("n", "8", nil))
	eight.schedule("", "n", "8")
	unknown := &nodeusage.Room{State: nodeusage.Unknown}
	live := func(namespace string, size int) func(*queue.Queue) {
		return func(q *queue.Queue) {
			q.Update(of(namespace, "live"), reservations{"alpine": {Run: runA, Gang: gang(size)}}, nil)
		}
	}
	served := func(namespaces ...string) func(*queue.Queue) {
		return func(q *queue.Queue) {
			for _, n := range namespaces {
				live(n, 1)(q)
				q.Release(of(n, "live"))
			}
		}
	}
	highest := func(namespace string, n int32) func(*queue.Queue) {
		return func(q *queue.Queue) { q.SetNamespace(namespace, queue.Namespace{MaxPriority: n}) }
	}
	weighs := func(namespace string, weight int32) func(*queue.Queue) {
		return func(q *queue.Queue) { q.SetShares(shared("alpine", 1, share(weight, nil, -1, namespace))) }
	}
	one := gang(1)
	cases := map[string]struct {
		line  []queue.Entry
		setUp []func(*queue.Queue)
		room  *nodeusage.Room
		want  string
	}{
		"the older, and then the others in turn": {
			line: []queue.Entry{entry("a1", 0, 1, one, a), entry("a2", 0, 2, one, a), entry("a3", 0, 3, one, a), entry("b1", 0, 4, one, b), entry("c1", 0, 5, one, c)},
			want: "a1 b1 c1 a2 a3",
		},
		"a huge priority counts in its own namespace only": {
			line: []queue.Entry{entry("a1", 0, 1, one, a), entry("a2", 1<<30, 2, one, a), entry("b1", 0, 3, one, b), entry("b2", 7, 4, one, b)},
			want: "a2 b2 a1 b1",
		},
		"a priority counts as far as it may": {
			line: []queue.Entry{entry("a1", 9, 1, one, a), entry("a2", 9, 2, one, a), entry("b1", 9, 3, one, b), entry("b2", 2, 4, one, b)}, setUp: []func(*queue.Queue){highest("a", 2), highest("b", 3)},
			want: "b1 a1 b2 a2",
		},
		"a negative one always counts": {
			line: []queue.Entry{entry("a1", -1, 1, one, a), entry("b1", 0, 3, one, b)}, want: "b1 a1",
		},
		"who uses less": {
			line: []queue.Entry{entry("a1", 0, 1, one, a), entry("a2", 0, 2, one, a), entry("b1", 0, 3, one, b), entry("b2", 0, 4, one, b)}, setUp: []func(*queue.Queue){live("a", 2)},
			want: "b1 b2 a1 a2",
		},
		"what is asked for counts as used": {
			line: []queue.Entry{entry("a1", 0, 1, gang(4), a), entry("a2", 0, 2, one, a), entry("b1", 0, 3, one, b), entry("b2", 0, 4, one, b), entry("b3", 0, 5, one, b)},
			want: "a1 b1 b2 b3 a2",
		},
		"twice as much for twice the weight": {
			line: []queue.Entry{entry("a1", 0, 1, one, a), entry("a2", 0, 1, one, a), entry("a3", 0, 1, one, a), entry("a4", 0, 1, one, a), entry("b1", 0, 2, one, b), entry("b2", 0, 2, one, b), entry("b3", 0, 2, one, b)}, setUp: []func(*queue.Queue){weighs("a", 2)},
			want: "a1 b1 a2 b2 a3 a4 b3",
		},
		"the dominant of what is used": {
			line: []queue.Entry{entry("a1", 0, 1, one, a), entry("b1", 0, 2, one, b)},
			setUp: []func(*queue.Queue){
				func(q *queue.Queue) { // half of the memory, and one of eight cores
					big := gang(1, func(s *corev1.PodSpec) { s.Containers[0].Resources.Requests["memory"] = quantity("4Gi") })
					q.Update(of("a", "live"), reservations{"alpine": {Run: runA, Gang: big}}, nil)
				}, live("b", 3),
			},
			room: withMemory("8", "8Gi"), want: "b1 a1",
		},
		"runs, where it is not known what there is": {
			line: []queue.Entry{entry("a1", 0, 1, one, a), entry("b1", 0, 2, one, b), entry("b2", 0, 3, one, b)}, setUp: []func(*queue.Queue){live("a", 1)}, room: unknown,
			want: "b1 a1 b2",
		},
		"who was served least recently": {
			line: []queue.Entry{entry("a1", 0, 1, one, a), entry("b1", 0, 2, one, b), entry("c1", 0, 3, one, c)}, setUp: []func(*queue.Queue){served("c", "a", "b", "c")},
			want: "a1 b1 c1",
		},
		"who was never served": {
			line: []queue.Entry{entry("a1", 0, 1, one, a), entry("b1", 0, 2, one, b)}, setUp: []func(*queue.Queue){served("a")},
			want: "b1 a1",
		},
		"in turn also where nothing is asked for": {
			line: []queue.Entry{entry("a1", 0, 1, gang(1, cpu("0")), a), entry("a2", 0, 1, gang(1, cpu("0")), a), entry("b1", 0, 2, gang(1, cpu("0")), b), entry("b2", 0, 2, gang(1, cpu("0")), b)},
			want: "a1 b1 a2 b2",
		},
		"one that never fits costs its namespace nothing": {
			line: []queue.Entry{entry("a1", 0, 1, gang(99), a), entry("a2", 0, 2, one, a), entry("b1", 0, 3, one, b)},
			want: "a1 a2 b1",
		},
		"nor does one beyond its limits": {
			line:  []queue.Entry{entry("a1", 0, 1, gang(2), a), entry("a2", 0, 2, one, a), entry("b1", 0, 3, one, b)},
			setUp: []func(*queue.Queue){func(q *queue.Queue) { q.SetShares(shared("alpine", 1, share(1, nil, 0, "a"))) }},
			want:  "a1 a2 b1",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			q, room := waiting(tc.line...), tc.room
			if room == nil {
				room = eight.Room()
			}
			for _, f := range tc.setUp {
				f(q)
			}
			equal(t, tc.want, order(q, room))
			places := q.Places()
			for i, name := range strings.Fields(tc.want) {
				if got := places[of(name[:1], name)]; int(got) != i+1 {
					t.Errorf("%s is told place %d", name, got)
				}
			}
		})
	}
}

// A hub that has restarted knows who was served last.
func TestOrderAfterARestart(t *testing.T) {
	q := queue.New()
	e1, e2 := entry("a1", 0, 1, gang(1), in("a"), anywhere), entry("b1", 0, 2, gang(1), in("b"), anywhere)
	equal(t, nil, q.Restore(hour(5), func() ([]queue.Restored, error) {
		return []queue.Restored{
			{Key: e1.Key, Entry: &e1, Begun: map[string]time.Time{"alpine": hour(4)}},
			{Key: e2.Key, Entry: &e2, Begun: map[string]time.Time{"alpine": hour(3)}},
			{Key: of("b", "other"), Begun: map[string]time.Time{"alpine": hour(1), "basalt": hour(9)}},
		}, nil
	}))
	room := newMember(node("n", "8", nil)).Room()
	equal(t, "b1 a1", order(q, room))
	q.Update(of("b", "now"), reservations{"alpine": {Run: runA, Gang: gang(1)}}, nil)
	q.Release(of("b", "now"))
	equal(t, "a1 b1", order(q, room))
}

// A namespace that has nothing on the member waits for at most one start of each other, whatever these have in line, and
// however large what it waits for is: also where others come with ever new runs of a huge priority.
func TestNobodyIsOvertakenForGood(t *testing.T) {
	for seed := range uint64(30) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) { newCrowd(t, seed).play(400) })
	}
}

// crowd is namespaces that always want more of one member.
type crowd struct {
	*testing.T
	random     *rand.Rand
	queue      *queue.Queue
	member     *member
	namespaces []string
	count      int
	live       map[queue.Key]types.UID
	// overtaken is how many runs of each other were begun since a namespace waits that has nothing live.
	overtaken map[string]map[string]int
	starts    map[string]int
}

func newCrowd(t *testing.T, seed uint64) *crowd {
	c := &crowd{
		T: t, random: rand.New(rand.NewPCG(seed, 3)), queue: queue.New(), member: newMember(node("n", "8", nil)),
		namespaces: []string{"greedy", "large", "small"}, live: map[queue.Key]types.UID{},
		overtaken: map[string]map[string]int{}, starts: map[string]int{},
	}
	for _, n := range c.namespaces {
		c.overtaken[n] = map[string]int{}
	}
	return c
}

func (c *crowd) play(steps int) {
	for range steps {
		for len(c.waitingIn("greedy")) < 5 {
			c.add("greedy", 1<<30, 1+c.random.IntN(2))
		}
		if len(c.waitingIn("large")) == 0 {
			c.add("large", 0, 8)
		}
		if len(c.waitingIn("small")) == 0 && c.random.IntN(3) == 0 {
			c.add("small", 0, 1)
		}
		if len(c.live) > 0 && c.random.IntN(2) == 0 {
			c.end()
		}
		for _, k := range c.queue.Affected("alpine", c.member.Room(), hour(12)) {
			c.start(k)
		}
	}
	for _, n := range c.namespaces {
		if c.starts[n] == 0 {
			c.Errorf("%s has never run", n)
		}
	}
}

func (c *crowd) waitingIn(namespace string) []queue.Standing {
	return slices.DeleteFunc(c.queue.Line("alpine", c.member.Room(), 0).Standings, func(s queue.Standing) bool { return s.Key.Namespace != namespace })
}

func (c *crowd) add(namespace string, priority int32, size int) {
	c.count++
	e := entry(fmt.Sprint(c.count), priority, 0, gang(size, cpu("1")), in(namespace))
	e.Created = hour(0).AddDate(0, 0, c.count)
	if len(c.waitingIn(namespace)) == 0 {
		c.overtaken[namespace] = map[string]int{}
	}
	c.queue.Update(e.Key, nil, &e)
}

// end ends a run that is live.
func (c *crowd) end() {
	for k, pod := range c.live {
		c.member.RemovePod(pod)
		c.queue.Release(k)
		delete(c.live, k)
		if !c.runs(k.Namespace) {
			c.overtaken[k.Namespace] = map[string]int{}
		}
		return
	}
}

func (c *crowd) runs(namespace string) bool {
	for k := range c.live {
		if k.Namespace == namespace {
			return true
		}
	}
	return false
}

// start begins a run if it is its turn.
func (c *crowd) start(k queue.Key) {
	e := c.queue.Pending(k)
	v := c.queue.View("alpine", c.member.Room(), k)
	if v.Check(e.Gangs["alpine"], e.Rank).Blocked != "" || !c.queue.Reserve(k, []queue.Request{request(v, e.Gangs["alpine"])}) {
		return
	}
	c.count++
	run := fmt.Sprintf("%010x", c.count)
	c.queue.Update(k, reservations{"alpine": {Run: run, Gang: e.Gangs["alpine"]}}, nil)
	c.live[k] = c.member.schedule(run, "n", fmt.Sprint(e.Gangs["alpine"].Size))
	c.queue.Update(k, reservations{"alpine": {Run: run, Gang: gang(1, cpu(fmt.Sprint(e.Gangs["alpine"].Size)))}}, nil)
	c.starts[k.Namespace]++
	for _, n := range c.namespaces {
		if n == k.Namespace || c.runs(n) || len(c.waitingIn(n)) == 0 {
			continue
		}
		if c.overtaken[n][k.Namespace]++; c.overtaken[n][k.Namespace] > 1 {
			c.Fatalf("%s has nothing on the member, waits, and %s was begun again", n, k)
		}
	}
}

// withMemory is a member of one node.
func withMemory(cores, memory string) *nodeusage.Room {
	n := node("n", cores, nil)
	n.Status.Allocatable["memory"] = quantity(memory)
	return newMember(n).Room()
}
