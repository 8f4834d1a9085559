package view_test

import (
	"strings"
	"testing"
	"time"

	"github.com/minifleet/minifleet/clusters"
	"github.com/minifleet/minifleet/clusters/copies"
	"github.com/minifleet/minifleet/internal/queue"
	"github.com/minifleet/minifleet/internal/sanitize"
	"github.com/minifleet/minifleet/internal/view"
)

// What the hub says of others is not shown to who may not see them, however it was cut.
func TestHideOthers(t *testing.T) {
	first := queue.Entry{Rank: queue.Rank{Priority: 5, Created: time.Unix(0, 0), Key: queue.Key{Namespace: "canary-ns", Name: "canary-name"}}}
	cases := map[string]struct{ text, hidden string }{
		"the turn": {"0 of 1 members chosen; " + first.Turn(first.Key) + "; cinder is away", "0 of 1 members chosen; its room is kept for another MiniCluster, which comes first; cinder is away"},
		"a Job": {
			(&clusters.Conflict{Kind: "Job", Namespace: "hpc", Name: "n", Owner: "canary-ns/canary-name"}).Error(),
			"Job hpc/n already exists on the member and belongs to another FleetMiniCluster: rename one of the two",
		},
		"a Job of another fleet": {
			(&clusters.Conflict{Kind: "Job", Namespace: "hpc", Name: "n", OtherFleet: true}).Error(),
			"Job hpc/n already exists on the member and belongs to a FleetMiniCluster of another fleet: rename the MiniCluster, or place it elsewhere",
		},
		"a copy": {
			(&copies.Conflict{Kind: "Secret", Namespace: "hpc", Name: "s", Source: "canary-ns/canary-name"}).Error(),
			"Secret hpc/s on the member is the copy of another object of the hub: give one of the two another name, or register a member for each namespace of the hub (spec.namespace)",
		},
		"part of a run": {
			(&copies.Conflict{Kind: "Secret", Namespace: "hpc", Name: "s", Owner: "canary-ns/canary-name"}).Error(),
			"Secret hpc/s on the member belongs to another FleetMiniCluster: give the hub's object another name",
		},
		"nobody": {"hpc/lammps waits for 2 CPU", "hpc/lammps waits for 2 CPU"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if got := view.HideOthers(c.text, only("hpc")); got != c.hidden {
				t.Errorf("got %s", got)
			}
			for _, all := range []view.Sees{nil, only("hpc", "canary-ns")} {
				if got := view.HideOthers(c.text, all); got != c.text {
					t.Errorf("who may see it gets %s", got)
				}
			}
			for most := range len(c.text) {
				got := view.HideOthers(sanitize.Text(c.text, most), only("hpc"))
				if strings.Contains(got, "canary") || strings.Contains(got, "priority") {
					t.Errorf("cut to %d bytes: %s", most, got)
				}
			}
		})
	}
}
