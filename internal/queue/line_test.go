package queue_test

import (
	"slices"
	"testing"
	"time"

	"github.com/minifleet/minifleet/internal/fit"
	"github.com/minifleet/minifleet/internal/nodeusage"
	"github.com/minifleet/minifleet/internal/queue"
)

func TestRankCompare(t *testing.T) {
	self := queue.Rank{Priority: 1, Created: hour(5), Key: key("m")}
	cases := map[string]struct {
		other queue.Rank
		want  int // of self compared to other
	}{
		"itself":                          {self, 0},
		"a higher priority, younger":      {queue.Rank{Priority: 2, Created: hour(9), Key: key("z")}, 1},
		"a lower priority, older":         {queue.Rank{Priority: 0, Created: hour(1), Key: key("a")}, -1},
		"a negative priority":             {queue.Rank{Priority: -1, Created: hour(1), Key: key("a")}, -1},
		"the same priority, older":        {queue.Rank{Priority: 1, Created: hour(4), Key: key("z")}, 1},
		"the same priority, younger":      {queue.Rank{Priority: 1, Created: hour(6), Key: key("a")}, -1},
		"the same age, by name":           {queue.Rank{Priority: 1, Created: hour(5), Key: key("a")}, 1},
		"the same name, by namespace":     {queue.Rank{Priority: 1, Created: hour(5), Key: queue.Key{Namespace: "a", Name: "m"}}, 1},
		"the same moment, in another way": {queue.Rank{Priority: 1, Created: hour(5).In(time.FixedZone("", 3600)), Key: key("m")}, 0},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			equal(t, c.want, self.Compare(c.other))
			equal(t, -c.want, c.other.Compare(self))
		})
	}
}

// fullMember has two nodes of 8 cores, one of them with an SSD, and nothing free.
func fullMember() *member {
	m := newMember(node("any", "8", nil), node("ssd", "8", ssd))
	m.schedule("", "any", "8")
	m.schedule("", "ssd", "8")
	return m
}

func TestFirst(t *testing.T) {
	self := entry("self", 1, 5, gang(1)).Rank
	small := gang(1)
	cases := map[string]struct {
		line []queue.Entry
		gang fit.Gang
		want string
	}{
		"nobody":                                          {nil, small, ""},
		"a higher priority, younger":                      {[]queue.Entry{entry("other", 2, 9, small)}, small, "other"},
		"a lower priority, older":                         {[]queue.Entry{entry("other", 0, 1, small)}, small, ""},
		"the same priority, older":                        {[]queue.Entry{entry("other", 1, 4, small)}, small, "other"},
		"the same priority, younger":                      {[]queue.Entry{entry("other", 1, 6, small)}, small, ""},
		"the same age, by name":                           {[]queue.Entry{entry("a", 1, 5, small), entry("z", 1, 5, small)}, small, "a"},
		"the first of several":                            {[]queue.Entry{entry("second", 1, 4, small), entry("first", 7, 9, small), entry("third", 1, 3, small)}, small, "first"},
		"itself":                                          {[]queue.Entry{entry("self", 1, 5, small)}, small, ""},
		"itself, with a priority that it no longer has":   {[]queue.Entry{entry("self", 9, 5, small)}, small, ""},
		"one that never fits":                             {[]queue.Entry{entry("other", 9, 1, gang(1, cpu("9")))}, small, ""},
		"one that never fits, on nodes that it could use": {[]queue.Entry{entry("other", 9, 1, gang(17))}, small, ""},
		"one that fits when empty":                        {[]queue.Entry{entry("other", 9, 1, gang(2, cpu("8")))}, small, "other"},
		"the next after one that never fits":              {[]queue.Entry{entry("never", 9, 1, gang(1, cpu("9"))), entry("other", 8, 1, small)}, small, "other"},
		"on other nodes":                                  {[]queue.Entry{entry("other", 9, 1, gang(1, cpu("8"), on(ssd)))}, gang(1, on(hdd)), ""},
		"on some of the nodes":                            {[]queue.Entry{entry("other", 9, 1, gang(1, cpu("8"), on(ssd)))}, small, "other"},
		"elsewhere":                                       {[]queue.Entry{entry("other", 9, 1, small, elsewhere)}, small, ""},
		"anywhere":                                        {[]queue.Entry{entry("other", 9, 1, small, anywhere)}, small, "other"},
		"with a pod of services":                          {[]queue.Entry{entry("other", 9, 1, beside(gang(1, on(ssd)), "1"))}, gang(1, cpu("8"), on(nil)), "other"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			v := waiting(c.line...).View("alpine", fullMember().Room(), self.Key)
			got := ""
			if first := v.First(v.Nodes(), c.gang, self); first != nil {
				got = first.Key.Name
			}
			equal(t, c.want, got)
		})
	}
}

func TestCheck(t *testing.T) {
	self := entry("self", 1, 5, gang(1)).Rank
	turn := "its room is kept for hpc/other, which waits for it and comes first (priority 9, created 2026-01-01T01:00:00Z)"
	partly := newMember(node("any", "8", nil))
	partly.schedule("", "any", "6")
	cases := map[string]struct {
		room    *nodeusage.Room
		line    []queue.Entry
		gang    fit.Gang
		fits    bool
		pods    int
		blocked string
		behind  queue.Key
	}{
		"it fits":             {room: partly.Room(), gang: gang(2), fits: true, pods: 2},
		"it does not fit now": {room: partly.Room(), gang: gang(3), pods: 2, blocked: "2 of 3 pods fit; 1 CPU short on any"},
		"it never fits": {room: partly.Room(), gang: gang(9), pods: 2,
			blocked: "2 of 9 pods fit; 1 CPU short on any; they would not fit either if every run there had ended"},
		"it fits, and another comes first": {room: partly.Room(), line: []queue.Entry{entry("other", 9, 1, gang(8))},
			gang: gang(2), fits: true, pods: 2, blocked: turn, behind: key("other")},
		"it fits, and another comes after": {room: partly.Room(), line: []queue.Entry{entry("other", 0, 1, gang(8))},
			gang: gang(2), fits: true, pods: 2},
		"it does not fit, and another comes first": {room: partly.Room(), line: []queue.Entry{entry("other", 9, 1, gang(8))},
			gang: gang(3), pods: 2, blocked: "2 of 3 pods fit; 1 CPU short on any"},
		"nothing is known, and another comes first": {room: &nodeusage.Room{State: nodeusage.Unknown}, line: []queue.Entry{entry("other", 9, 1, gang(8))},
			gang: gang(70), fits: true, pods: 70},
		"nothing is known yet": {room: &nodeusage.Room{State: nodeusage.Pending}, gang: gang(70), fits: true, pods: 70},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got := waiting(c.line...).View("alpine", c.room, self.Key).Check(c.gang, self)
			equal(t, c.fits, got.Fits)
			equal(t, c.pods, got.Pods)
			equal(t, c.blocked, got.Blocked)
			equal(t, c.behind, got.Behind)
		})
	}
}

// The time in it is that of the hub's users, not that of the zone in which it was read.
func TestTurnIsInUTC(t *testing.T) {
	e := entry("other", 9, 1, gang(1))
	e.Created = e.Created.In(time.FixedZone("", 3600))
	equal(t, "its room is kept for hpc/other, which waits for it and comes first (priority 9, created 2026-01-01T01:00:00Z)", e.Turn(key("self")))
}

func TestAffected(t *testing.T) {
	now := hour(12)
	reconciled := func(ago time.Duration) func(*queue.Entry) {
		return func(e *queue.Entry) { e.Reconciled = now.Add(-ago) }
	}
	// partly has 2 of 8 cores free on either of its nodes.
	partly := newMember(node("any", "8", nil), node("ssd", "8", ssd))
	partly.schedule("", "any", "6")
	partly.schedule("", "ssd", "6")
	unknown := &nodeusage.Room{State: nodeusage.Unknown}
	cases := map[string]struct {
		room *nodeusage.Room
		line []queue.Entry
		want []string
	}{
		"nobody waits":                            {partly.Room(), nil, nil},
		"one who fits":                            {partly.Room(), []queue.Entry{entry("a", 0, 1, gang(4))}, []string{"a"}},
		"one who waits elsewhere":                 {partly.Room(), []queue.Entry{entry("a", 0, 1, gang(4), elsewhere)}, nil},
		"one who may go anywhere":                 {partly.Room(), []queue.Entry{entry("a", 0, 1, gang(4), anywhere)}, []string{"a"}},
		"one who does not fit":                    {partly.Room(), []queue.Entry{entry("a", 0, 1, gang(5))}, nil},
		"one who does not fit, 5 s ago":           {partly.Room(), []queue.Entry{entry("a", 0, 1, gang(5), reconciled(5*time.Second))}, nil},
		"one who does not fit, more than 5 s ago": {partly.Room(), []queue.Entry{entry("a", 0, 1, gang(5), reconciled(5*time.Second+1))}, []string{"a"}},
		"the second does not fit, an hour ago": {partly.Room(), []queue.Entry{
			entry("a", 0, 1, gang(5)), entry("b", 0, 2, gang(5), reconciled(time.Hour)),
		}, nil},
		"both fit, in their order": {partly.Room(), []queue.Entry{entry("a", 0, 1, gang(2)), entry("b", 1, 2, gang(2))}, []string{"b", "a"}},
		"only the first fits":      {partly.Room(), []queue.Entry{entry("a", 0, 1, gang(3)), entry("b", 0, 2, gang(2))}, []string{"a"}},
		"only the first fits, and the second's status names it": {partly.Room(), []queue.Entry{
			entry("a", 0, 1, gang(3)), entry("b", 0, 2, gang(2), behind("a")),
		}, []string{"a", "b"}},
		"the second would fit, and its status does not name the first": {partly.Room(), []queue.Entry{
			entry("a", 0, 1, gang(5)), entry("b", 0, 2, gang(1)),
		}, []string{"b"}},
		"the second would fit, and its status names the first": {partly.Room(), []queue.Entry{
			entry("a", 0, 1, gang(5)), entry("b", 0, 2, gang(1), behind("a")),
		}, nil},
		"the second would fit, and its status names another": {partly.Room(), []queue.Entry{
			entry("a", 0, 1, gang(5)), entry("b", 0, 2, gang(1), behind("c")),
		}, []string{"b"}},
		"the third is behind the first, not behind the second": {partly.Room(), []queue.Entry{
			entry("a", 0, 1, gang(5)), entry("b", 0, 2, gang(5)), entry("c", 0, 3, gang(1), behind("a")),
		}, nil},
		"the first never fits": {partly.Room(), []queue.Entry{
			entry("a", 0, 1, gang(99)), entry("b", 0, 2, gang(1)),
		}, []string{"b"}},
		"the first wants other nodes": {partly.Room(), []queue.Entry{
			entry("a", 0, 1, gang(3, on(ssd))), entry("b", 0, 2, gang(1, on(hdd))), entry("c", 0, 3, gang(1), behind("a")),
		}, nil},
		"the first wants other nodes, and the second fits": {
			newMember(node("hdd", "8", hdd), node("ssd", "2", ssd)).Room(),
			[]queue.Entry{entry("a", 0, 1, gang(3, on(ssd))), entry("b", 0, 2, gang(1, on(hdd)))},
			[]string{"b"},
		},
		"one who is behind another was the first meanwhile": {partly.Room(), []queue.Entry{entry("a", 0, 1, gang(1), behind("b"))}, []string{"a"}},
		"nothing is known": {unknown, []queue.Entry{
			entry("a", 0, 1, gang(5)), entry("b", 0, 2, gang(99)), entry("c", 0, 3, gang(1), elsewhere),
		}, []string{"a", "b"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			q := waiting(c.line...)
			equal(t, c.want, names(q.Affected("alpine", c.room, now)))
			equal(t, c.want, names(q.Affected("alpine", c.room, now))) // to ask changes nothing
		})
	}
}

// Room that is reserved is as little for those who wait as room that is used, and counts once it is released.
func TestAffectedByReservations(t *testing.T) {
	m := newMember(node("any", "4", nil))
	q := waiting(entry("a", 0, 1, gang(3)))
	reserve(q, "b", map[string]queue.Reservation{"alpine": {Run: runB, Gang: gang(2)}})
	equal(t, nil, q.Affected("alpine", m.Room(), hour(12)))
	pod := m.schedule(runB, "any", "1")
	m.schedule(runB, "any", "1")
	equal(t, nil, q.Affected("alpine", m.Room(), hour(12)))
	m.RemovePod(pod)
	reserve(q, "b", map[string]queue.Reservation{"alpine": {Run: runB, Gang: gang(2), Succeeded: 1}})
	equal(t, []queue.Key{key("a")}, q.Affected("alpine", m.Room(), hour(12)))
	equal(t, []string{"alpine"}, q.Release(key("b")))
	equal(t, []queue.Key{key("a")}, q.Affected("alpine", newMember(node("any", "4", nil)).Room(), hour(12)))
}

func TestFirstOfTheLineAndPending(t *testing.T) {
	q := waiting(entry("b", 0, 2, gang(1)), entry("a", 0, 1, gang(1)), entry("c", 7, 3, gang(1), elsewhere))
	head := func(member, want string) {
		t.Helper()
		got := ""
		if line := q.Line(member, fullMember().Room(), 0).Standings; len(line) > 0 {
			got = line[0].Key.Name
		}
		equal(t, want, got)
		equal(t, want != "", q.Waits(member))
	}
	head("alpine", "a")
	head("basalt", "c")
	head("cinder", "")
	d := entry("d", 9, 4, gang(1), anywhere)
	q.Update(d.Key, nil, &d)
	head("alpine", "d")
	head("cinder", "d")
	equal(t, &d, q.Pending(d.Key))
	equal(t, nil, q.Pending(key("e")))
	q.Dequeue(d.Key)
	head("alpine", "a")
	head("cinder", "")
	equal(t, nil, q.Pending(d.Key))
}

func TestKnownIsNewsOncePerConnection(t *testing.T) {
	type connection struct{ member string }
	q := queue.New()
	first, second := &connection{"alpine"}, &connection{"alpine"}
	known := func(member string, c *connection, want ...queue.Key) {
		t.Helper()
		if got := q.Known(member, c); !slices.Equal(got, want) {
			t.Errorf("told %v, want %v", got, want)
		}
	}
	q.NotifyWhenKnown("alpine", key("b"))
	q.NotifyWhenKnown("alpine", key("a"))
	q.NotifyWhenKnown("alpine", key("b"))
	q.NotifyWhenKnown("basalt", key("c"))
	known("alpine", first, key("a"), key("b"))
	q.NotifyWhenKnown("alpine", key("d"))
	known("alpine", first)            // which is no news
	known("alpine", second, key("d")) // it was connected anew
	known("alpine", second)
	known("basalt", &connection{"basalt"}, key("c"))
	known("cinder", &connection{"cinder"})
}
