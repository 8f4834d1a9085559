package plan

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestSnapshotIntervals(t *testing.T) {
	scaled := Intervals{Failed: 2 * time.Second, Deleting: 400 * time.Millisecond, Wait: 12 * time.Second, Move: 3 * time.Second}
	cases := map[string]struct{ given, want Intervals }{
		"none are the default ones": {Intervals{}, DefaultIntervals()},
		"scaled ones are kept":      {DefaultIntervals().Scale(0.2), scaled},
		"factor 1 changes nothing":  {DefaultIntervals().Scale(1), DefaultIntervals()},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, (&Snapshot{Intervals: c.given}).intervals()); diff != "" {
				t.Errorf("intervals (-want +got):\n%s", diff)
			}
		})
	}
}
