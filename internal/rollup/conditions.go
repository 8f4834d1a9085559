package rollup

import (
	"cmp"
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

// readiness is what Ready says. It alone tells the whole; Stalled and Reconciling say briefly what it is about.
type readiness struct {
	verdict
	brief string
}

// beside is Stalled or Reconciling.
func (r readiness) beside() verdict {
	if r.brief == "" {
		return verdict{metav1.ConditionTrue, r.reason, r.message}
	}
	return verdict{metav1.ConditionTrue, r.reason, r.brief + "; see the condition Ready"}
}

func setConditions(in Input, s *v1alpha1.FleetMiniClusterStatus) {
	set := func(kind string, v verdict) { setCondition(in, s, kind, v.status, v.reason, v.message) }
	ready := ready(in, s)
	set(v1alpha1.ConditionReady, ready.verdict)
	set(v1alpha1.ConditionHealthy, healthy(s))
	complete, failed := outcome(in, s)
	set(v1alpha1.ConditionComplete, complete)
	set(v1alpha1.ConditionFailed, failed)

	// These two are there only while they are true, as kstatus wants it.
	meta.RemoveStatusCondition(&s.Conditions, v1alpha1.ConditionReconciling)
	meta.RemoveStatusCondition(&s.Conditions, v1alpha1.ConditionStalled)
	switch {
	case in.Stalled, failed.status == metav1.ConditionTrue && s.Sync == v1alpha1.Synced:
		set(v1alpha1.ConditionStalled, ready.beside())
	case s.Sync != v1alpha1.Synced && !in.Wanted.Suspend:
		set(v1alpha1.ConditionReconciling, ready.beside())
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
func ready(in Input, s *v1alpha1.FleetMiniClusterStatus) readiness {
	if in.Problem != nil {
		return notReady(in.Problem.Reason, in.Problem.Message, briefly(in.Problem.Reason))
	}
	for _, m := range in.Members {
		if m.Lost == nil && m.Failed != nil {
			return ofMember(m.Name, m.Failed.Reason, m.Failed.Message)
		}
	}
	if v, ok := endedBadly(in); ok {
		return v
	}
	for _, m := range in.Members {
		if m.Lost != nil {
			v := ofMember(m.Name, v1alpha1.ReasonMemberUnreachable, m.Lost.Message)
			v.status = metav1.ConditionUnknown
			return v
		}
	}
	if d := in.Decision; d != nil && len(d.Clusters) < int(d.Wanted) {
		return notPlaced(in, d)
	}
	if v, ok := unsynced(in, s); ok {
		return v
	}
	return readiness{verdict: asWanted(in, s)}
}

func notReady(reason, message, brief string) readiness {
	return readiness{verdict{metav1.ConditionFalse, reason, message}, brief}
}

// ofMember is about one member.
func ofMember(name, reason, message string) readiness {
	return notReady(reason, name+": "+message, name+": "+briefly(reason))
}

// notPlaced is about a placement that has fewer members than it wants.
func notPlaced(in Input, d *v1alpha1.PlacementDecision) readiness {
	chosen := fmt.Sprintf("%d of %d members chosen", len(d.Clusters), d.Wanted)
	whom := " (" + orNone(join(d.Clusters)) + ")"
	switch {
	case in.Awaiting != "" && !in.Wanted.Suspend:
		return notReady(v1alpha1.ReasonConnecting, chosen+whom+"; "+in.Awaiting, chosen)
	case len(d.Waiting) > 0 && !in.Wanted.Suspend:
		return notReady(v1alpha1.ReasonInsufficientCapacity, chosen+whom+"; waits for room"+waiting(d), chosen+"; waits for room")
	default:
		could := fmt.Sprintf("%d of %d members could be chosen", len(d.Clusters), d.Wanted)
		return notReady(v1alpha1.ReasonNotEnoughClusters, could+whom+whyNot(d), could)
	}
}

// endedBadly is about the first of the current runs that is over without success.
func endedBadly(in Input) (readiness, bool) {
	for _, m := range currentRuns(in) {
		how := ended(m.Run)
		v := notReady(endReason(m.Run), m.Name+": "+cmp.Or(m.Run.Message, how), m.Name+": "+how)
		switch {
		case in.Wanted.WillRetry(m.Run):
		case m.Run.State == v1alpha1.RunFailed:
			return v, true
		case m.Run.State == v1alpha1.RunCancelled:
			v.message = m.Name + ": run " + m.Run.ID + " was " + how + "; to run again, set the annotation " + v1alpha1.AnnotationRerunAt
			return v, true
		}
	}
	return readiness{}, false
}

func unsynced(in Input, s *v1alpha1.FleetMiniClusterStatus) (readiness, bool) {
	for i, c := range s.Clusters { // they are in the order of the members
		if c.Sync == v1alpha1.Synced {
			continue
		}
		if in.Wanted.Suspend {
			const held = "no new run starts"
			return notReady(v1alpha1.ReasonSuspended, "suspended: "+held+"; "+in.Suspension, "suspended: "+held), true
		}
		v := ofMember(c.Name, v1alpha1.ReasonProgressing, "the run is about to start")
		if d := in.Decision; d != nil && !slices.Contains(d.Clusters, c.Name) {
			v.brief = c.Name + " is no longer in the placement"
			v.message = v.brief + ", and its run is still live"
		}
		switch {
		case in.Members[i].onlyPodIssue():
			v.message += " (" + c.Message + ")"
		case c.Reason != "" && c.Message != "": // some runs end without a message
			v = ofMember(c.Name, c.Reason, whole(in, in.Members[i].Run, c))
		}
		return v, true
	}
	return readiness{}, false
}

// whole is what there is to say of a member. Of a run that has failed its line says no more than what follows.
func whole(in Input, run *v1alpha1.Run, c v1alpha1.ClusterStatus) string {
	switch {
	case run == nil || run.State != v1alpha1.RunFailed || run.Message == "":
		return c.Message
	case c.Reason == v1alpha1.ReasonRunFailed:
		return run.Message
	case in.Wanted.WillRetry(run):
		return run.Message + "; " + c.Message
	default:
		return c.Message
	}
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
	out := ""
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

// tally counts what has become of the runs for what is wanted now.
type tally struct{ wanted, succeeded, failed, cancelled int }

func tallyOf(in Input) tally {
	var t tally
	for _, m := range currentRuns(in) {
		switch {
		case m.Run.State == v1alpha1.RunSucceeded:
			t.succeeded++
		case m.Run.State == v1alpha1.RunCancelled:
			t.cancelled++
		case m.Run.State == v1alpha1.RunFailed && !in.Wanted.WillRetry(m.Run):
			t.failed++
		}
	}
	if in.Decision != nil {
		t.wanted = max(int(in.Decision.Wanted), len(in.Decision.Clusters))
	}
	return t
}

// ended says that all wanted runs have, and that no other is to follow.
func (t tally) ended() bool { return t.wanted > 0 && t.succeeded+t.failed+t.cancelled == t.wanted }

// outcome makes Complete and Failed. They speak of the runs for what is wanted now.
func outcome(in Input, s *v1alpha1.FleetMiniClusterStatus) (complete, failed verdict) {
	t := tallyOf(in)
	progress := fmt.Sprintf("%d of %d runs succeeded, %d failed", t.succeeded, t.wanted, t.failed)
	reason := v1alpha1.ReasonRunFailed
	if t.cancelled > 0 {
		progress += fmt.Sprintf(", %d were cancelled", t.cancelled)
		if t.failed == 0 {
			reason = v1alpha1.ReasonRunCancelled
		}
	}
	complete = verdict{metav1.ConditionFalse, v1alpha1.ReasonProgressing, progress}
	failed = verdict{metav1.ConditionFalse, v1alpha1.ReasonProgressing, progress}
	switch {
	case !t.ended():
	case t.succeeded == t.wanted:
		complete = verdict{metav1.ConditionTrue, v1alpha1.ReasonRunSucceeded, progress}
		failed.reason = v1alpha1.ReasonRunSucceeded
	default:
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
