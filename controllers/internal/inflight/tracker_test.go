package inflight_test

import (
	"testing"

	"github.com/minifleet/minifleet/controllers/internal/inflight"
)

func TestTracker(t *testing.T) {
	tracker := &inflight.Tracker{}
	if !tracker.DoneBefore(tracker.Mark()) {
		t.Error("nothing has begun, but something is in flight")
	}
	first := tracker.Start()
	second := tracker.Start()
	mark := tracker.Mark()
	third := tracker.Start()
	second()
	if tracker.DoneBefore(mark) {
		t.Error("the first has not ended")
	}
	first()
	if !tracker.DoneBefore(mark) {
		t.Error("what begins after a mark is not waited for")
	}
	if tracker.DoneBefore(tracker.Mark()) {
		t.Error("the third has not ended")
	}
	third()
	third()
	if !tracker.DoneBefore(tracker.Mark()) {
		t.Error("all have ended")
	}
}
