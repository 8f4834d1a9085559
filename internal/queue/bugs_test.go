package queue_test

import (
	"testing"

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
