package queue_test

import (
	"maps"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/minifleet/minifleet/internal/fit"
	"github.com/minifleet/minifleet/internal/nodeusage"
	"github.com/minifleet/minifleet/internal/queue"
)

type reservations = map[string]queue.Reservation

func request(v *queue.View, g fit.Gang) queue.Request {
	return queue.Request{View: v, Reservation: queue.Reservation{Gang: g}}
}

func TestViewCountsWhatOthersHaveReserved(t *testing.T) {
	pods := func(n int, run string, change ...func(*corev1.Pod)) func(*member) {
		return func(m *member) {
			for range n {
				m.schedule(run, "a", "1", change...)
			}
		}
	}
	none := func(*member) {}
	cases := map[string]struct {
		others   map[string]reservations // by name
		schedule func(*member)
		free     map[string]int64 // of nodes of 8 cores
	}{
		"nothing is reserved":                  {nil, none, map[string]int64{"a": 8, "b": 8}},
		"its own":                              {map[string]reservations{"self": {"alpine": {Gang: gang(16)}}}, none, map[string]int64{"a": 8, "b": 8}},
		"another's":                            {map[string]reservations{"b": {"alpine": {Gang: gang(4)}}}, none, map[string]int64{"a": 6, "b": 6}},
		"another's, elsewhere":                 {map[string]reservations{"b": {"basalt": {Gang: gang(4)}}}, none, map[string]int64{"a": 8, "b": 8}},
		"two others'":                          {map[string]reservations{"b": {"alpine": {Gang: gang(4)}}, "c": {"alpine": {Gang: gang(6)}}}, none, map[string]int64{"a": 3, "b": 3}},
		"two others' pods that differ":         {map[string]reservations{"b": {"alpine": {Gang: gang(2, cpu("3"))}}, "c": {"alpine": {Gang: gang(4)}}}, none, map[string]int64{"a": 3, "b": 3}},
		"another's, partly scheduled":          {map[string]reservations{"b": {"alpine": {Run: runB, Gang: gang(4)}}}, pods(2, runB), map[string]int64{"a": 5, "b": 7}},
		"another's, all scheduled":             {map[string]reservations{"b": {"alpine": {Run: runB, Gang: gang(4)}}}, pods(4, runB), map[string]int64{"a": 4, "b": 8}},
		"another's, more scheduled than it is": {map[string]reservations{"b": {"alpine": {Run: runB, Gang: gang(1)}}}, pods(4, runB), map[string]int64{"a": 4, "b": 8}},
		"more scheduled leaves the others theirs": {map[string]reservations{
			"b": {"alpine": {Run: runB, Gang: gang(1)}}, "c": {"alpine": {Run: runC, Gang: gang(4)}},
		}, pods(4, runB), map[string]int64{"a": 2, "b": 6}},
		"another's, of which some have succeeded": {map[string]reservations{"b": {"alpine": {Run: runB, Gang: gang(4), Succeeded: 2}}}, none, map[string]int64{"a": 7, "b": 7}},
		"another's, some succeeded and the rest scheduled": {
			map[string]reservations{"b": {"alpine": {Run: runB, Gang: gang(4), Succeeded: 2}}}, pods(2, runB), map[string]int64{"a": 6, "b": 8},
		},
		"another's, with pods of another run":  {map[string]reservations{"b": {"alpine": {Run: runB, Gang: gang(4)}}}, pods(2, runC), map[string]int64{"a": 4, "b": 6}},
		"another's, not yet in the ledger":     {map[string]reservations{"b": {"alpine": {Gang: gang(4)}}}, pods(2, ""), map[string]int64{"a": 4, "b": 6}},
		"another's services":                   {map[string]reservations{"b": {"alpine": {Run: runB, Gang: beside(gang(8), "4")}}}, none, map[string]int64{"a": 0, "b": 4}},
		"another's services, scheduled":        {map[string]reservations{"b": {"alpine": {Run: runB, Gang: beside(gang(1), "3")}}}, pods(1, runB, services), map[string]int64{"a": 7, "b": 7}},
		"another's services, not its pods":     {map[string]reservations{"b": {"alpine": {Run: runB, Gang: beside(gang(1), "1")}}}, pods(1, runB), map[string]int64{"a": 7, "b": 7}},
		"another's that is over but for those": {map[string]reservations{"b": {"alpine": {Run: runB, Gang: beside(gang(4), "3"), Succeeded: 4}}}, none, map[string]int64{"a": 5, "b": 8}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			m, q := newMember(node("a", "8", nil), node("b", "8", nil)), queue.New()
			c.schedule(m)
			for who, r := range c.others {
				reserve(q, who, r)
			}
			v := q.View("alpine", m.Room(), key("self"))
			equal(t, c.free, freeCores(v))
			equal(t, "alpine", v.Member)
			equal(t, nodeusage.Known, v.State)
		})
	}
}

// The pods of its own runs may be counted as ended; what others have scheduled is told apart in any case.
func TestViewWithoutOwnPods(t *testing.T) {
	m, q := newMember(node("a", "8", nil)), queue.New()
	m.schedule(runA, "a", "3")
	m.schedule(runB, "a", "1")
	reserve(q, "self", reservations{"alpine": {Run: runA, Gang: gang(1, cpu("3"))}})
	reserve(q, "b", reservations{"alpine": {Run: runB, Gang: gang(2)}})
	beside, without := q.View("alpine", m.Room(), key("self")), q.View("alpine", m.Room(runA), key("self"))
	equal(t, map[string]int64{"a": 3}, freeCores(beside))
	equal(t, map[string]int64{"a": 6}, freeCores(without))
	equal(t, 1, beside.Scheduled(runA).Pods)
	equal(t, 1, without.Scheduled(runB).Pods)
	equal(t, 0, without.Scheduled(runC).Pods)
}

func TestViewOfRoomThatIsNotKnown(t *testing.T) {
	for _, state := range []nodeusage.State{nodeusage.Unknown, nodeusage.Pending} {
		q := waiting(entry("b", 0, 1, gang(1)))
		reserve(q, "c", reservations{"alpine": {Gang: gang(4)}})
		v := q.View("alpine", &nodeusage.Room{State: state}, key("self"))
		equal(t, state, v.State)
		equal(t, 0, len(v.Nodes()))
		equal(t, true, q.Reserve(key("self"), []queue.Request{request(v, gang(70))}))
	}
}

func TestViewIsAValue(t *testing.T) {
	m := newMember(node("a", "8", nil))
	q := waiting(entry("b", 3, 1, gang(1)), entry("c", 2, 1, gang(1)))
	reserve(q, "d", reservations{"alpine": {Gang: gang(2)}})
	room := m.Room()
	v := q.View("alpine", room, key("self"))
	first := func(v *queue.View) string {
		return v.First(v.Nodes(), gang(8), entry("self", 0, 9, gang(8)).Rank).Key.Name
	}

	// The queue and the member change, the view does not.
	q.Dequeue(key("b"))
	q.Release(key("d"))
	other := entry("other", 9, 1, gang(1))
	q.Update(other.Key, reservations{"alpine": {Gang: gang(7)}}, &other)
	m.schedule(runA, "a", "1")
	equal(t, map[string]int64{"a": 6}, freeCores(v))
	equal(t, "b", first(v))
	equal(t, 0, v.Scheduled(runA).Pods)
	equal(t, map[string]int64{"a": 0}, freeCores(q.View("alpine", m.Room(), key("self"))))

	// The view changes, neither the queue nor the room does.
	q = waiting(entry("b", 3, 1, gang(1)), entry("c", 2, 1, gang(1)))
	v = q.View("alpine", room, key("self"))
	fit.Reserve(v.Nodes(), gang(1).Pod, 8)
	equal(t, 8000, room.Nodes[0].Free[corev1.ResourceCPU])
	again := q.View("alpine", room, key("self"))
	equal(t, map[string]int64{"a": 8}, freeCores(again))
	equal(t, "b", first(again))
}

func TestLineListsAllInOrder(t *testing.T) {
	m := newMember(node("a", "8", nil))
	q := waiting(entry("d", 0, 4, gang(1)), entry("self", 1, 1, gang(1)), entry("b", 1, 2, gang(1)), entry("a", 9, 3, gang(1), anywhere), entry("c", 9, 1, gang(1), elsewhere))
	var got []string
	for _, e := range q.Line("alpine", m.Room(), 0).Standings {
		got = append(got, e.Key.Name)
	}
	equal(t, []string{"a", "self", "b", "d"}, got)
}

func TestReserveSinceTheView(t *testing.T) {
	four := queue.Reservation{Run: runB, Gang: gang(4), Succeeded: 1}
	becomes := func(change func(*queue.Reservation)) func(*queue.Queue) {
		return func(q *queue.Queue) {
			r := four
			change(&r)
			reserve(q, "b", reservations{"alpine": r})
		}
	}
	viewOf := func(q *queue.Queue, member string) *queue.View {
		return q.View(member, newMember(node("a", "9", nil)).Room(), key("c"))
	}
	cases := map[string]struct {
		since func(q *queue.Queue)
		want  bool
	}{
		"nothing":                          {func(*queue.Queue) {}, true},
		"another's is as it was":           {becomes(func(*queue.Reservation) {}), true},
		"another's got its run's id":       {becomes(func(r *queue.Reservation) { r.Run = runC }), true},
		"another's is smaller":             {becomes(func(r *queue.Reservation) { r.Gang = gang(3) }), true},
		"another's pods have succeeded":    {becomes(func(r *queue.Reservation) { r.Succeeded = 3 }), true},
		"another's is larger":              {becomes(func(r *queue.Reservation) { r.Gang = gang(5) }), false},
		"another's fewer have succeeded":   {becomes(func(r *queue.Reservation) { r.Succeeded = 0 }), false},
		"another's pods need other things": {becomes(func(r *queue.Reservation) { r.Gang = gang(4, on(ssd)) }), false},
		"another released":                 {func(q *queue.Queue) { q.Release(key("b")) }, true},
		"another released and reserved again": {func(q *queue.Queue) {
			q.Release(key("b"))
			reserve(q, "b", reservations{"alpine": four})
		}, false},
		"a third reserved, with an update": {func(q *queue.Queue) { reserve(q, "c", reservations{"alpine": {Gang: gang(1)}}) }, false},
		"a third reserved, with a view": {func(q *queue.Queue) {
			equal(t, true, q.Reserve(key("c"), []queue.Request{request(viewOf(q, "alpine"), gang(1))}))
		}, false},
		"a third got services beside its gang": {func(q *queue.Queue) {
			equal(t, true, q.Reserve(key("b"), []queue.Request{{View: viewOf(q, "alpine"), Reservation: queue.Reservation{Run: runB, Gang: beside(gang(4), "1"), Succeeded: 1}}}))
		}, false},
		"a third reserved and released": {func(q *queue.Queue) {
			reserve(q, "c", reservations{"alpine": {Gang: gang(1)}})
			q.Release(key("c"))
		}, false}, // to be refused once too often does no harm
		"a third reserved elsewhere": {func(q *queue.Queue) { reserve(q, "c", reservations{"basalt": {Gang: gang(1)}}) }, true},
		"a third was refused": {func(q *queue.Queue) {
			old := viewOf(q, "basalt")
			reserve(q, "b", reservations{"alpine": four, "basalt": four})
			equal(t, false, q.Reserve(key("c"), []queue.Request{request(viewOf(q, "alpine"), gang(1)), request(old, gang(1))}))
		}, true},
		"a third waits, and comes first": {func(q *queue.Queue) {
			e := entry("c", 9, 1, gang(1))
			q.Update(e.Key, nil, &e)
		}, true},
		"others were restored": {func(q *queue.Queue) {
			err := q.Restore(hour(1), func() ([]queue.Restored, error) {
				return []queue.Restored{{Key: key("c"), Reservations: reservations{"alpine": {Gang: gang(1)}}}}, nil
			})
			equal(t, nil, err)
		}, false},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			q := queue.New()
			reserve(q, "b", reservations{"alpine": four})
			v := q.View("alpine", newMember(node("a", "9", nil)).Room(), key("self"))
			c.since(q)
			equal(t, c.want, q.Reserve(key("self"), []queue.Request{request(v, gang(2))}))
			want := reservations{}
			if c.want {
				want["alpine"] = queue.Reservation{Gang: gang(2)}
			}
			equal(t, want, q.Reservations(key("self")))
		})
	}
}

func TestReserveIsAllOrNothing(t *testing.T) {
	q, room := queue.New(), newMember(node("a", "8", nil)).Room()
	view := func(member string) *queue.View { return q.View(member, room, key("self")) }
	alpine, basalt, cinder := view("alpine"), view("basalt"), view("cinder")
	reserve(q, "b", reservations{"basalt": {Gang: gang(8)}})
	for _, order := range [][]*queue.View{{alpine, basalt, cinder}, {basalt, cinder, alpine}, {cinder, alpine, basalt}} {
		var all []queue.Request
		for _, v := range order {
			all = append(all, request(v, gang(1)))
		}
		equal(t, false, q.Reserve(key("self"), all))
		equal(t, reservations{}, q.Reservations(key("self")))
	}
	equal(t, map[string]int{"basalt": 1}, q.Runs())

	// Those that others have taken nothing from are as good as before, and count for all at once.
	equal(t, true, q.Reserve(key("self"), []queue.Request{request(alpine, gang(1)), request(cinder, gang(2))}))
	equal(t, reservations{"alpine": {Gang: gang(1)}, "cinder": {Gang: gang(2)}}, q.Reservations(key("self")))
	equal(t, map[string]int{"alpine": 1, "basalt": 1, "cinder": 1}, q.Runs())
	equal(t, true, q.Reserve(key("self"), nil))
}

// Of two who have seen the same room one gets it.
func TestReserveTheSameRoom(t *testing.T) {
	q, room := queue.New(), newMember(node("a", "8", nil)).Room()
	a, b := q.View("alpine", room, key("a")), q.View("alpine", room, key("b"))
	equal(t, true, q.Reserve(key("a"), []queue.Request{request(a, gang(8))}))
	equal(t, false, q.Reserve(key("b"), []queue.Request{request(b, gang(8))}))
	b = q.View("alpine", room, key("b"))
	equal(t, false, b.Check(gang(1), entry("b", 0, 1, gang(1)).Rank).Fits)
	equal(t, []string{"alpine"}, q.Release(key("a")))
	equal(t, true, q.Reserve(key("b"), []queue.Request{request(b, gang(8))})) // since then, others have only released
}

func TestUpdateTellsWhereOthersAreAffected(t *testing.T) {
	both := func(e *queue.Entry) { e.Gangs["basalt"] = gang(1) }
	waits := func(priority int32, change ...func(*queue.Entry)) *queue.Entry {
		e := entry("self", priority, 1, gang(1), change...)
		return &e
	}
	sized := func(g fit.Gang) func(*queue.Entry) { return func(e *queue.Entry) { e.Gangs["alpine"] = g } }
	four := queue.Reservation{Run: runA, Gang: gang(4), Succeeded: 1}
	changed := func(change func(*queue.Reservation)) reservations {
		r := four
		change(&r)
		return reservations{"alpine": r}
	}
	type state struct {
		reserved reservations
		entry    *queue.Entry
	}
	cases := map[string]struct {
		before, after state
		want          []string
	}{
		"nothing, and nothing":            {state{}, state{}, nil},
		"it reserves":                     {state{}, state{reserved: reservations{"alpine": four}}, []string{"alpine"}},
		"it has reserved":                 {state{reserved: reservations{"alpine": four}}, state{reserved: reservations{"alpine": four}}, nil},
		"it reserves less":                {state{reserved: reservations{"alpine": four}}, state{reserved: changed(func(r *queue.Reservation) { r.Gang = gang(3) })}, []string{"alpine"}},
		"it reserves more":                {state{reserved: reservations{"alpine": four}}, state{reserved: changed(func(r *queue.Reservation) { r.Gang = gang(5) })}, []string{"alpine"}},
		"its pods succeed":                {state{reserved: reservations{"alpine": four}}, state{reserved: changed(func(r *queue.Reservation) { r.Succeeded = 2 })}, []string{"alpine"}},
		"its run is in the ledger":        {state{reserved: reservations{"alpine": four}}, state{reserved: changed(func(r *queue.Reservation) { r.Run = runB })}, []string{"alpine"}},
		"its pods need other things":      {state{reserved: reservations{"alpine": four}}, state{reserved: changed(func(r *queue.Reservation) { r.Gang = gang(4, on(ssd)) })}, []string{"alpine"}},
		"it releases":                     {state{reserved: reservations{"alpine": four, "basalt": four}}, state{reserved: reservations{"basalt": four}}, []string{"alpine"}},
		"it releases all":                 {state{reserved: reservations{"basalt": four, "alpine": four}}, state{}, []string{"alpine", "basalt"}},
		"it moves":                        {state{reserved: reservations{"basalt": four}}, state{reserved: reservations{"alpine": four}}, []string{"alpine", "basalt"}},
		"it begins to wait":               {state{}, state{entry: waits(0)}, nil},
		"it goes on waiting":              {state{entry: waits(0)}, state{entry: waits(0)}, nil},
		"it waits behind another":         {state{entry: waits(0)}, state{entry: waits(0, behind("b"), func(e *queue.Entry) { e.Reconciled = hour(13) })}, nil},
		"it has another priority":         {state{entry: waits(0)}, state{entry: waits(4)}, []string{"alpine"}},
		"it waits for less":               {state{entry: waits(0, sized(gang(2)))}, state{entry: waits(0)}, []string{"alpine"}},
		"it waits for something else":     {state{entry: waits(0)}, state{entry: waits(0, sized(gang(1, on(ssd))))}, []string{"alpine"}},
		"it waits on more members":        {state{entry: waits(0)}, state{entry: waits(0, both)}, []string{"alpine"}},
		"it waits on fewer members":       {state{entry: waits(0, both)}, state{entry: waits(0)}, []string{"alpine", "basalt"}},
		"it waits elsewhere":              {state{entry: waits(0)}, state{entry: waits(0, elsewhere)}, []string{"alpine"}},
		"it ceases to wait":               {state{entry: waits(0, both)}, state{}, []string{"alpine", "basalt"}},
		"it is known where it waits":      {state{entry: waits(0, anywhere)}, state{entry: waits(0)}, []string{"alpine", "cinder"}},
		"it still waits anywhere":         {state{entry: waits(0, anywhere)}, state{entry: waits(0, anywhere)}, nil},
		"it ceases to wait anywhere":      {state{entry: waits(0, anywhere)}, state{}, []string{"alpine", "cinder"}},
		"it begins where it waited":       {state{entry: waits(0)}, state{reserved: reservations{"alpine": four}}, []string{"alpine"}},
		"it begins on one of the members": {state{entry: waits(0, both)}, state{reserved: reservations{"alpine": four}}, []string{"alpine", "basalt"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			q := queue.New()
			q.Known("alpine", 1)
			q.Known("cinder", 1)
			reserve(q, "other", reservations{"alpine": four, "basalt": four})
			q.Update(key("self"), c.before.reserved, c.before.entry)
			equal(t, c.want, q.Update(key("self"), c.after.reserved, c.after.entry))
			want := maps.Clone(c.after.reserved)
			if want == nil {
				want = reservations{}
			}
			equal(t, want, q.Reservations(key("self")))
			equal(t, c.after.entry, q.Pending(key("self")))
			equal(t, reservations{"alpine": four, "basalt": four}, q.Reservations(key("other")))
			equal(t, nil, q.Update(key("self"), c.after.reserved, c.after.entry)) // which changes nothing
		})
	}
}

func TestReleaseAndDequeue(t *testing.T) {
	q := queue.New()
	e := entry("a", 0, 1, gang(1), elsewhere)
	q.Update(key("a"), reservations{"alpine": {Run: runA, Gang: gang(1)}, "basalt": {Run: runB, Gang: gang(1)}}, &e)
	reserve(q, "b", reservations{"alpine": {Run: runC, Gang: gang(1)}})
	equal(t, map[string]int{"alpine": 2, "basalt": 1}, q.Runs())

	equal(t, []string{"basalt"}, q.Dequeue(key("a")))
	equal(t, nil, q.Pending(key("a")))
	equal(t, nil, q.Dequeue(key("a")))
	equal(t, 2, len(q.Reservations(key("a"))))

	q.Update(key("a"), q.Reservations(key("a")), &e)
	equal(t, []string{"alpine", "basalt"}, q.Release(key("a")))
	equal(t, nil, q.Release(key("a")))
	equal(t, nil, q.Pending(key("a")))
	equal(t, reservations{}, q.Reservations(key("a")))
	equal(t, map[string]int{"alpine": 1}, q.Runs())
	equal(t, 1, len(q.Reservations(key("b"))))

	// What is returned is the caller's.
	clear(q.Reservations(key("b")))
	clear(q.Runs())
	equal(t, map[string]int{"alpine": 1}, q.Runs())
	if all := slices.Collect(maps.Keys(q.Reservations(key("b")))); !slices.Equal(all, []string{"alpine"}) {
		t.Errorf("reserved on %v", all)
	}
}
