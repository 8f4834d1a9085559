package commits_test

import (
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/minifleet/minifleet/controllers/internal/commits"
)

func TestTracker(t *testing.T) {
	a, b := types.NamespacedName{Namespace: "hpc", Name: "a"}, types.NamespacedName{Namespace: "hpc", Name: "b"}
	closed := func(c <-chan struct{}) bool {
		select {
		case <-c:
			return true
		default:
			return false
		}
	}
	tracker := &commits.Tracker{}
	tracker.Reconciled(a, "1") // which nobody waits for
	first := tracker.Expect(a, "1")
	tracker.Reconciled(a, "0")
	tracker.Reconciled(b, "1")
	if closed(first) {
		t.Error("an object of another commit, or source, was reconciled")
	}
	tracker.Reconciled(a, "1")
	tracker.Reconciled(a, "1") // the second of its objects
	if !closed(first) {
		t.Error("an object was reconciled, and nobody is told")
	}
	again := tracker.Expect(a, "1")
	tracker.Forget(a, "1")
	tracker.Reconciled(a, "1")
	if closed(again) {
		t.Error("what is forgotten is told of")
	}
	var none *commits.Tracker
	none.Reconciled(a, "1")
	none.Forget(a, "1")
	if none.Expect(a, "1") != nil {
		t.Error("no tracker tracks")
	}
}
