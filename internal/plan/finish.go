package plan

import (
	"fmt"
	"slices"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/internal/eviction"
	"github.com/minifleet/minifleet/internal/fleet"
	"github.com/minifleet/minifleet/internal/rollup"
	"github.com/minifleet/minifleet/internal/runs"
)

// Finish notes in the ledger how live runs get on, once everything was done: when their pods began to run, since when
// none does any more, and of which nothing has been heard for longer than failover allows.
func (r *Round) Finish(s *Snapshot, d *Decision) {
	for i := range r.Targets {
		t := &r.Targets[i]
		last := r.Ledger.Last(t.Name)
		switch {
		case last == nil:
		case t.Removed && last.State.Ended():
			r.moved(t, last)
		case t.Lost != nil:
			r.lose(s, d, t, last)
		default:
			r.track(s, t, last)
		}
	}
}

// moved notes that nothing of an ended run is left in the namespace that it was in. Without that, a member that is in the
// status again because its next run has to wait would be cleaned up again each time, and lose its place in the line.
func (r *Round) moved(t *Target, last *v1alpha1.Run) {
	if t.NextNamespace == "" || t.NextNamespace == t.Namespace {
		return
	}
	run := *last
	run.Namespace = t.NextNamespace
	r.Ledger = replaceLast(r.Ledger, run)
}

func (r *Round) track(s *Snapshot, t *Target, last *v1alpha1.Run) {
	var job *runs.Job
	if t.Observed != nil {
		job = t.Observed.Job
	}
	run := runs.Track(*last, job, quorum(s.Object), timeOf(s))
	if !run.LostTime.Equal(last.LostTime) || !run.RunningTime.Equal(last.RunningTime) ||
		!run.SuspendedTime.Equal(last.SuspendedTime) || !run.PendingSince.Equal(last.PendingSince) {
		r.Ledger = replaceLast(r.Ledger, run)
	}
}

// lose is about a live run on a member that cannot be reached. Should its member return without the run, it is known to
// have ended, and may run elsewhere.
func (r *Round) lose(s *Snapshot, d *Decision, t *Target, last *v1alpha1.Run) {
	if t.Unregistered || d.Failover == nil || last.State.Ended() || t.LastHeard.IsZero() {
		return
	}
	v := eviction.Lost{
		Run: last, Failover: d.Failover, LastHeard: t.LastHeard,
		Declare: fmt.Sprintf("when you have made sure that it is gone: kubectl annotate --overwrite -n %s fmc %s %s=%s",
			s.Object.Namespace, s.Object.Name, v1alpha1.AnnotationRunGone, last.ID),
	}.Judge(s.Now)
	r.After = After(r.After, v.After)
	if v.Message != "" {
		t.Lost = &rollup.Problem{Reason: t.Lost.Reason, Message: v.Message + "; " + t.Lost.Message}
	}
	if v.LostTime != nil {
		run := *last
		run.LostTime = v.LostTime
		r.Ledger = replaceLast(r.Ledger, run)
		r.tell(warning, v1alpha1.ReasonRunLost, "Observe", t.Name, run.ID, t.Name+": "+t.Lost.Message)
	}
}

// Status is what the FleetMiniCluster's status is to be. Issues are why pods of live runs are not ready, by member.
func (r *Round) Status(s *Snapshot, d *Decision, issues map[string]*fleet.PodIssue) v1alpha1.FleetMiniClusterStatus {
	in := rollup.Input{
		Generation: s.Object.Generation, Revision: s.Object.Annotations[v1alpha1.AnnotationSourceRevision],
		Wanted: d.Wanted, Suspension: suspension(s.Object), Problem: d.Problem, Stalled: d.Stalled, Decision: d.Placement,
		Ledger: r.Ledger, Succeeded: runs.Remember(d.Succeeded, s.Object.Status.Runs, r.Ledger), Unasked: d.Unasked,
		Previous: s.Object.Status, Now: s.Now, Awaiting: d.Line.Awaiting,
	}
	for i := range r.Targets {
		t := &r.Targets[i]
		if t.Removed {
			continue
		}
		m := rollup.Member{
			Name: t.Name, Chosen: t.Chosen, Lost: t.Lost, LastHeard: t.LastHeard, Failed: t.Failure(),
			Connecting: t.Connecting, Step: t.Step, Run: r.Ledger.Last(t.Name), PodIssue: issues[t.Name],
		}
		if t.Observed != nil {
			m.Job = t.Observed.Job
		}
		in.Members = append(in.Members, m)
	}
	return rollup.Status(in)
}

// troubleReasons are those of a member's line that an event tells.
var troubleReasons = []string{
	v1alpha1.ReasonConflict, v1alpha1.ReasonApplyFailed, v1alpha1.ReasonNamespaceDenied, v1alpha1.ReasonPolicyDenied,
	v1alpha1.ReasonReferenceMissing, v1alpha1.ReasonReferenceWithdrawn, v1alpha1.ReasonBindingMissing,
}

// StatusEvents are events for members that have got into trouble, or out of it, from one status to the next.
func StatusEvents(before, after *v1alpha1.FleetMiniClusterStatus) []Event {
	was := map[string]v1alpha1.ClusterStatus{}
	for _, c := range before.Clusters {
		was[c.Name] = c
	}
	var out []Event
	for _, c := range after.Clusters {
		old := was[c.Name]
		trouble := c.Sync == v1alpha1.SyncUnknown || slices.Contains(troubleReasons, c.Reason)
		switch {
		case trouble && (old.Reason != c.Reason || old.Sync != c.Sync):
			out = append(out, Event{warning, c.Reason, "Observe", c.Name, c.Run, c.Name + ": " + c.Message})
		case old.Sync == v1alpha1.SyncUnknown && c.Sync != v1alpha1.SyncUnknown:
			out = append(out, Event{normal, v1alpha1.ReasonConnected, "Observe", c.Name, c.Run, c.Name + ": heard from again"})
		}
	}
	return out
}
