package plan

import (
	"fmt"
	"math"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/internal/runs"
)

// Record is what a member has on record of runs that have ended there, or whose Job was being deleted, oldest first.
type Record struct{ Ended []v1alpha1.EndedRun }

// endOf is when a run that has no Job has ended: as it is on record, else now. It says whether a ledger that is older does not know
// what is on record after it.
func (r *Record) endOf(s *Snapshot, ledger runs.Ledger, run *v1alpha1.Run) (end *metav1.Time, behind bool) {
	own := r.own(run)
	if own == nil || !own.State.Ended() {
		return timeOf(s), false
	}
	after := false
	for i := range r.Ended {
		e := &r.Ended[i]
		behind = behind || after && e.State.Ended() && ledger.Find(e.ID) == nil
		after = after || e == own
	}
	return plausible(*own, s).CompletionTime, behind
}

// skew is how far the clocks of a hub and a member are apart at most, for what is compared.
const skew = time.Minute

// own is what is on record of a run, nil if nothing is. What had ended long before it began is not its own: ids are made of what the
// ledger holds, and can be those of runs that it does not hold any more.
func (r *Record) own(run *v1alpha1.Run) *v1alpha1.EndedRun {
	e := runs.FindEnded(r.Ended, run.ID)
	if e != nil && e.CompletionTime != nil && run.StartTime != nil && e.CompletionTime.Time.Before(run.StartTime.Add(-skew)) {
		return nil
	}
	return e
}

// catchUp brings the ledger up to what members know and it does not: it may have been lost, restored from a backup that
// is older than the runs, edited, or be that of a FleetMiniCluster which was created anew. Nothing is placed or begun
// before that is done; who cannot be asked is waited for.
func (d *Decision) catchUp(s *Snapshot, reads *Reads) {
	d.Succeeded = s.Object.Status.Succeeded
	if d.adoptHeld(s, reads); reads.Any() {
		return
	}
	d.believeJobs(s)
	if d.Problem != nil || s.Placement == nil || !d.mayBegin(s) {
		if s.Placement != nil {
			d.supersede(s)
		}
		if !askWhetherLost(s, reads) { // what is adopted now hides later on that the ledger was lost
			d.Unasked = stillUnasked(s, unasked(s))
		}
		return
	}
	if d.askAll(s, reads); reads.Any() {
		return
	}
	d.adoptHeld(s, reads) // what the members themselves have said by now
	d.restoreEnded(s)
	d.repeatNothing(s)
	d.supersede(s)
	d.unknownRun = d.mayRunUnknown(s)
}

// held is the Job on a member: as the member itself says, if it was asked, else as the cache shows it.
func (s *Snapshot) held(member string) *runs.Job {
	f := s.Facts[member]
	switch {
	case f.Proof != nil && !f.Proof.Failed:
		return f.Proof.Job
	case f.Cached != nil:
		return f.Cached.Job
	default:
		return nil
	}
}

// adoptHeld takes Jobs of ours into the ledger that it does not know, in the order in which they were made. What is left
// of a FleetMiniCluster that was deleted is removed instead. How often a run was tried is on record.
func (d *Decision) adoptHeld(s *Snapshot, reads *Reads) {
	var found []v1alpha1.Run
	for i := range s.Members {
		m := &s.Members[i]
		name, job := m.Cluster.Name, s.held(m.Cluster.Name)
		last := d.Ledger.Last(name)
		if job == nil || job.RunID == "" || job.Unreleased || d.Ledger.Find(job.RunID) != nil || last != nil && !last.State.Ended() || orphaned(s, m.Cluster) {
			continue
		}
		if d.rememberedOn(s, job.RunID, name) != "" {
			continue // which is told when it is its turn
		}
		if s.Facts[name].Record == nil {
			reads.add(name, ReadRecord)
		}
		found = append(found, adopted(job, name, m.Connection.UID, m.Connection.Namespace, s.Facts[name].Record))
	}
	slices.SortStableFunc(found, func(a, b v1alpha1.Run) int { return a.StartTime.Compare(b.StartTime.Time) })
	for _, run := range found {
		d.Ledger = d.Ledger.Add(run, limits(s.Object))
		d.Events = append(d.Events, Event{normal, v1alpha1.ReasonRunAdopted, "Adopt", run.Cluster, run.ID, run.Cluster + ": found a Job of ours that the ledger did not know"})
	}
}

// rememberedOn is the other member, still registered, on which a run has succeeded that a member claims to have; empty if
// there is none.
func (d *Decision) rememberedOn(s *Snapshot, id, member string) string {
	if e := runs.FindEnded(d.Succeeded, id); e != nil && e.Cluster != member && s.Member(e.Cluster) != nil {
		return e.Cluster
	}
	return ""
}

// attempt is that of a run whose Job was found, as far as it is on record: a Job does not tell.
func (r *Record) attempt(run *v1alpha1.Run) int32 {
	if r == nil || len(r.Ended) == 0 {
		return 0
	}
	if e := runs.FindEnded(r.Ended, run.ID); e != nil {
		return e.Attempt
	}
	last := &r.Ended[len(r.Ended)-1]
	if last.State != v1alpha1.RunFailed || last.Stop == v1alpha1.StopDeleted || last.Digest != run.Digest || last.RerunAt != run.RerunAt {
		return 0
	}
	return min(last.Attempt, math.MaxInt32-1) + 1
}

// adopted is the line of a Job that the ledger did not know, on a member with a record, or nil where that was not read. A Job
// that has ended ends its run in the next round.
func adopted(job *runs.Job, member, clusterUID, namespace string, record *Record) v1alpha1.Run {
	created := job.Created
	run := v1alpha1.Run{
		ID: job.RunID, Cluster: member, Digest: job.Digest, RerunAt: job.RerunAt,
		State: v1alpha1.RunRunning, JobUID: types.UID(job.UID), StartTime: &created, ClusterUID: clusterUID, Namespace: namespace,
	}
	run.Attempt = record.attempt(&run)
	return run
}

// believeJobs corrects the digest of a live run, should its Job say that it is for what is wanted: a ledger that somebody
// has edited ends no run.
func (d *Decision) believeJobs(s *Snapshot) {
	for i := range d.Ledger {
		run := &d.Ledger[i]
		job := s.held(run.Cluster)
		if !run.State.Ended() && !d.Wanted.IsFor(run) && job != nil && job.RunID == run.ID && job.Said == d.Wanted.Digest {
			run.Digest = job.Said
		}
	}
}

// supersede finds runs that are about to start although what they are for is live, or has succeeded, on as many members as
// are wanted: that has become known only since they were begun. They are given up, if they have no Job.
func (d *Decision) supersede(s *Snapshot) {
	n := s.Placement.NumberOfClusters
	if n == nil {
		return
	}
	there, starting := 0, []string(nil)
	for i := range d.Ledger {
		run := &d.Ledger[i]
		switch {
		case d.Ledger.Last(run.Cluster) != run || !d.Wanted.IsCurrent(run):
		case run.State == v1alpha1.RunStarting && run.JobUID == "" && s.held(run.Cluster) == nil:
			starting = append(starting, run.Cluster)
		case !run.State.Ended(), run.State == v1alpha1.RunSucceeded:
			there++
		}
	}
	if there >= int(*n) {
		d.superseded = starting
	}
}

// restoreEnded takes from the members' records what the ledger has lost: the latest run of a member, and that a run has
// succeeded which it knows otherwise.
func (d *Decision) restoreEnded(s *Snapshot) {
	var older []v1alpha1.EndedRun
	for i := range s.Members {
		m := &s.Members[i]
		name, record := m.Cluster.Name, s.Facts[m.Cluster.Name].Record
		if record == nil || !m.Connection.Connected || orphaned(s, m.Cluster) {
			continue
		}
		for j := range record.Ended {
			e := plausible(record.Ended[j], s)
			if d.restore(s, m, &e, j == len(record.Ended)-1) && runs.FindEnded(older, e.ID) == nil {
				e.Cluster = name
				older = append(older, e)
			}
		}
	}
	d.Succeeded = append(older, d.Succeeded...) // what the hub knows by itself is forgotten last
}

// plausible is what a member has on record, with times that can be: whoever may write there may have written others.
func plausible(e v1alpha1.EndedRun, s *Snapshot) v1alpha1.EndedRun {
	now := timeOf(s)
	if e.CompletionTime == nil || now.Before(e.CompletionTime) {
		e.CompletionTime = now
	}
	if e.StartTime != nil && e.CompletionTime.Before(e.StartTime) {
		e.StartTime = e.CompletionTime
	}
	return e
}

// replaces are the reasons for which the hub stops a run whose line is Replaced then. Such a run is on no record.
var replaces = map[v1alpha1.StopReason]bool{
	v1alpha1.StopChanged: true, v1alpha1.StopDrained: true, v1alpha1.StopNotStarted: true, v1alpha1.StopLost: true, v1alpha1.StopDeclaredGone: true,
}

// restore says whether a run is to be remembered beside the ledger.
func (d *Decision) restore(s *Snapshot, m *Member, e *v1alpha1.EndedRun, latest bool) bool {
	member := m.Cluster.Name
	last := d.Ledger.Last(member)
	line := d.Ledger.Find(e.ID)
	switch {
	case line != nil && line.Cluster != member, d.rememberedOn(s, e.ID, member) != "":
	case line != nil:
		correct(s, line, e, line == last)
	case latest && (last == nil || last.State.Ended() && !e.CompletionTime.Before(last.CompletionTime) && runs.FindEnded(d.Succeeded, e.ID) == nil):
		run := runs.Line(e, member)
		run.ClusterUID, run.Namespace, run.RestoredTime = m.Connection.UID, m.Connection.Namespace, timeOf(s)
		run.Message = "as its member has on record"
		d.Ledger = d.Ledger.Insert(run, limits(s.Object))
		what := "is " + lower(run.State)
		if e.BeingDeleted() {
			what = "had its Job deleted"
		}
		d.Events = append(d.Events, Event{normal, v1alpha1.ReasonRunRestored, "Restore", member, run.ID, fmt.Sprintf(
			"%s: run %s, which the ledger did not know, %s there", member, run.ID, what)})
	default:
		return e.State == v1alpha1.RunSucceeded && runs.FindEnded(d.Succeeded, e.ID) == nil
	}
	return false
}

// correct has a line of the ledger say what a member has on record of its run, where the ledger is older or somebody has edited it.
func correct(s *Snapshot, line *v1alpha1.Run, e *v1alpha1.EndedRun, isLast bool) {
	line.Attempt = max(line.Attempt, e.Attempt)
	switch {
	case line.State.Ended() && e.State == v1alpha1.RunSucceeded && (line.State != e.State || line.Digest != e.Digest):
		line.State, line.Digest, line.RerunAt, line.Stop = e.State, e.Digest, e.RerunAt, ""
		line.Message, line.Exit, line.RestoredTime = "succeeded, as its member has on record", nil, timeOf(s)
	case line.State == v1alpha1.RunReplaced && !replaces[line.Stop] && e.BeingDeleted() && isLast: // it would begin once more
		line.State, line.Stop, line.CompletionTime, line.RestoredTime = e.State, "", nil, timeOf(s)
		line.Message = "its Job was being deleted, as its member has on record"
	case line.State == v1alpha1.RunReplaced && !replaces[line.Stop] && e.State.Ended() && e.State != line.State: // and so would this one
		line.State, line.Stop, line.RestoredTime = e.State, e.Stop, timeOf(s)
		line.Message = lower(e.State) + ", as its member has on record"
	}
}
