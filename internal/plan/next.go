package plan

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/internal/queue"
	"github.com/minifleet/minifleet/internal/rollup"
	"github.com/minifleet/minifleet/internal/runs"
	"github.com/minifleet/minifleet/internal/sanitize"
	"github.com/minifleet/minifleet/internal/tenant"
)

// Round is what comes next on all members at once.
type Round struct {
	// Targets are the members that matter, by name, each with its step.
	Targets []Target
	// Reserve is the room to be reserved first. Where that is refused, the next round is to be made on new views.
	Reserve []queue.Request
	// Ledger is what the steps make of the ledger, Changed the members whose lines are others than before: they are to
	// be observed anew, but for those that are Done. What is changed is written before anything that follows from it is
	// done.
	Ledger  runs.Ledger
	Changed []string
	Done    []string
	Events  []Event
	Line    Line
	// After is when to reconcile again although nothing happens; 0: not.
	After time.Duration
}

// Next says what comes next. Where something is to be read first, only that counts.
func Next(s *Snapshot, d *Decision, ledger runs.Ledger) (Round, Reads) {
	var reads Reads
	r := Round{Targets: Targets(s, d, ledger), Ledger: ledger, Line: d.Line}
	r.Line.Behind, r.Line.Notify = maps.Clone(d.Line.Behind), slices.Clone(d.Line.Notify)
	hold := d.hold()
	for i := range r.Targets {
		t := &r.Targets[i]
		if t.Facts.Step != nil {
			t.Step = *t.Facts.Step
		}
		if t.Reachable() && !t.Done {
			t.decide(s, d, hold, ledger, &r.Line, &reads)
		}
		r.After = After(r.After, t.After)
		if t.Reserve != nil {
			r.Reserve = append(r.Reserve, *t.Reserve)
		}
	}
	if !reads.Any() && len(r.Reserve) == 0 {
		r.record(s, d)
	}
	return r, reads
}

// Due are the targets on whose members something is to be done, once the ledger says so.
func (r *Round) Due() []*Target {
	var out []*Target
	for i := range r.Targets {
		t := &r.Targets[i]
		if !t.acts() {
			continue
		}
		switch t.Step.Action {
		case runs.Create, runs.DeleteJob, runs.Adjust, runs.Cleanup:
			out = append(out, t)
		default:
		}
	}
	return out
}

// acts says whether a target's step may be carried out.
func (t *Target) acts() bool { return t.Reachable() && !t.Done && t.Failure() == nil }

// decide asks the rules what comes next on a member, and whether it may.
func (t *Target) decide(s *Snapshot, d *Decision, hold string, ledger runs.Ledger, line *Line, reads *Reads) {
	last := ledger.Last(t.Name)
	if t.hasNoNamespace(s) || !t.observed(last, reads) {
		return
	}
	if t.orphaned(s, last) {
		return
	}
	t.Step = permitted(&d.Request, runs.Next(t.input(s, d, hold, ledger)))
	t.After = After(t.After, t.Step.After)
	switch {
	case t.Observed.Conflict != nil && t.Step.Action != runs.Finish:
		t.fail(s, t.Observed.Conflict) // what it needs a Job of its own for has to wait
		return
	case t.Step.Action == runs.Adopt && t.claimed(s, d, ledger):
		return
	case t.Step.Action == runs.Begin && (t.withdrawn(s, d, last) || t.moves(last)):
		return
	case t.Step.Action == runs.Begin && (!t.namespaceUsable(s, reads) || !t.referencesMet(s, d, reads)):
		return
	}
	t.admit(s, d, ledger, line, reads)
	t.tellStay(d.Stay[t.Name])
	if t.Step.Reason == v1alpha1.ReasonDeleting {
		t.After = After(t.After, s.intervals().Deleting)
	}
}

// hasNoNamespace says whether no namespace of the member is for that of the object: nothing is there, and nothing begins.
func (t *Target) hasNoNamespace(s *Snapshot) bool {
	if t.Namespace != "" {
		return false
	}
	if t.Removed = !t.Chosen; t.Chosen {
		t.fail(s, &rollup.Problem{Reason: v1alpha1.ReasonNamespaceDenied, Message: tenant.Claim{Hub: s.Object.Namespace, Member: t.Name}.Named()})
	}
	return true
}

// orphaned waits for what a FleetMiniCluster of this name has left on the member that was deleted.
func (t *Target) orphaned(s *Snapshot, last *v1alpha1.Run) bool {
	if last != nil && !last.State.Ended() || !orphaned(s, s.Member(t.Name).Cluster) {
		return false
	}
	t.wait(v1alpha1.ReasonDeleting, "what the FleetMiniCluster of this name has left here that was deleted is being removed")
	t.After = After(t.After, s.intervals().Deleting)
	return true
}

// observed says whether all is known of a member that its next step depends on.
func (t *Target) observed(last *v1alpha1.Run, reads *Reads) bool {
	live := last != nil && !last.State.Ended()
	if t.Observed == nil {
		how := ReadObserved
		if live && !t.Begun {
			how = ReadConfirmed
		}
		reads.add(t.Name, how)
		return false
	}
	job := t.Observed.Job
	switch {
	case !live:
	case t.Record == nil && t.mayHaveEnded(last):
		reads.add(t.Name, ReadRecord)
		return false
	case job != nil && job.RunID == last.ID && job.Finished && !job.Succeeded && t.Exit == nil:
		reads.add(t.Name, ReadExit) // the run ends without an answer as well: the pods may have been deleted
		return false
	}
	return true
}

// mayHaveEnded says whether a live run, or an older ledger's, may have ended before its Job was removed.
func (t *Target) mayHaveEnded(last *v1alpha1.Run) bool {
	job := t.Observed.Job
	return !t.Begun && (job == nil && t.Observed.Pod == "" || job != nil && job.RunID != last.ID)
}

// input is what the rules of runs decide on.
func (t *Target) input(s *Snapshot, d *Decision, hold string, ledger runs.Ledger) runs.Input {
	last := ledger.Last(t.Name)
	wanted := d.Wanted
	wanted.Chosen, wanted.Hold, wanted.HoldReason, wanted.NoFailover = t.Chosen, hold, d.holdReason(), d.NoFailover
	var left time.Duration
	wanted.Cleanup, left = expired(s.Object, &d.Wanted, last, s.Now)
	t.After = After(t.After, left)
	e := d.Evictions[t.Name]
	wanted.Evict, wanted.EvictMessage = e.Stop, e.Message
	if d.Problem != nil {
		// Nothing is started, and nothing that is live is touched, on the strength of a spec that is wrong.
		wanted.Hold, wanted.HoldReason, wanted.OnChange = d.Problem.Message, "", v1alpha1.AfterCompletion
	}
	in := runs.Input{
		Wanted: wanted, Last: last, Ended: ledger.Ended, Job: t.Observed.Job, Pod: sanitize.Text(t.Observed.Pod, 253), Lead: t.Observed.Lead,
		Quorum: quorum(s.Object), Now: s.Now,
	}
	if t.Record != nil && last != nil {
		in.Recorded = t.Record.own(last)
	}
	return in
}

// fail keeps anything from being done on the member now.
func (t *Target) fail(s *Snapshot, p *rollup.Problem) {
	t.Problem = p
	t.After = After(t.After, s.intervals().Failed)
}

// claimed says whether the Job to be adopted claims to be the run of another member. A run is on one member; its line
// moves only if that member is not registered any more: the same cluster, it may be, was registered under another name.
func (t *Target) claimed(s *Snapshot, d *Decision, ledger runs.Ledger) bool {
	id := t.Observed.Job.RunID
	on := d.rememberedOn(s, id, t.Name)
	if line := ledger.Find(id); line != nil && line.Cluster != t.Name && s.Member(line.Cluster) != nil {
		on = line.Cluster
	}
	if on == "" {
		return false
	}
	t.fail(s, &rollup.Problem{Reason: v1alpha1.ReasonApplyFailed, Message: fmt.Sprintf(
		"its Job claims to be run %s, which is on member %s; nothing is done here while that Job is there", id, on)})
	return true
}

// withdrawn says whether the object's namespace may not use the member any more: a run that has failed there keeps its
// place, so that it runs nowhere else by itself, and is not tried again.
func (t *Target) withdrawn(s *Snapshot, d *Decision, last *v1alpha1.Run) bool {
	if s.mayUse(s.Member(t.Name)) {
		return false
	}
	what := "the next run"
	if d.Wanted.WillRetry(last) {
		what = fmt.Sprintf("retry %d of %d", last.Attempt+1, d.Wanted.Retries)
	}
	t.fail(s, &rollup.Problem{Reason: v1alpha1.ReasonNamespaceDenied, Message: fmt.Sprintf(
		"%s waits, for this namespace may not use the member any more: its administrator says who may (spec.namespaces), or set the annotation %s to run it where it is placed now",
		what, v1alpha1.AnnotationRerunAt)})
	return true
}

// moves has what an ended run has in another namespace of the member removed, before the next one begins in the namespace
// that its MemberCluster says now.
func (t *Target) moves(last *v1alpha1.Run) bool {
	if last == nil || t.NextNamespace == "" || t.NextNamespace == t.Namespace {
		return false
	}
	t.Step = runs.Step{Action: runs.Cleanup, Reason: v1alpha1.ReasonDeleting, Message: fmt.Sprintf(
		"the next run is to be in namespace %s of the member; what is left in %s is removed first", t.NextNamespace, t.Namespace)}
	return true
}

// namespaceUsable says whether the namespace of the member may be used: a run begins only then.
func (t *Target) namespaceUsable(s *Snapshot, reads *Reads) bool {
	if t.NamespaceUse == nil {
		reads.add(t.Name, ReadNamespace)
		return false
	}
	if t.NamespaceUse.Denied == nil {
		return true
	}
	t.fail(s, t.NamespaceUse.Denied)
	return false
}

// referencesMet says whether everything that the MiniCluster references can be had on the member: a run begins only
// then.
func (t *Target) referencesMet(s *Snapshot, d *Decision, reads *Reads) bool {
	if len(d.Variants.For(t.Name).References) == 0 {
		return true
	}
	if t.References == nil {
		reads.add(t.Name, ReadReferences)
		return false
	}
	if t.References.Missing == nil {
		return true
	}
	t.fail(s, t.References.Missing)
	t.AwaitsReferences = true
	return false
}

// tellStay adds to a step that does nothing why a run stays that does not get going.
func (t *Target) tellStay(why string) {
	switch {
	case why == "" || t.Step.Action != runs.Nothing:
	case !t.Step.Explained():
		t.Step.Reason, t.Step.Message = v1alpha1.ReasonRunPending, why
	case t.Step.Reason == v1alpha1.ReasonSuspended:
		t.Step.Message += "; " + why
	}
}

// expired says whether everything of a run that has ended is to be removed from its member: at once, where the spec
// asks for that or holds no history of such runs, or after its time to live, which is left.
func expired(f *v1alpha1.FleetMiniCluster, wanted *runs.Wanted, last *v1alpha1.Run, now time.Time) (is bool, left time.Duration) {
	if !wanted.IsCurrent(last) || !last.State.Ended() {
		return false, 0
	}
	spec, limit := &f.Spec, f.Spec.FailedRunsHistoryLimit
	if last.State == v1alpha1.RunSucceeded {
		limit = spec.SuccessfulRunsHistoryLimit
	}
	if spec.MiniCluster.Cleanup || limit != nil && *limit == 0 {
		return true, 0
	}
	if spec.TTLSecondsAfterFinished == nil || last.CompletionTime == nil {
		return false, 0
	}
	left = last.CompletionTime.Add(time.Duration(*spec.TTLSecondsAfterFinished) * time.Second).Sub(now)
	return left <= 0, max(left, 0)
}
