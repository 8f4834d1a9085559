package plan

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/internal/fit"
	"github.com/minifleet/minifleet/internal/override"
	"github.com/minifleet/minifleet/internal/queue"
	"github.com/minifleet/minifleet/internal/runs"
)

// waitReasons are those of the condition Ready of whom that waits for room.
var waitReasons = []string{v1alpha1.ReasonInsufficientCapacity, v1alpha1.ReasonConnecting}

// Restore is what a FleetMiniCluster has reserved as far as its status tells, and whether it waits: for the queue after
// a restart of the hub. Reconciliations that follow, in which the Jobs are seen, correct what edits have changed since.
// The placement is nil where it is not known; labels are those of members.
func Restore(f *v1alpha1.FleetMiniCluster, spec *v1alpha1.PlacementSpec, labels map[string]map[string]string) queue.Restored {
	out := queue.Restored{Key: queue.Key{Namespace: f.Namespace, Name: f.Name}, Reservations: map[string]queue.Reservation{}}
	ledger := runs.Ledger(f.Status.Runs)
	ready := meta.FindStatusCondition(f.Status.Conditions, v1alpha1.ConditionReady)
	waits := ready != nil && slices.Contains(waitReasons, ready.Reason) && f.DeletionTimestamp.IsZero()
	live := ledger.Live()
	out.Begun = begun(ledger)
	if f.Suspended() || len(live) == 0 && !waits {
		return out
	}
	gang, err := gangOf(f, &f.Spec.MiniCluster, false)
	if err != nil {
		return out // such a spec starts nothing; what is live tells when it is reconciled
	}
	if waits {
		quorum := quorumOf(gang, &f.Spec.MiniCluster)
		out.Entry = &queue.Entry{Rank: rankOf(f), Anywhere: &quorum}
	}
	told := map[string]v1alpha1.ClusterStatus{}
	for _, c := range f.Status.Clusters {
		told[c.Run] = c
	}
	for _, member := range live {
		line := told[ledger.Last(member).ID]
		if line.Health == v1alpha1.Suspended && line.Reason == v1alpha1.ReasonInsufficientCapacity {
			continue // it waits to be resumed
		}
		own := overriddenGang(f, spec, labels[member], gang)
		if line.Pods.Desired > 0 {
			own.Size = int(line.Pods.Desired) // as its Job was last seen: it may wait to be larger
		}
		out.Reservations[member] = queue.Reservation{Run: ledger.Last(member).ID, Gang: own, Succeeded: int(line.Pods.Succeeded)}
	}
	return out
}

// begun is when the latest run was begun on each member, as far as the ledger remembers.
func begun(ledger runs.Ledger) map[string]time.Time {
	out := map[string]time.Time{}
	for i := range ledger {
		if run := &ledger[i]; run.StartTime != nil && run.StartTime.After(out[run.Cluster]) {
			out[run.Cluster] = run.StartTime.Time
		}
	}
	return out
}

// overriddenGang is what overrides make of a gang, if they do.
func overriddenGang(f *v1alpha1.FleetMiniCluster, spec *v1alpha1.PlacementSpec, labels map[string]string, gang fit.Gang) fit.Gang {
	if spec == nil {
		return gang
	}
	v, err := override.Apply(f.Name, &f.Spec.MiniCluster, spec.Overrides, labels)
	if err != nil || v.Digest == "" {
		return gang
	}
	if g, err := gangOf(f, &v.Spec, false); err == nil {
		return g
	}
	return gang
}
