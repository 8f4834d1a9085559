package plan

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/internal/eviction"
	"github.com/minifleet/minifleet/internal/runs"
	"github.com/minifleet/minifleet/internal/sanitize"
	"github.com/minifleet/minifleet/internal/tenant"
)

// Record is what a member has on record of runs that have ended there, oldest first.
type Record struct{ Ended []v1alpha1.EndedRun }

// catchUp brings the ledger up to what members know and it does not: it may have been lost, restored from a backup that
// is older than the runs, edited, or be that of a FleetMiniCluster which was created anew. Nothing is placed or begun
// before that is done; who cannot be asked is waited for.
func (d *Decision) catchUp(s *Snapshot, reads *Reads) {
	d.Succeeded = s.Object.Status.Succeeded
	d.adoptHeld(s)
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
	d.adoptHeld(s) // what the members themselves have said by now
	d.restoreEnded(s)
	d.repeatNothing(s)
	d.supersede(s)
	d.unknownRun = d.mayRunUnknown(s)
}

// mayBegin says whether anything may begin: a member may be chosen, or one that is chosen has no run for what is wanted. A
// run that is said to have ended without success may be said so by mistake.
func (d *Decision) mayBegin(s *Snapshot) bool {
	p := d.Placement
	if p == nil || p.Digest != d.Wanted.Digest || p.RerunAt != d.Wanted.RerunAt || wantsMore(p, s.Placement) || len(s.Object.Status.Unasked) > 0 {
		return true
	}
	for _, name := range p.Clusters {
		if last := d.Ledger.Last(name); !d.Wanted.IsCurrent(last) || last.State.Ended() && last.State != v1alpha1.RunSucceeded {
			return true
		}
	}
	return p.Open && slices.ContainsFunc(s.Members, func(m Member) bool { return m.Connection.Connected && !slices.Contains(p.Clusters, m.Cluster.Name) })
}

// wantsMore says that fewer members are chosen than are wanted, or were wanted last.
func wantsMore(p *v1alpha1.PlacementDecision, spec *v1alpha1.PlacementSpec) bool {
	wanted := p.Wanted
	if n := spec.NumberOfClusters; n != nil {
		wanted = max(wanted, *n)
	}
	return len(p.Clusters) < int(wanted) || spec.NumberOfClusters == nil && !p.Open
}

// askWhetherLost asks the hub whether a ledger without runs was lost, where that is not known.
func askWhetherLost(s *Snapshot, reads *Reads) bool {
	reads.HadRuns = s.HadRuns == nil && KnowsNoRun(s.Object)
	return reads.HadRuns
}

// askAll has all members asked for what they have on record and, if the ledger was lost, for the Job itself.
func (d *Decision) askAll(s *Snapshot, reads *Reads) {
	if askWhetherLost(s, reads) {
		return
	}
	d.Unasked = unasked(s)
	for i := range s.Members {
		name := s.Members[i].Cluster.Name
		if !s.Members[i].Connection.Connected {
			continue
		}
		if s.Facts[name].Record == nil {
			reads.add(name, ReadRecord)
		}
		if slices.Contains(d.Unasked, name) && s.Facts[name].Proof == nil {
			reads.add(name, ReadProof)
		}
	}
	if !reads.Any() {
		d.Unasked = stillUnasked(s, d.Unasked)
	}
}

// unasked are the members that are to be asked since the ledger was lost: all of them, to begin with.
func unasked(s *Snapshot) []string {
	if !KnowsNoRun(s.Object) || !*s.HadRuns {
		return s.Object.Status.Unasked
	}
	names := make([]string, 0, len(s.Members))
	for i := range s.Members {
		names = append(names, s.Members[i].Cluster.Name)
	}
	slices.Sort(names)
	return names
}

// KnowsNoRun says that the status of a FleetMiniCluster has no run, nor remembers one.
func KnowsNoRun(f *v1alpha1.FleetMiniCluster) bool {
	return len(f.Status.Runs) == 0 && len(f.Status.Succeeded) == 0
}

// stillUnasked are those of some members that have not answered yet, less those of which a person says that nothing is
// left there, or that are no longer registered.
func stillUnasked(s *Snapshot, names []string) []string {
	var out []string
	for _, name := range names {
		m := s.Member(name)
		if m == nil || eviction.GoneSince(s.Object.CreationTimestamp.Time, m.Cluster, s.Now) {
			continue
		}
		if proof := s.Facts[name].Proof; proof == nil || proof.Failed {
			out = append(out, name)
		}
	}
	return out
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
// of a FleetMiniCluster that was deleted is removed instead.
func (d *Decision) adoptHeld(s *Snapshot) {
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
			if e := &record.Ended[j]; d.restore(s, m, e, j == len(record.Ended)-1) && runs.FindEnded(older, e.ID) == nil {
				older = append(older, *e)
				older[len(older)-1].Cluster = name
			}
		}
	}
	d.Succeeded = append(older, d.Succeeded...) // what the hub knows by itself is forgotten last
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
		correct(s, line, e)
	case latest && (last == nil || last.State.Ended() && !e.CompletionTime.Before(last.CompletionTime) && runs.FindEnded(d.Succeeded, e.ID) == nil):
		run := runs.Line(e, member)
		run.ClusterUID, run.Namespace, run.RestoredTime = m.Connection.UID, m.Connection.Namespace, timeOf(s)
		run.Message = "as its member has on record"
		d.Ledger = d.Ledger.Insert(run, limits(s.Object))
		d.Events = append(d.Events, Event{normal, v1alpha1.ReasonRunRestored, "Restore", member, run.ID, fmt.Sprintf(
			"%s: run %s, which the ledger did not know, is %s there", member, run.ID, lower(run.State))})
	default:
		return e.State == v1alpha1.RunSucceeded && runs.FindEnded(d.Succeeded, e.ID) == nil
	}
	return false
}

// correct has a line of the ledger say what a member has on record of its run, where the ledger is older or somebody has edited it.
func correct(s *Snapshot, line *v1alpha1.Run, e *v1alpha1.EndedRun) {
	line.Attempt = max(line.Attempt, e.Attempt)
	switch {
	case line.State.Ended() && e.State == v1alpha1.RunSucceeded && (line.State != e.State || line.Digest != e.Digest):
		line.State, line.Digest, line.RerunAt, line.Stop = e.State, e.Digest, e.RerunAt, ""
		line.Message, line.Exit, line.RestoredTime = "succeeded, as its member has on record", nil, timeOf(s)
	case line.State == v1alpha1.RunReplaced && !replaces[line.Stop] && e.State.Ended() && e.State != line.State: // it would begin once more
		line.State, line.Stop, line.RestoredTime = e.State, e.Stop, timeOf(s)
		line.Message = lower(e.State) + ", as its member has on record"
	}
}

// repeatNothing puts runs that have succeeded for what is wanted back at the end of the ledger, where they count as what
// has run last: Git has come back to what they have done. A token that asks for one more run is answered by a run of its
// own.
func (d *Decision) repeatNothing(s *Snapshot) {
	answered := d.Wanted.RerunAt == "" || d.answered()
	for _, e := range d.succeededFor(s) {
		last := d.Ledger.Last(e.Cluster)
		if d.counts(last) || !answered && e.RerunAt != d.Wanted.RerunAt {
			continue
		}
		if last != nil && !last.State.Ended() {
			d.succeeded = append(d.succeeded, e.Cluster)
			continue
		}
		run := runs.Line(&e, e.Cluster)
		if m := s.Member(e.Cluster); m != nil {
			run.Namespace = tenant.NamespaceOf(s.Object, e.Cluster, &m.Cluster.Spec)
		}
		if line := d.Ledger.Find(e.ID); line != nil {
			run = *line
			d.Ledger = slices.DeleteFunc(slices.Clone(d.Ledger), func(r v1alpha1.Run) bool { return r.ID == e.ID })
		}
		run.RerunAt, run.RestoredTime = d.Wanted.RerunAt, timeOf(s)
		run.Message = succeededBefore(s, &run)
		d.Ledger = d.Ledger.Add(run, limits(s.Object))
		d.Events = append(d.Events, Event{normal, v1alpha1.ReasonSucceededBefore, "Restore", run.Cluster, run.ID, run.Cluster + ": " + run.Message})
	}
}

// counts says that the latest run of a member is for what is wanted, and keeps the member chosen: what was done before
// something else ran elsewhere does not, and is not what its member has had last if that was stopped since.
func (d *Decision) counts(last *v1alpha1.Run) bool {
	if last == nil || !d.Wanted.IsFor(last) {
		return false
	}
	var chosen []string
	if d.Placement != nil {
		chosen = d.Placement.Clusters
	}
	return !last.State.Ended() || slices.Contains(d.Ledger.Keepers(d.Wanted, chosen), last.Cluster)
}

// answered says that the token was answered before, by a run for something else.
func (d *Decision) answered() bool {
	return slices.ContainsFunc(d.Ledger, func(r v1alpha1.Run) bool { return r.RerunAt == d.Wanted.RerunAt }) &&
		!slices.ContainsFunc(d.Ledger, func(r v1alpha1.Run) bool { return d.Wanted.IsFor(&r) })
}

// succeededFor are the runs that have succeeded for what is wanted: the latest ones first, one of each member, and no more
// than are wanted.
func (d *Decision) succeededFor(s *Snapshot) []v1alpha1.EndedRun {
	var out []v1alpha1.EndedRun
	wanted := len(s.Members) + len(d.Ledger) + len(d.Succeeded)
	if n := s.Placement.NumberOfClusters; n != nil {
		wanted = int(*n)
	}
	add := func(e v1alpha1.EndedRun) {
		known := slices.ContainsFunc(out, func(o v1alpha1.EndedRun) bool { return o.Cluster == e.Cluster })
		if e.Digest == d.Wanted.Digest && e.State == v1alpha1.RunSucceeded && !known && len(out) < wanted {
			out = append(out, e)
		}
	}
	for i := len(d.Ledger) - 1; i >= 0; i-- {
		add(runs.Ended(&d.Ledger[i]))
	}
	for i := len(d.Succeeded) - 1; i >= 0; i-- {
		add(d.Succeeded[i])
	}
	return out
}

// succeededBefore says why a run is not repeated, and how it can be.
func succeededBefore(s *Snapshot, r *v1alpha1.Run) string {
	of := ""
	if r.Revision != "" {
		of = " of revision " + r.Revision
	}
	at := ""
	if r.CompletionTime != nil {
		at = " at " + r.CompletionTime.UTC().Format("2006-01-02 15:04:05 UTC")
	}
	return sanitize.Text(fmt.Sprintf("succeeded before, as run %s%s%s; to run it again: kubectl annotate --overwrite -n %s fmc %s %s=TOKEN, with any new TOKEN",
		r.ID, of, at, s.Object.Namespace, s.Object.Name, v1alpha1.AnnotationRerunAt), sanitize.MaxNote)
}

// mayRunUnknown says why a run may be live that the ledger does not know of; empty if none can be. Where every member runs
// its own, a member that cannot be asked gets none, and keeps no other from it.
func (d *Decision) mayRunUnknown(s *Snapshot) string {
	if s.Placement.NumberOfClusters == nil {
		return ""
	}
	var left []string
	for i := range s.Members {
		if orphaned(s, s.Members[i].Cluster) {
			left = append(left, s.Members[i].Cluster.Name)
		}
	}
	if len(left) > 0 {
		return fmt.Sprintf("a run of the FleetMiniCluster of this name that was deleted may still be live on %s; waiting until it is removed there%s",
			s.named(left), declareMembers(s, left))
	}
	if names := s.heldWhenLost(); len(names) > 0 {
		return fmt.Sprintf("%s had a live run of this name that no FleetMiniCluster owned, or more of these than were noted, when it was cut off; waiting until it answers%s",
			s.named(names), declareMembers(s, names))
	}
	names := slices.Concat(d.Unasked, s.Unasked)
	slices.Sort(names)
	if names = slices.Compact(names); len(names) > 0 {
		return fmt.Sprintf("the hub may not know all that has run under this name, and %s, which may hold a run of this MiniCluster, could not be asked yet; waiting until it answers%s",
			s.named(names), declareMembers(s, names))
	}
	return ""
}

// heldWhenLost are the members that cannot be asked now and that, when they last could be, had a live Job of this name
// which no FleetMiniCluster owned, or so many of these that not all were noted.
func (s *Snapshot) heldWhenLost() []string {
	var out []string
	owner := s.Object.Namespace + "/" + s.Object.Name
	for i := range s.Members {
		m := &s.Members[i]
		jobs := m.Cluster.Status.UnownedJobs
		full := len(jobs) >= v1alpha1.MaxUnownedJobs && KnowsNoRun(s.Object)
		if !m.Connection.Connected && slices.ContainsFunc(jobs, func(j v1alpha1.UnownedJob) bool {
			return (full || j.Owner == owner) && !eviction.GoneSince(j.Since.Time, m.Cluster, s.Now)
		}) {
			out = append(out, m.Cluster.Name)
		}
	}
	return out
}

// neverHeard says that no answer of a member has ever come, so that a declaration has no time to be compared with.
func neverHeard(m *Member) bool {
	c := &m.Connection
	return !c.Connected && c.Attempted && c.Reason != v1alpha1.ReasonConnecting && m.Cluster.Status.LastHeardTime == nil &&
		!meta.IsStatusConditionTrue(m.Cluster.Status.Conditions, v1alpha1.ConditionReady)
}

// declareMembers says what a person can do about members that do not answer.
func declareMembers(s *Snapshot, names []string) string {
	var away, never []string
	for _, name := range names {
		switch m := s.Member(name); {
		case m != nil && !s.mayUse(m):
			continue // an administrator of the hub knows which
		case m != nil && neverHeard(m):
			never = append(never, name)
		case m == nil:
			return "; register " + name + " again, or take it out of ConfigMap " + v1alpha1.FleetConfigMap + " when you have made sure that nothing runs there any more"
		case !m.Connection.Connected:
			away = append(away, name)
		}
	}
	if len(never) > 0 && len(away) == 0 {
		never = never[:min(len(never), maxNamed)]
		return fmt.Sprintf("; no answer of it has ever come: kubectl describe mcl %s says why; where nothing can run there: kubectl delete mcl %s",
			strings.Join(never, " "), strings.Join(never, " "))
	}
	if len(away) == 0 {
		return ""
	}
	return fmt.Sprintf("; when you have made sure that nothing runs there any more: kubectl annotate --overwrite mcl %s %s=%s",
		strings.Join(away[:min(len(away), maxNamed)], " "), v1alpha1.AnnotationMemberGone, "$(date -u +%Y-%m-%dT%H:%M:%SZ)")
}

// orphaned says whether a FleetMiniCluster of this name that was deleted may have left something on a member, which is
// about to be removed there. It is not if a person says that nothing is left.
func orphaned(s *Snapshot, m *v1alpha1.MemberCluster) bool {
	owner := s.Object.Namespace + "/" + s.Object.Name
	return slices.ContainsFunc(m.Status.Orphans, func(o v1alpha1.Orphan) bool {
		return o.Owner == owner && o.UID != s.Object.UID && !eviction.GoneSince(o.Since.Time, m, s.Now)
	})
}
