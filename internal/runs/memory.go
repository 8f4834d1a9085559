package runs

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/minifleet/minifleet/api/v1alpha1"
)

// Ended is what is remembered of a run.
func Ended(r *v1alpha1.Run) v1alpha1.EndedRun {
	return v1alpha1.EndedRun{
		ID: r.ID, Cluster: r.Cluster, Digest: r.Digest, RerunAt: r.RerunAt, Revision: r.Revision, State: r.State, Stop: r.Stop, Attempt: r.Attempt, CompletionTime: r.CompletionTime,
	}
}

// Remember adds to what is remembered those runs of a ledger that have succeeded and that the ledger which follows does
// not hold any more. Of each member and digest the latest is remembered, of all of these the latest MaxEndedRuns.
func Remember(memory []v1alpha1.EndedRun, before, after Ledger) []v1alpha1.EndedRun {
	memory = slices.DeleteFunc(slices.Clone(memory), func(e v1alpha1.EndedRun) bool { return after.Find(e.ID) != nil })
	for i := range before {
		if before[i].State == v1alpha1.RunSucceeded && after.Find(before[i].ID) == nil {
			memory = withEnded(memory, Ended(&before[i]))
		}
	}
	return memory[max(len(memory)-v1alpha1.MaxEndedRuns, 0):]
}

// withEnded appends a run in place of an earlier one for the same.
func withEnded(memory []v1alpha1.EndedRun, e v1alpha1.EndedRun) []v1alpha1.EndedRun {
	memory = slices.DeleteFunc(memory, func(old v1alpha1.EndedRun) bool {
		return old.ID == e.ID || old.Cluster == e.Cluster && old.Digest == e.Digest && old.State == e.State
	})
	return append(memory, e)
}

// ForRecord is what a member is to have on record of its latest run: how it has ended or, of a live one, that somebody
// else is deleting its Job, or has, and a pod is left. MiniFleet deletes a Job only once the ledger says that its run is to
// stop. It is nil where there is nothing to tell.
func ForRecord(last *v1alpha1.Run, j *Job, pod string, now *metav1.Time) *v1alpha1.Run {
	switch {
	case last == nil || last.State.Ended():
		return last
	case last.State == v1alpha1.RunStopping, last.LostTime != nil: // that one may be made up for elsewhere
		return nil
	case j == nil && (pod == "" || last.JobUID == ""):
		return nil
	case j != nil && (j.RunID != last.ID || !j.Deleting || j.Unreleased || j.Finished):
		return nil
	}
	run := *last
	run.State, run.Stop, run.CompletionTime = v1alpha1.RunRunning, v1alpha1.StopDeleted, now
	return &run
}

// BelongsOnRecord says whether a run has ended and is not to run anew.
func BelongsOnRecord(r *v1alpha1.Run) bool {
	return r.State.Ended() && r.State != v1alpha1.RunReplaced
}

// Record is what a member is to have on record of runs there: what it has, what is remembered, what the ledger holds, and
// its latest run as ForRecord has it, which comes last. That a run has succeeded stays on record, whatever a ledger says by
// now.
func Record(has []v1alpha1.EndedRun, memory []v1alpha1.EndedRun, ledger Ledger, last *v1alpha1.Run) []v1alpha1.EndedRun {
	member, out := last.Cluster, slices.DeleteFunc(slices.Clone(has), func(e v1alpha1.EndedRun) bool { return e.BeingDeleted() && e.ID == last.ID })
	add := func(e v1alpha1.EndedRun) {
		e.Cluster = "" // the member may have another name one day
		out = withEnded(out, e)
	}
	for _, e := range memory {
		if e.Cluster == member && !slices.ContainsFunc(out, func(o v1alpha1.EndedRun) bool { return o.ID == e.ID }) {
			add(e)
		}
	}
	for i := range ledger {
		if r := &ledger[i]; r.Cluster == member && BelongsOnRecord(r) && !hasSucceeded(out, r) {
			add(Ended(r))
		}
	}
	if !last.State.Ended() && !hasSucceeded(out, last) {
		add(Ended(last))
	}
	return out[max(len(out)-v1alpha1.MaxEndedRuns, 0):]
}

// OnRecord says whether all is on record that is to be known of a run there, as ForRecord has it.
func OnRecord(record []v1alpha1.EndedRun, r *v1alpha1.Run) bool {
	on := FindEnded(record, r.ID)
	if r.State == v1alpha1.RunReplaced {
		return on == nil || !on.BeingDeleted()
	}
	return on != nil && on.State == r.State || hasSucceeded(record, r)
}

// hasSucceeded says whether it is remembered that a run has succeeded which is said to have ended otherwise.
func hasSucceeded(memory []v1alpha1.EndedRun, r *v1alpha1.Run) bool {
	e := FindEnded(memory, r.ID)
	return e != nil && e.State == v1alpha1.RunSucceeded && r.State != e.State
}

// FindEnded returns the run of this id that is remembered, or nil.
func FindEnded(memory []v1alpha1.EndedRun, id string) *v1alpha1.EndedRun {
	for i := range memory {
		if memory[i].ID == id {
			return &memory[i]
		}
	}
	return nil
}

// Line is what is written into the ledger for a run that is remembered. One whose Job was being deleted is live: its pods,
// which may have been left to go on, tell how it ends.
func Line(e *v1alpha1.EndedRun, member string) v1alpha1.Run {
	run := v1alpha1.Run{
		ID: e.ID, Cluster: member, Digest: e.Digest, RerunAt: e.RerunAt, Revision: e.Revision, State: e.State,
		Stop: e.Stop, Attempt: e.Attempt, StartTime: e.CompletionTime, CompletionTime: e.CompletionTime,
	}
	if e.BeingDeleted() {
		run.Stop, run.CompletionTime = "", nil
	}
	return run
}
