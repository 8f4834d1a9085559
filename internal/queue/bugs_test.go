package queue_test

import (
	"testing"

	"github.com/minifleet/minifleet/internal/fit"
	"github.com/minifleet/minifleet/internal/queue"
)

// What was released while the queue was being loaded stays released: the list may have been made before that.
func TestRestoreKeepsWhatWasReleasedMeanwhile(t *testing.T) {
	q, e := queue.New(), entry("a", 0, 1, gang(1), anywhere)
	equal(t, nil, q.Restore(hour(1), func() ([]queue.Restored, error) {
		q.Release(key("a")) // it was deleted after it was listed
		return []queue.Restored{{Key: key("a"), Reservations: reservations{"alpine": {Run: runA, Gang: gang(1)}}, Entry: &e}}, nil
	}))
	equal(t, reservations{}, q.Reservations(key("a")))
	equal(t, nil, q.Pending(key("a")))
}

// One that is being deleted waits for nothing any more, and still has what it has reserved.
func TestRestoreKeepsWhatWasDequeuedMeanwhile(t *testing.T) {
	q, e := queue.New(), entry("a", 0, 1, gang(1), anywhere)
	equal(t, nil, q.Restore(hour(1), func() ([]queue.Restored, error) {
		q.Dequeue(key("a"))
		return []queue.Restored{{Key: key("a"), Reservations: reservations{"alpine": {Run: runA, Gang: gang(1)}}, Entry: &e}}, nil
	}))
	equal(t, 1, len(q.Reservations(key("a"))))
	equal(t, nil, q.Pending(key("a")))
}

// An entry that is in the queue already is newer than one that is restored.
func TestRestoreKeepsEntriesThatAreNewer(t *testing.T) {
	q, older := waiting(entry("a", 5, 1, gang(2))), entry("a", 0, 1, gang(1), anywhere)
	equal(t, nil, q.Restore(hour(1), func() ([]queue.Restored, error) {
		return []queue.Restored{{Key: key("a"), Entry: &older}}, nil
	}))
	newer := entry("a", 5, 1, gang(2))
	equal(t, &newer, q.Pending(key("a")))
}

// An update that changes only the pod of services beside a gang is an update.
func TestUpdateOfServices(t *testing.T) {
	cases := map[string]struct{ before, after fit.Gang }{
		"none before": {gang(4), beside(gang(4), "1")},
		"none after":  {beside(gang(4), "1"), gang(4)},
		"larger":      {beside(gang(4), "1"), beside(gang(4), "3")},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			q := queue.New()
			reserve(q, "a", reservations{"alpine": {Gang: c.before}})
			equal(t, []string{"alpine"}, reserve(q, "a", reservations{"alpine": {Gang: c.after}}))
			equal(t, reservations{"alpine": {Gang: c.after}}, q.Reservations(key("a")))
		})
	}
}

// A pod of services that needs more takes room from others, too.
func TestReserveSinceServicesGrew(t *testing.T) {
	q, room := queue.New(), newMember(node("a", "9", nil)).Room()
	reserve(q, "b", reservations{"alpine": {Gang: beside(gang(4), "1")}})
	v, theirs := q.View("alpine", room, key("self")), q.View("alpine", room, key("b"))
	equal(t, true, q.Reserve(key("b"), []queue.Request{request(theirs, beside(gang(4), "5"))}))
	equal(t, false, q.Reserve(key("self"), []queue.Request{request(v, gang(4))}))
}

// What others have reserved is never shown as free, though their pods differ: each fitted when it was reserved.
func TestViewOfReservedPodsThatDiffer(t *testing.T) {
	cases := map[string]struct{ first, second fit.Gang }{
		"in size":                {gang(1, cpu("8")), gang(8)},
		"in the nodes they take": {gang(8, on(ssd)), gang(8)},
		"services beside a gang": {beside(gang(8), "8"), gang(0)},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			q, room := queue.New(), newMember(node("a", "8", ssd), node("b", "8", nil)).Room()
			for name, g := range map[string]fit.Gang{"b": c.first, "c": c.second} {
				reserve(q, name, reservations{"alpine": {Gang: g}})
			}
			for node, n := range freeCores(q.View("alpine", room, key("self"))) {
				if n > 0 {
					t.Errorf("%d cores of %s are shown as free", n, node)
				}
			}
		})
	}
}
