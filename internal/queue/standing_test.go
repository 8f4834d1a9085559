package queue_test

import (
	"testing"

	"github.com/minifleet/minifleet/internal/nodeusage"
	"github.com/minifleet/minifleet/internal/queue"
)

// standing is what is compared of one.
type standing struct {
	Name, Blocked, Behind string
	Pods                  int
}

func standings(l queue.Line) []standing {
	out := []standing{}
	for _, s := range l.Standings {
		o := standing{Name: s.Key.Name}
		if s.Fit != nil {
			o.Blocked, o.Behind, o.Pods = s.Fit.Blocked, s.Fit.Behind.Name, s.Fit.Pods
		}
		out = append(out, o)
	}
	return out
}

func TestLineOfAMember(t *testing.T) {
	turn := "its room is kept for hpc/a, which waits for it and comes first (priority 5, created 2026-01-01T01:00:00Z)"
	two := newMember(node("n1", "4", ssd), node("n2", "4", hdd)).Room()
	cases := map[string]struct {
		room    *nodeusage.Room
		entries []queue.Entry
		want    []standing
	}{
		"nobody": {two, nil, []standing{}},
		"in order of rank, and room is taken by those before": {two, []queue.Entry{entry("b", 0, 2, gang(5)), entry("a", 5, 9, gang(6))}, []standing{
			{Name: "a", Pods: 6}, {Name: "b", Pods: 2, Blocked: "2 of 5 pods fit; 1 CPU short on n1"},
		}},
		"one that fits waits for its turn": {two, []queue.Entry{entry("a", 5, 1, gang(8)), entry("b", 0, 2, gang(1))}, []standing{
			{Name: "a", Pods: 8}, {Name: "b", Pods: 0, Blocked: "0 of 1 pods fit; 1 CPU short on n1"},
		}},
		"behind one that does not fit now": {busy(), []queue.Entry{entry("a", 5, 1, gang(8)), entry("b", 0, 2, gang(1))}, []standing{
			{Name: "a", Pods: 6, Blocked: "6 of 8 pods fit; 1 CPU short on n1"}, {Name: "b", Pods: 1, Blocked: turn, Behind: "a"},
		}},
		"behind one, and neither fits": {busy(), []queue.Entry{entry("a", 5, 1, gang(8)), entry("b", 0, 2, gang(7))}, []standing{
			{Name: "a", Pods: 6, Blocked: "6 of 8 pods fit; 1 CPU short on n1"}, {Name: "b", Pods: 6, Blocked: "6 of 7 pods fit; 1 CPU short on n1", Behind: "a"},
		}},
		"who never fits holds nobody up": {two, []queue.Entry{entry("a", 5, 1, gang(99)), entry("b", 0, 2, gang(1))}, []standing{
			{Name: "a", Pods: 8, Blocked: "8 of 99 pods fit; 1 CPU short on n1; they would not fit either if every run there had ended"}, {Name: "b", Pods: 1},
		}},
		"other nodes": {busy(), []queue.Entry{entry("a", 5, 1, gang(4, on(ssd))), entry("b", 0, 2, gang(1, on(hdd)))}, []standing{
			{Name: "a", Pods: 2, Blocked: "2 of 4 pods fit; 1 CPU short on n1 (1 of 2 nodes may not run them: 1 without the labels asked for)"}, {Name: "b", Pods: 1},
		}},
		"elsewhere": {two, []queue.Entry{entry("a", 5, 1, gang(1), elsewhere)}, []standing{}},
		"not known what is free": {&nodeusage.Room{State: nodeusage.Pending}, []queue.Entry{entry("a", 5, 1, gang(4)), entry("b", 0, 2, gang(1))}, []standing{
			{Name: "a", Pods: 4}, {Name: "b", Pods: 1},
		}},
		"computed for the first three": {two, []queue.Entry{entry("a", 5, 1, gang(1)), entry("b", 4, 1, gang(1)), entry("c", 3, 1, gang(1)), entry("d", 2, 1, gang(1))}, []standing{
			{Name: "a", Pods: 1}, {Name: "b", Pods: 1}, {Name: "c", Pods: 1}, {Name: "d"},
		}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			equal(t, c.want, standings(waiting(c.entries...).Line("alpine", c.room, 3)))
		})
	}
}

// busy has two nodes of four cores, of which a run has taken two on the first.
func busy() *nodeusage.Room {
	m := newMember(node("n1", "4", ssd), node("n2", "4", hdd))
	m.schedule(runA, "n1", "2")
	return m.Room()
}

// What others have reserved and not taken yet counts, and that of the one who waits, too: it may wait for more.
func TestLineCountsReservations(t *testing.T) {
	q := waiting(entry("b", 0, 1, gang(4)))
	reserve(q, "c", reservations{"alpine": {Run: runB, Gang: gang(6)}})
	equal(t, []standing{{Name: "b", Pods: 2, Blocked: "2 of 4 pods fit; 1 CPU short on n1"}},
		standings(q.Line("alpine", newMember(node("n1", "4", nil), node("n2", "4", nil)).Room(), 3)))
}

// What was computed for a reader takes nothing from anybody.
func TestLineReservesNothing(t *testing.T) {
	q, room := waiting(entry("a", 0, 1, gang(8))), newMember(node("n1", "8", nil)).Room()
	first := standings(q.Line("alpine", room, 3))
	equal(t, first, standings(q.Line("alpine", room, 3)))
	equal(t, map[string]int64{"n1": 8}, freeCores(q.View("alpine", room, key("z"))))
}

func TestMembersOfLines(t *testing.T) {
	equal(t, nil, waiting().Members([]string{"alpine"}))
	equal(t, []string{"alpine", "basalt"}, waiting(entry("a", 0, 1, gang(1)), entry("b", 0, 1, gang(1), elsewhere)).Members(nil))
	equal(t, []string{"alpine", "cinder"}, waiting(entry("a", 0, 1, gang(1), anywhere)).Members([]string{"cinder", "alpine"}))
}

func TestForgottenMemberHasNoLine(t *testing.T) {
	q := waiting(entry("a", 5, 1, gang(1), anywhere))
	q.Known("alpine", 1)
	q.NotifyWhenKnown("basalt", key("a"))
	if got := q.Places(); got[key("a")] != 1 {
		t.Fatalf("places %v", got)
	}
	before := q.View("alpine", newMember(node("n1", "4", ssd)).Room(), key("b"))
	q.Forget("alpine")
	q.Forget("basalt")
	if got := q.Places(); len(got) != 0 {
		t.Errorf("places %v, with no member", got)
	}
	if got := q.Known("basalt", 1); len(got) != 0 {
		t.Errorf("%v have asked about a member that was deleted since", got)
	}
	// Another one of the same name is not the one that was looked at.
	if q.Reserve(key("b"), []queue.Request{{View: before, Reservation: queue.Reservation{Gang: gang(1)}}}) {
		t.Error("reserved with a view of the member that was deleted")
	}
}
