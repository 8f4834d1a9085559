package plan

import (
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/minifleet/minifleet/api/v1alpha1"
)

// CanWait says whether what is new in a status may wait a short time for what comes next, since the status that was told
// says all of it that anybody acts on: runs are starting, as it was written ahead, their Jobs have been released by now,
// and some of their pods may run. All else is told at once: that something runs, ends, fails, waits, or is not known.
func CanWait(told, next *v1alpha1.FleetMiniClusterStatus) bool {
	return told.State == v1alpha1.StateStarting && next.State == v1alpha1.StateStarting &&
		slices.EqualFunc(told.Runs, next.Runs, startedOnly) &&
		slices.EqualFunc(told.Clusters, next.Clusters, startingAsTold) &&
		readinessCanWait(told.Conditions, next.Conditions) &&
		equality.Semantic.DeepEqual(beside(told), beside(next))
}

// startedOnly says whether a line of the ledger is as it was told, but for that its Job has been released.
func startedOnly(told, next v1alpha1.Run) bool {
	if told.State == v1alpha1.RunStarting && told.JobUID == "" && next.State == v1alpha1.RunRunning {
		told.State, told.JobUID = next.State, next.JobUID
	}
	return equality.Semantic.DeepEqual(told, next)
}

// startingAsTold says whether there is nothing to explain of a member, and nothing of it is worse than it was.
func startingAsTold(told, next v1alpha1.ClusterStatus) bool {
	return told.Name == next.Name && told.Run == next.Run && told.Health == next.Health &&
		told.Sync != v1alpha1.SyncUnknown && (next.Sync == v1alpha1.Synced || next.Sync == told.Sync) &&
		told.Message == "" && next.Message == "" && (next.Reason == "" || next.Reason == told.Reason) &&
		told.LastHeardTime.Equal(next.LastHeardTime) && told.Pods.Failed == next.Pods.Failed
}

// readinessCanWait says whether conditions are as they were told, but for that the object is ready by now.
func readinessCanWait(told, next []metav1.Condition) bool {
	ready := meta.FindStatusCondition(next, v1alpha1.ConditionReady)
	return ready != nil && (ready.Status == metav1.ConditionTrue || equality.Semantic.DeepEqual(ready, meta.FindStatusCondition(told, v1alpha1.ConditionReady))) &&
		equality.Semantic.DeepEqual(withoutReadiness(told), withoutReadiness(next))
}

// withoutReadiness are the conditions without those that say how far it is.
func withoutReadiness(all []metav1.Condition) map[string]metav1.Condition {
	out := map[string]metav1.Condition{}
	for _, c := range all {
		if c.Type != v1alpha1.ConditionReady && c.Type != v1alpha1.ConditionReconciling {
			out[c.Type] = c
		}
	}
	return out
}

// beside is what a status says besides runs, members and conditions, and their sums.
func beside(s *v1alpha1.FleetMiniClusterStatus) v1alpha1.FleetMiniClusterStatus {
	out := *s
	out.Runs, out.Clusters, out.Conditions, out.Summary, out.Sync = nil, nil, nil, nil, ""
	return out
}
