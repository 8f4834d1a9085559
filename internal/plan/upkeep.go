package plan

import (
	"slices"
	"time"

	fluxv1alpha2 "github.com/minifleet/minifleet/api/flux/v1alpha2"
	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/internal/runs"
)

// Grace is how long after the start of a run the cache is given to show what was just created, before its absence
// counts as somebody's deletion.
const Grace = 5 * time.Second

// Repairable says whether objects that a run needs are put back if somebody has edited or deleted them. Objects of
// another rendering are left as they are: they belong to a run that is still live, or that has ended. So are all objects
// of a run that began with other overrides.
func (r *Round) Repairable(s *Snapshot, d *Decision, t *Target) bool {
	last := r.Ledger.Last(t.Name)
	if t.Failure() != nil || t.Done || t.Departing || !t.Chosen || !d.Wanted.IsCurrent(last) {
		return false
	}
	if is, _ := expired(s.Object, &d.Wanted, last, s.Now); is {
		return false
	}
	return hasJob(last) && last.State != v1alpha1.RunStopping && !d.overridden(t.Name)
}

// overridden says that the overrides for a member are no longer those that its run began with.
func (d *Decision) overridden(member string) bool {
	v := d.Variants.For(member)
	if v.Err != nil || d.Placement == nil {
		return true
	}
	i := slices.IndexFunc(d.Placement.Decisions, func(c v1alpha1.ClusterDecision) bool { return c.Name == member })
	return i >= 0 && d.Placement.Decisions[i].OverridesDigest != v.Digest
}

// GraceLeft is how much is left of the Grace of a run.
func GraceLeft(run *v1alpha1.Run, now time.Time) time.Duration {
	if run.StartTime == nil { // somebody has edited it
		return 0
	}
	return max(run.StartTime.Add(Grace).Sub(now), 0)
}

// CleansUp says whether what is left of a run that has ended is to be removed now that its Job is (runs.Next sees to
// that).
func (r *Round) CleansUp(s *Snapshot, d *Decision, t *Target) bool {
	if t.Lost != nil || t.Failure() != nil || t.Done || t.Observed == nil || t.Observed.Job != nil || !t.Chosen {
		return false
	}
	is, _ := expired(s.Object, &d.Wanted, r.Ledger.Last(t.Name), s.Now)
	return is
}

// ForRecord is the run that a member is to have on record, nil if none.
func (r *Round) ForRecord(s *Snapshot, t *Target) *v1alpha1.Run {
	var job *runs.Job
	var pod string
	if t.Observed != nil {
		job, pod = t.Observed.Job, t.Observed.Pod
	}
	return runs.ForRecord(r.Ledger, t.Name, job, pod, timeOf(s))
}

// Unready says whether the pods of a live run are not all ready, though nobody keeps them from it.
func (r *Round) Unready(t *Target) bool {
	last := r.Ledger.Last(t.Name)
	if t.Lost != nil || last == nil || last.State != v1alpha1.RunRunning || !t.own(last) {
		return false
	}
	job := t.Observed.Job
	return !job.Finished && !job.Succeeding && !job.Deleting && !job.Suspended && job.Pods.Ready+job.Pods.Succeeded < job.Pods.Desired
}

// Use is what a copy of a Secret or ConfigMap on a member is to a FleetMiniCluster.
type Use int

// Values of Use.
const (
	// Unused copies are released.
	Unused Use = iota
	// KeptForNext: the next run may use it.
	KeptForNext
	// InUse by a live run.
	InUse
)

// UseOf says what a copy is to a FleetMiniCluster that is noted as a user of it, or is not. What an outdated run
// references is not known any more, so it uses all that it has.
func (r *Round) UseOf(d *Decision, t *Target, kind, name string, noted, offered bool) Use {
	last := r.Ledger.Last(t.Name)
	live := last != nil && !last.State.Ended()
	named := slices.ContainsFunc(d.Variants.For(t.Name).References, func(ref fluxv1alpha2.Reference) bool { return ref.Kind == kind && ref.Name == name })
	switch {
	case !noted:
		return Unused
	case live && (named || !d.Wanted.IsCurrent(last)):
		return InUse
	case d.Problem != nil, t.Chosen && named && offered:
		return KeptForNext
	default:
		return Unused
	}
}

// FollowsReferences says whether copies on a member are to be kept as the hub has them.
func (t *Target) FollowsReferences() bool { return !t.Done && t.Failure() == nil || t.AwaitsReferences }

// UsesReferences says whether the run on a member has got everything that it needs, and has not ended.
func (r *Round) UsesReferences(d *Decision, t *Target) bool {
	last := r.Ledger.Last(t.Name)
	return last != nil && !last.State.Ended() && hasJob(last) && d.Wanted.IsCurrent(last)
}

// Spec is the MiniCluster to render for a member. An override that is wrong starts nothing; what it is wrong for has
// begun without it, and is looked after as it is.
func (d *Decision) Spec(member string, step runs.Action, object *v1alpha1.FleetMiniCluster) (*fluxv1alpha2.MiniClusterSpec, error) {
	v := d.Variants.For(member)
	switch {
	case v.Err == nil:
		return &v.Spec, nil
	case step == runs.Create:
		return nil, v.Err
	default:
		return &object.Spec.MiniCluster, nil
	}
}
