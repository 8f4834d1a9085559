package runs

import (
	"cmp"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/minifleet/minifleet/api/v1alpha1"
)

// Ended is what is remembered of a run.
func Ended(r *v1alpha1.Run) v1alpha1.EndedRun {
	e := v1alpha1.EndedRun{
		ID: r.ID, Cluster: r.Cluster, Digest: r.Digest, RerunAt: r.RerunAt, Revision: r.Revision, State: r.State, Stop: r.Stop, Attempt: r.Attempt, CompletionTime: r.CompletionTime,
	}
	if !r.State.Ended() {
		e.StartTime = r.StartTime
	}
	return e
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

// ForRecord is the run of which a member is to have on record what is known: a live one, as Running, whose Job somebody else is
// deleting, or has deleted while a pod is left; one that is about to be stopped since a person has cancelled it, as Cancelled,
// before its Job is deleted; else the latest one that has ended there. MiniFleet deletes a Job only once the ledger says that its
// run is to stop. It is nil where nothing has ended.
func ForRecord(l Ledger, member string, j *Job, pod string, now *metav1.Time) *v1alpha1.Run {
	last := l.Last(member)
	if last == nil {
		return nil
	}
	if deletedByOthers(last, j, pod) {
		run := *last
		run.State, run.Stop, run.CompletionTime = v1alpha1.RunRunning, v1alpha1.StopDeleted, now
		return &run
	}
	if last.State == v1alpha1.RunStopping && last.Stop == v1alpha1.StopCancelled {
		run := *last
		run.State, run.CompletionTime = v1alpha1.RunCancelled, now
		return &run
	}
	for i := len(l) - 1; i >= 0; i-- {
		if l[i].Cluster == member && BelongsOnRecord(&l[i]) {
			return &l[i]
		}
	}
	if last.State.Ended() {
		return last // which may be on record as Running
	}
	return nil
}

func deletedByOthers(last *v1alpha1.Run, j *Job, pod string) bool {
	switch {
	case last.State.Ended(), last.State == v1alpha1.RunStopping, last.LostTime != nil: // the last may be made up for elsewhere
		return false
	case j == nil:
		return pod != "" && last.JobUID != ""
	default:
		return j.RunID == last.ID && j.Deleting && !j.Unreleased && !j.Finished
	}
}

// BelongsOnRecord says whether a run has ended and is not to run anew.
func BelongsOnRecord(r *v1alpha1.Run) bool {
	return r.State.Ended() && r.State != v1alpha1.RunReplaced
}

// Record is what a member is to have on record of runs there: what it has, what is remembered, what the ledger holds, and
// a run as ForRecord has it. Its latest run comes last. That a run has succeeded stays on record, whatever a ledger says by
// now.
func Record(has []v1alpha1.EndedRun, memory []v1alpha1.EndedRun, ledger Ledger, run *v1alpha1.Run) []v1alpha1.EndedRun {
	member, out := run.Cluster, slices.DeleteFunc(slices.Clone(has), func(e v1alpha1.EndedRun) bool { return outdated(&e, ledger) })
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
	if line := ledger.Find(run.ID); (line == nil || !line.State.Ended()) && !hasSucceeded(out, run) {
		add(Ended(run))
	}
	return out[max(len(out)-v1alpha1.MaxEndedRuns, 0):]
}

// OnRecord says whether all is on record that is to be known of a run there, as ForRecord has it, and nothing that is known
// better.
func OnRecord(record []v1alpha1.EndedRun, ledger Ledger, r *v1alpha1.Run) bool {
	if slices.ContainsFunc(record, func(e v1alpha1.EndedRun) bool { return outdated(&e, ledger) }) {
		return false
	}
	on := FindEnded(record, r.ID)
	return r.State == v1alpha1.RunReplaced || on != nil && on.State == r.State || hasSucceeded(record, r)
}

// outdated says whether a run is on record as live that has ended since.
func outdated(e *v1alpha1.EndedRun, ledger Ledger) bool {
	return e.BeingDeleted() && ledger.Ended(e.ID)
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
		run.Stop, run.StartTime, run.CompletionTime = "", cmp.Or(e.StartTime, e.CompletionTime), nil
	}
	return run
}
