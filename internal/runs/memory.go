package runs

import (
	"slices"

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

// BelongsOnRecord says whether a run has ended and is not to run anew.
func BelongsOnRecord(r *v1alpha1.Run) bool {
	return r != nil && r.State.Ended() && r.State != v1alpha1.RunReplaced
}

// Record is what a member is to have on record of the runs that have ended there: what it has, what is remembered, and
// what the ledger holds. Its latest run comes last. That a run has succeeded stays on record, whatever a ledger says by now.
func Record(has []v1alpha1.EndedRun, memory []v1alpha1.EndedRun, ledger Ledger, member string) []v1alpha1.EndedRun {
	out := slices.Clone(has)
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
	return out[max(len(out)-v1alpha1.MaxEndedRuns, 0):]
}

// OnRecord says whether it is on record how a run has ended.
func OnRecord(record []v1alpha1.EndedRun, r *v1alpha1.Run) bool {
	on := FindEnded(record, r.ID)
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

// Line is what is written into the ledger for a run that is remembered.
func Line(e *v1alpha1.EndedRun, member string) v1alpha1.Run {
	return v1alpha1.Run{
		ID: e.ID, Cluster: member, Digest: e.Digest, RerunAt: e.RerunAt, Revision: e.Revision, State: e.State,
		Stop: e.Stop, Attempt: e.Attempt, StartTime: e.CompletionTime, CompletionTime: e.CompletionTime,
	}
}
