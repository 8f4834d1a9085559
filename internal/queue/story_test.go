package queue_test

import (
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/minifleet/minifleet/internal/fit"
	"github.com/minifleet/minifleet/internal/queue"
)

// story is a member of 8 nodes of 16 CPU, which two teams use.
type story struct {
	*testing.T
	queue  *queue.Queue
	member *member
	live   map[queue.Key][]types.UID
	count  int
}

func newStory(t *testing.T) *story {
	var nodes []*corev1.Node
	for i := range 8 {
		nodes = append(nodes, node(fmt.Sprint("n", i+1), "16", nil))
	}
	s := &story{T: t, queue: queue.New(), member: newMember(nodes...), live: map[queue.Key][]types.UID{}}
	s.queue.SetShares(shared("alpine", 1,
		share(2, map[corev1.ResourceName]string{"cpu": "72"}, -1, "chem"),
		share(1, nil, 4, "phys")))
	return s
}

// submit has one wait for so many pods. The priority is that of all of its team.
func (s *story) submit(namespace, name string, pods int, cpus string) {
	s.count++
	e := queue.Entry{
		Rank:  queue.Rank{Created: hour(s.count), Key: of(namespace, name)},
		Gangs: map[string]fit.Gang{"alpine": gang(pods, cpu(cpus))}, Reconciled: hour(0),
	}
	if namespace == "chem" {
		e.Priority = 1000
	}
	s.queue.Update(e.Key, nil, &e)
}

// end ends a run.
func (s *story) end(namespace, name string) {
	for _, pod := range s.live[of(namespace, name)] {
		s.member.RemovePod(pod)
	}
	s.queue.Release(of(namespace, name))
}

// begin has those begin that may, as the controller does, and says who, in order.
func (s *story) begin() []string {
	var out []string
	for {
		began := false
		for _, k := range s.queue.Affected("alpine", s.member.Room(), hour(0)) {
			e, v := s.queue.Pending(k), s.queue.View("alpine", s.member.Room(), k)
			g := e.Gangs["alpine"]
			if v.Check(g, e.Rank).Blocked == "" && s.queue.Reserve(k, []queue.Request{request(v, g)}) {
				s.start(k, g)
				out, began = append(out, k.Name), true
			}
		}
		if !began {
			return out
		}
	}
}

// start schedules the pods of a run, each on the first node that takes it.
func (s *story) start(k queue.Key, g fit.Gang) {
	run := fmt.Sprintf("%010x", len(s.live))
	s.queue.Update(k, reservations{"alpine": {Run: run, Gang: g}}, nil)
	need := g.Pod.Requests[corev1.ResourceCPU]
	for range g.Size {
		for _, n := range s.member.Room().Nodes {
			if n.Free[corev1.ResourceCPU] >= need {
				s.live[k] = append(s.live[k], s.member.schedule(run, n.Name, fmt.Sprintf("%dm", need)))
				break
			}
		}
	}
}

// told is what the status of one that waits says.
func (s *story) told(namespace, name string) string {
	e := s.queue.Pending(of(namespace, name))
	return s.queue.View("alpine", s.member.Room(), e.Key).Check(e.Gangs["alpine"], e.Rank).Blocked
}

// uses is how many CPUs the runs of a team have.
func (s *story) uses(namespace string) (cpus int64) {
	for k := range s.live {
		if r, ok := s.queue.Reservations(k)["alpine"]; ok && k.Namespace == namespace {
			cpus += int64(r.Gang.Size) * r.Gang.Pod.Requests[corev1.ResourceCPU] / 1000
		}
	}
	return cpus
}

// This is the example of docs/placement.md, step by step and with its numbers.
func TestTwoTeamsOnOneMember(t *testing.T) {
	const (
		limited = "quota exceeded: it asks for 24 CPU; its namespace uses 72 CPU of the 72 CPU that it may use there (spec.shares of MemberCluster alpine)"
		foreign = "room there is kept for a run of another namespace, which waits for it and comes first"
	)
	s := newStory(t)
	behind := func(name string, created int) string {
		return fmt.Sprintf("its room is kept for phys/%s, which waits for it and comes first (priority 0, created %s)", name, hour(created).Format("2006-01-02T15:04:05Z"))
	}
	steps := []struct {
		name       string
		do         func()
		begins     []string
		chem, phys int64             // CPUs in use after it
		told       map[string]string // to those of phys, or of chem
	}{
		{"1. chem asks for five runs of 2 pods of 12 CPU, with priority 1000", func() {
			for i := range 5 {
				s.submit("chem", fmt.Sprint("c", i+1), 2, "12")
			}
		}, []string{"c1", "c2", "c3"}, 72, 0, map[string]string{"c4": limited}},
		{"2. phys asks for 4 pods of 12 CPU", func() { s.submit("phys", "p1", 4, "12") }, nil, 72, 0, map[string]string{"p1": "2 of 4 pods fit; 8 CPU short on n1"}},
		{"3. and for one more of 12 CPU", func() { s.submit("phys", "p2", 1, "12") }, nil, 72, 0, map[string]string{"p2": behind("p1", 6)}},
		{"4. and for two runs of one pod of 4 CPU", func() {
			s.submit("phys", "p3", 1, "4")
			s.submit("phys", "p4", 1, "4")
		}, []string{"p3"}, 72, 4, map[string]string{"p4": behind("p1", 6)}},
		{"5. c1 ends", func() { s.end("chem", "c1") }, []string{"p1"}, 48, 52, map[string]string{"c4": "0 of 2 pods fit; 8 CPU short on n2", "p4": foreign}},
		{"6. c2 ends", func() { s.end("chem", "c2") }, []string{"c4"}, 48, 52, nil},
		{"7. c3 ends", func() { s.end("chem", "c3") }, []string{"c5"}, 48, 52, nil},
		{"8. chem asks for one more run, phys for two", func() {
			s.submit("chem", "c6", 2, "12")
			s.submit("phys", "p5", 1, "12")
			s.submit("phys", "p6", 1, "12")
		}, nil, 48, 52, nil},
		{"9. p1 ends", func() { s.end("phys", "p1") }, []string{"p2", "p4", "p5", "c6"}, 72, 32, map[string]string{
			"p6": "quota exceeded: it asks for 1 run; its namespace uses 4 runs of the 4 runs that it may use there (spec.shares of MemberCluster alpine)",
		}},
	}
	for _, step := range steps {
		step.do()
		if got := s.begin(); !slices.Equal(got, step.begins) {
			t.Errorf("%s: %v begin, want %v", step.name, got, step.begins)
		}
		if chem, phys := s.uses("chem"), s.uses("phys"); chem != step.chem || phys != step.phys {
			t.Errorf("%s: %d and %d CPU are in use, want %d and %d", step.name, chem, phys, step.chem, step.phys)
		}
		for name, want := range step.told {
			namespace := map[byte]string{'c': "chem", 'p': "phys"}[name[0]]
			if got := s.told(namespace, name); got != want {
				t.Errorf("%s: %s is told: %s", step.name, name, got)
			}
		}
	}
}
