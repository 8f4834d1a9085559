package rollup

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/minifleet/minifleet/api/v1alpha1"
)

// verdict is the status, reason and message of a condition.
type verdict struct {
	status          metav1.ConditionStatus
	reason, message string
}

func setConditions(in Input, s *v1alpha1.FleetMiniClusterStatus) {
	set := func(kind string, v verdict) { setCondition(in, s, kind, v.status, v.reason, v.message) }
	ready := ready(in, s)
	set(v1alpha1.ConditionReady, ready)
	set(v1alpha1.ConditionHealthy, healthy(s))
	complete, failed := outcome(in, s)
	set(v1alpha1.ConditionComplete, complete)
	set(v1alpha1.ConditionFailed, failed)

	// These two are there only while they are true, as kstatus wants it.
	meta.RemoveStatusCondition(&s.Conditions, v1alpha1.ConditionReconciling)
	meta.RemoveStatusCondition(&s.Conditions, v1alpha1.ConditionStalled)
	switch {
	case in.Stalled, failed.status == metav1.ConditionTrue && s.Sync == v1alpha1.Synced:
		set(v1alpha1.ConditionStalled, verdict{metav1.ConditionTrue, ready.reason, ready.message})
	case s.Sync != v1alpha1.Synced && !in.Wanted.Suspend:
		set(v1alpha1.ConditionReconciling, verdict{metav1.ConditionTrue, ready.reason, ready.message})
	}
	keepTransitions(in, s)
}

// keepTransitions gives a condition that was removed and set again the time that it had.
func keepTransitions(in Input, s *v1alpha1.FleetMiniClusterStatus) {
	for i := range s.Conditions {
		c := &s.Conditions[i]
		if old := meta.FindStatusCondition(in.Previous.Conditions, c.Type); old != nil && old.Status == c.Status {
			c.LastTransitionTime = old.LastTransitionTime
		}
	}
}

// ready checks, from the worst to the best, what there is to say.
func ready(in Input, s *v1alpha1.FleetMiniClusterStatus) verdict {
	if in.Problem != nil {
		return verdict{metav1.ConditionFalse, in.Problem.Reason, in.Problem.Message}
	}
	for _, m := range in.Members {
		if m.Lost == nil && m.Failed != nil {
			return verdict{metav1.ConditionFalse, m.Failed.Reason, m.Name + ": " + m.Failed.Message}
		}
	}
	if v, ok := endedBadly(in); ok {
		return v
	}
	for _, m := range in.Members {
		if m.Lost != nil {
			return verdict{metav1.ConditionUnknown, v1alpha1.ReasonMemberUnreachable, m.Name + ": " + m.Lost.Message}
		}
	}
	if d := in.Decision; d != nil && len(d.Clusters) < int(d.Wanted) {
		if in.Awaiting != "" && !in.Wanted.Suspend {
			return verdict{metav1.ConditionFalse, v1alpha1.ReasonConnecting, fmt.Sprintf(
				"%d of %d members chosen (%s); %s", len(d.Clusters), d.Wanted, orNone(join(d.Clusters)), in.Awaiting)}
		}
		if len(d.Waiting) > 0 && !in.Wanted.Suspend {
			return verdict{metav1.ConditionFalse, v1alpha1.ReasonInsufficientCapacity, waiting(d)}
		}
		return verdict{metav1.ConditionFalse, v1alpha1.ReasonNotEnoughClusters, fmt.Sprintf(
			"%d of %d members could be chosen (%s)%s", len(d.Clusters), d.Wanted, orNone(join(d.Clusters)), whyNot(d))}
	}
	if v, ok := unsynced(in, s); ok {
		return v
	}
	return asWanted(in, s)
}

// endedBadly is about the first of the current runs that is over without success.
func endedBadly(in Input) (verdict, bool) {
	for _, m := range currentRuns(in) {
		switch {
		case in.Wanted.WillRetry(m.Run):
		case m.Run.State == v1alpha1.RunFailed:
			return verdict{metav1.ConditionFalse, v1alpha1.ReasonRunFailed, m.Name + ": " + m.Run.Message}, true
		case m.Run.State == v1alpha1.RunCancelled:
			return verdict{metav1.ConditionFalse, v1alpha1.ReasonRunCancelled, m.Name + ": run " + m.Run.ID + " was " + m.Run.Message}, true
		}
	}
	return verdict{}, false
}

func unsynced(in Input, s *v1alpha1.FleetMiniClusterStatus) (verdict, bool) {
	for i, c := range s.Clusters { // they are in the order of the members
		if c.Sync == v1alpha1.Synced {
			continue
		}
		if in.Wanted.Suspend {
			return verdict{metav1.ConditionFalse, v1alpha1.ReasonSuspended, "suspended: no new run starts; " + in.Suspension}, true
		}
		reason, message := v1alpha1.ReasonProgressing, c.Name+": the run is about to start"
		if d := in.Decision; d != nil && !slices.Contains(d.Clusters, c.Name) {
			message = c.Name + " is no longer in the placement, and its run is still live"
		}
		switch {
		case in.Members[i].onlyPodIssue():
			message += " (" + c.Message + ")"
		case c.Reason != "" && c.Message != "": // some runs end without a message
			reason, message = c.Reason, c.Name+": "+c.Message
		}
		return verdict{metav1.ConditionFalse, reason, message}, true
	}
	return verdict{}, false
}

// asWanted is about members that all have what is wanted.
func asWanted(in Input, s *v1alpha1.FleetMiniClusterStatus) verdict {
	done := names(s.Clusters, func(c v1alpha1.ClusterStatus) bool { return c.State == v1alpha1.RunSucceeded })
	live := names(s.Clusters, func(c v1alpha1.ClusterStatus) bool { return !c.State.Ended() })
	switch {
	case len(live) == 0:
		return verdict{metav1.ConditionTrue, v1alpha1.ReasonSucceeded, "completed on " + join(done) + before(in)}
	case in.Wanted.Suspend:
		return verdict{metav1.ConditionTrue, v1alpha1.ReasonSuspended, "suspended on " + join(live) + "; " + in.Suspension}
	case len(done) == 0:
		return verdict{metav1.ConditionTrue, v1alpha1.ReasonSynced, running(s.Clusters)}
	default:
		return verdict{metav1.ConditionTrue, v1alpha1.ReasonSynced, running(s.Clusters) + "; completed on " + join(done)}
	}
}

// before says that nothing was run, since it had been before.
func before(in Input) string {
	for _, m := range currentRuns(in) {
		if m.Run.RestoredTime != nil && m.Run.State == v1alpha1.RunSucceeded && m.Run.Message != "" {
			return "; " + m.Run.Message
		}
	}
	return ""
}

// waiting names what is missing for those that have no room, and then why others were not chosen.
func waiting(d *v1alpha1.PlacementDecision) string {
	out := fmt.Sprintf("%d of %d members chosen (%s); waits for room", len(d.Clusters), d.Wanted, orNone(join(d.Clusters)))
	rest := *d
	rest.Rejected = slices.DeleteFunc(slices.Clone(d.Rejected), func(r v1alpha1.RejectedCluster) bool {
		return slices.ContainsFunc(d.Waiting, func(w v1alpha1.RejectedCluster) bool { return w.Name == r.Name })
	})
	for i, w := range d.Waiting {
		if i == 3 {
			out += fmt.Sprintf("; and %d more, see status.placement.waiting", len(d.Waiting)-i)
			break
		}
		out += "; " + w.Name + ": " + w.Reason
	}
	return out + whyNot(&rest)
}

func whyNot(d *v1alpha1.PlacementDecision) string {
	out := ""
	if len(d.Rejected)+len(d.Waiting) == 0 && len(d.Clusters) < int(d.Wanted) {
		out = "; there are no more MemberClusters: register more, or ask for fewer (numberOfClusters)"
	}
	for i, r := range d.Rejected {
		if i == 3 {
			return out + fmt.Sprintf("; and %d more, see status.placement.rejected", len(d.Rejected)-i)
		}
		out += "; " + r.Name + ": " + r.Reason
	}
	return out
}

func orNone(s string) string {
	if s == "" {
		return "none"
	}
	return s
}

// currentRuns are the chosen members that have a run for what is wanted now.
func currentRuns(in Input) []Member {
	var out []Member
	for _, m := range in.Members {
		if m.Chosen && in.Wanted.IsCurrent(m.Run) {
			out = append(out, m)
		}
	}
	return out
}

func healthy(s *v1alpha1.FleetMiniClusterStatus) verdict {
	degraded := names(s.Clusters, func(c v1alpha1.ClusterStatus) bool { return c.Health == v1alpha1.Degraded })
	unknown := names(s.Clusters, func(c v1alpha1.ClusterStatus) bool { return c.Sync == v1alpha1.SyncUnknown })
	switch {
	case len(degraded) > 0:
		return verdict{metav1.ConditionFalse, string(v1alpha1.Degraded), "degraded on " + join(degraded)}
	case len(unknown) > 0:
		return verdict{metav1.ConditionUnknown, v1alpha1.ReasonMemberUnreachable, "no news from " + join(unknown)}
	case len(s.Clusters) == 0:
		return verdict{metav1.ConditionUnknown, string(v1alpha1.Missing), "nothing runs yet"}
	default:
		return verdict{metav1.ConditionTrue, v1alpha1.ReasonHealthy, "nothing has failed"}
	}
}

// outcome makes Complete and Failed. They speak of the runs for what is wanted now.
func outcome(in Input, s *v1alpha1.FleetMiniClusterStatus) (complete, failed verdict) {
	current := currentRuns(in)
	succeeded, bad, cancelled := 0, 0, 0
	for _, m := range current {
		switch {
		case m.Run.State == v1alpha1.RunSucceeded:
			succeeded++
		case m.Run.State == v1alpha1.RunCancelled:
			bad, cancelled = bad+1, cancelled+1
		case m.Run.State == v1alpha1.RunFailed && !in.Wanted.WillRetry(m.Run):
			bad++
		}
	}
	wanted := 0
	if in.Decision != nil {
		wanted = max(int(in.Decision.Wanted), len(in.Decision.Clusters))
	}
	progress := fmt.Sprintf("%d of %d runs succeeded, %d failed", succeeded, wanted, bad-cancelled)
	reason := v1alpha1.ReasonRunFailed
	if cancelled > 0 {
		progress += fmt.Sprintf(", %d were cancelled", cancelled)
		if cancelled == bad {
			reason = v1alpha1.ReasonRunCancelled
		}
	}
	complete = verdict{metav1.ConditionFalse, v1alpha1.ReasonProgressing, progress}
	failed = verdict{metav1.ConditionFalse, v1alpha1.ReasonProgressing, progress}
	switch {
	case wanted > 0 && succeeded == wanted:
		complete = verdict{metav1.ConditionTrue, v1alpha1.ReasonRunSucceeded, progress}
		failed.reason = v1alpha1.ReasonRunSucceeded
	case wanted > 0 && bad > 0 && succeeded+bad == wanted:
		failed = verdict{metav1.ConditionTrue, reason, progress + " (" + join(failedNames(s)) + ")"}
		complete.reason = reason
	}
	return complete, failed
}

func failedNames(s *v1alpha1.FleetMiniClusterStatus) []string {
	out := names(s.Clusters, func(c v1alpha1.ClusterStatus) bool {
		return c.State == v1alpha1.RunFailed || c.State == v1alpha1.RunCancelled
	})
	return slices.Compact(out)
}
