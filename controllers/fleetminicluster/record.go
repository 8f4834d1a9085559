package fleetminicluster

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/clusters"
	"github.com/minifleet/minifleet/internal/plan"
	"github.com/minifleet/minifleet/internal/runs"
	"github.com/minifleet/minifleet/internal/sanitize"
)

// putOnRecord has a member remember how the latest run there has ended, or that somebody is deleting its Job, which a hub
// that has lost its ledger can read when the Job is gone. It is a request for each run. What keeps a record from being
// written keeps nothing else from being done.
func (c *reconciliation) putOnRecord(ctx context.Context, t *plan.Target) error {
	run := c.round.ForRecord(c.snapshot, t)
	if run == nil || c.recorded.has(c.key(), t.Name, run) {
		return nil
	}
	m, origin, key := c.members[t.Name], c.origin(c.snapshot.Object), c.keyOn(ctx, c.members[t.Name], c.snapshot.Object)
	record, err := m.Record(ctx, key, origin)
	if err != nil {
		return ignoreAnswer(err)
	}
	if !runs.OnRecord(record.Ended, c.round.Ledger, run) {
		if !run.State.Ended() {
			if err := c.confirm(ctx); err != nil {
				return err // by another ledger it may be MiniFleet that deletes the Job
			}
		}
		record.Ended = runs.Record(record.Ended, c.snapshot.Object.Status.Succeeded, c.round.Ledger, run)
		if err := m.WriteRecord(ctx, key, origin, record); err != nil {
			return c.notRecorded(t, run, err)
		}
	}
	c.recorded.add(c.key(), t.Name, run)
	return nil
}

// notRecorded tells once that a member refuses a record.
func (c *reconciliation) notRecorded(t *plan.Target, run *v1alpha1.Run, err error) error {
	if failed := ignoreAnswer(err); failed != nil {
		return failed
	}
	c.recorded.add(c.key(), t.Name, run) // it is tried again with the next run, and after a restart
	what := fmt.Sprintf("run %s is %s", run.ID, run.State)
	if !run.State.Ended() {
		what = fmt.Sprintf("somebody deletes the Job of run %s", run.ID)
	}
	c.send(plan.Event{Type: corev1.EventTypeWarning, Reason: v1alpha1.ReasonNotRecorded, Action: "Record", Member: t.Name, Run: run.ID, Message: fmt.Sprintf(
		"%s: that %s could not be put on record there, so that a hub that is rebuilt may not know it: %s", t.Name, what, sanitize.Text(err.Error(), sanitize.MaxNote))})
	return nil
}

// ignoreAnswer drops the error of a member that has answered, but for one that says that its record is another by now.
func ignoreAnswer(err error) error {
	switch {
	case apierrors.IsConflict(err):
		return errStale
	case clusters.Unanswered(err):
		return err
	default:
		return nil
	}
}

// putBackMarks puts labels and annotations back on a Job that somebody has taken off, or that are of a FleetMiniCluster
// which had the name before.
func (c *reconciliation) putBackMarks(ctx context.Context, t *plan.Target, w *maintenance) error {
	if t.Failure() != nil || t.Observed == nil || t.Observed.Object == nil || t.Observed.Job.Deleting {
		return nil
	}
	job, origin, suspended := t.Observed.Object, c.origin(c.snapshot.Object), ""
	run := c.round.Ledger.Find(t.Observed.Job.RunID)
	if run == nil || run.Cluster != t.Name {
		return nil
	}
	if clusters.Stripped(job, origin) {
		suspended = clusters.SuspensionOf(job)
	}
	marks := clusters.MarksOf(c.snapshot.Object.Name, origin, run, suspended)
	if marks.On(job) {
		return nil
	}
	if err := c.confirm(ctx); err != nil {
		return err
	}
	if err := c.members[t.Name].PutBack(ctx, job, marks); err != nil {
		if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
			return errStale // it is another Job by now, or none
		}
		return fmt.Errorf("the labels of its Job: %w", err)
	}
	w.events = append(w.events, upkeepEvent(t, v1alpha1.ReasonDriftRepaired, "Repair",
		fmt.Sprintf("labels or annotations of Job %s were not those of run %s; put right", job.Name, run.ID)))
	return nil
}
