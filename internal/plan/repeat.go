package plan

import (
	"fmt"
	"slices"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/internal/runs"
	"github.com/minifleet/minifleet/internal/sanitize"
	"github.com/minifleet/minifleet/internal/tenant"
)

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
