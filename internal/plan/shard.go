package plan

import (
	"fmt"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/internal/rollup"
)

// isElsewhere says whether a member is of another shard.
func (m *Member) isElsewhere() bool { return m.Connection.Reason == v1alpha1.ReasonOtherShard }

// own is how many members are of the object's shard.
func (s *Snapshot) own() int {
	n := 0
	for i := range s.Members {
		if !s.Members[i].isElsewhere() {
			n++
		}
	}
	return n
}

// noPlacement says that there is no Placement, or that it is of another shard.
func noPlacement(s *Snapshot) *rollup.Problem {
	name := PlacementName(s.Object)
	if s.PlacementShard != nil {
		return &rollup.Problem{Reason: v1alpha1.ReasonOtherShard, Message: fmt.Sprintf(
			"spec.placementRef: Placement %s/%s is of %s, and this FleetMiniCluster of %s: give them the same label (kubectl label --overwrite -n %s placement %s %s)",
			s.Object.Namespace, name, v1alpha1.ShardName(*s.PlacementShard), v1alpha1.ShardName(s.Shard), s.Object.Namespace, name, v1alpha1.ShardArgument(s.Shard))}
	}
	return &rollup.Problem{Reason: v1alpha1.ReasonPlacementNotFound, Message: fmt.Sprintf(
		"spec.placementRef: there is no Placement %s/%s: create it, or name another one", s.Object.Namespace, name)}
}
