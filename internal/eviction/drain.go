package eviction

import (
	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/internal/runs"
)

// Drained are the live runs whose members are drained, by member. They are stopped whether or not there is another
// member for them.
func Drained(ledger runs.Ledger, members []*v1alpha1.MemberCluster) map[string]Eviction {
	out := map[string]Eviction{}
	for _, m := range members {
		why, _ := m.Draining() // an annotation that is wrong is told on the MemberCluster
		if why == "" {
			continue
		}
		if last := ledger.Last(m.Name); last != nil && !last.State.Ended() {
			out[m.Name] = Eviction{Stop: v1alpha1.StopDrained, Message: "stopped: its member " + why}
		}
	}
	return out
}
