package fleetminicluster

import (
	"context"
	"errors"
	"fmt"
	"sync"

	batchv1 "k8s.io/api/batch/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/clusters"
	"github.com/minifleet/minifleet/internal/plan"
	"github.com/minifleet/minifleet/internal/runs"
)

// outcome is what became of a step on a member.
type outcome struct {
	event   *plan.Event
	started *batchv1.Job // created or released
	removed bool         // nothing is left there
	err     error
}

// perform does what is due on each member, all at once. What follows from it is seen in the next reconciliation.
func (c *reconciliation) perform(ctx context.Context, due []*plan.Target) []error {
	outcomes := make([]outcome, len(due))
	ctx = c.trace(ctx)
	var wg sync.WaitGroup
	for i, t := range due {
		wg.Go(func() {
			begun := c.Now()
			ctx, span := traceStep(ctx, t)
			outcomes[i] = c.performOn(ctx, t)
			span.End(outcomes[i].err)
			c.measure(t, &outcomes[i], begun)
		})
	}
	wg.Wait()
	var errs []error
	for i, t := range due {
		if err := c.conclude(t, &outcomes[i]); err != nil {
			errs = append(errs, err)
		}
	}
	return errs
}

// conclude notes what became of a step. It returns the errors that are worth trying again for.
func (c *reconciliation) conclude(t *plan.Target, o *outcome) error {
	step, unfinished := t.Step, (*podLeftError)(nil)
	if o.event != nil {
		c.events = append(c.events, *o.event)
	}
	var failed error
	c.learn(t.Name, func(f *plan.Facts) {
		f.Done, f.Step, f.Removed = true, &step, o.removed
		switch {
		case o.started != nil:
			c.releases.add(c.key(), t.Name, o.started)
			f.Observed = &plan.Observation{Job: c.recognize(o.started, c.round.Ledger, t.Name), Object: o.started}
			f.Step = &runs.Step{Action: runs.Nothing}
		case errors.Is(o.err, errStale):
			failed = o.err
		case step.Action == runs.Adjust && apierrors.IsConflict(o.err):
			c.requeueAfter(plan.Soon) // another Job has the name by now, which the cache is about to show
		case errors.As(o.err, &unfinished):
			f.Step = &runs.Step{Action: runs.Nothing, Reason: v1alpha1.ReasonDeleting, Message: unfinished.Error()}
		case o.err != nil:
			f.Failed, f.Unreachable = problemOf(o.err)
			c.requeueAfter(c.Intervals.Failed)
			if !onlyOthersCanFix(o.err) {
				failed = fmt.Errorf("member %s: %w", t.Name, o.err)
			}
		}
	})
	if unfinished != nil || !errors.Is(o.err, errStale) && (step.Action == runs.DeleteJob || step.Action == runs.Cleanup) {
		c.requeueAfter(c.Intervals.Deleting)
	}
	return failed
}

// performOn does one step on one member. It writes to nothing that members share.
func (c *reconciliation) performOn(ctx context.Context, t *plan.Target) (o outcome) {
	m, action, message := c.members[t.Name], "", ""
	switch t.Step.Action {
	case runs.Create:
		o.started, o.err = c.create(ctx, t)
	case runs.DeleteJob:
		action, message = "Delete", t.Step.Message
		if o.err = c.putOnRecord(ctx, t); o.err == nil {
			o.err = m.DeleteRun(ctx, t.Observed.Object)
		}
	case runs.Adjust:
		var job *batchv1.Job
		job, o.err = c.adjust(ctx, m, t)
		switch {
		case t.Step.Reason != v1alpha1.ReasonRunStarted:
			action, message = "Adjust", describeAdjustment(t)
		case o.err == nil:
			o.started = job // which is told when the ledger has it
		}
	case runs.Cleanup:
		if o.err = c.putOnRecord(ctx, t); o.err == nil {
			o.removed, o.err = c.cleanup(ctx, m, c.snapshot.Object, c.round.Ledger)
		}
	default:
	}
	if action != "" && o.err == nil {
		o.event = &plan.Event{Type: "Normal", Reason: t.Step.Reason, Action: action, Member: t.Name, Message: t.Name + ": " + message}
	}
	return o
}

// adjust sets size and suspension of a Job, or releases one that an earlier reconciliation could not release any more.
// That has made no pod, so that any pod of its run is of a Job that was deleted.
func (c *reconciliation) adjust(ctx context.Context, m *clusters.Member, t *plan.Target) (*batchv1.Job, error) {
	if job := t.Observed.Job; job.Unreleased {
		pod, err := m.PodOfRun(ctx, c.keyOn(ctx, m, c.snapshot.Object), job.RunID)
		if err != nil {
			return nil, err
		}
		if pod != "" {
			return nil, &podLeftError{pod}
		}
	}
	return m.AdjustRun(ctx, t.Observed.Object, t.Size, c.decision.Wanted.Suspend)
}

func describeAdjustment(t *plan.Target) string {
	switch t.Step.Reason {
	case v1alpha1.ReasonSuspended:
		return "suspended; its pods end"
	case v1alpha1.ReasonResumed:
		return "resumed"
	default:
		return fmt.Sprintf("resized from %d to %d pods", t.Observed.Job.Size, t.Size)
	}
}
