package fleetminicluster

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/internal/fleet"
	"github.com/minifleet/minifleet/internal/plan"
	"github.com/minifleet/minifleet/internal/sanitize"
)

// writeStatus writes the status if it has changed, and then sends the events. The write fails if anybody else has
// written since the object was read, so that no line of the ledger is ever lost.
func (c *reconciliation) writeStatus(ctx context.Context) error {
	object := c.snapshot.Object
	status := c.round.Status(c.snapshot, c.decision, c.podIssues())
	if equality.Semantic.DeepEqual(status, object.Status) {
		return nil
	}
	before := object.Status
	object.Status = status
	if len(status.Runs) > 0 {
		c.newcomers.forget(object.UID)
	}
	c.expectations.Writing(c.key())
	if err := c.Client.Status().Update(ctx, object); err != nil {
		c.expectations.Wrote(c.key(), "")
		object.Status = before // which is what the hub has
		if apierrors.IsConflict(err) {
			err = fmt.Errorf("%w: %w", errStale, err)
		}
		return err
	}
	if c.expectations.Wrote(c.key(), object.ResourceVersion) {
		c.requeueAfter(plan.Soon)
	}
	c.expectations.Expect(ctx, c.Client, object)
	for _, e := range append(c.events, plan.StatusEvents(&before, &object.Status)...) {
		c.send(e)
	}
	c.events = nil
	return nil
}

// podIssues are why pods of live runs are not ready, as members have said when they were last asked.
func (c *reconciliation) podIssues() map[string]*fleet.PodIssue {
	out := map[string]*fleet.PodIssue{}
	for i := range c.round.Targets {
		if t := &c.round.Targets[i]; c.round.Unready(t) {
			out[t.Name] = c.probes.Issue(c.key(), t.Name, c.round.Ledger.Last(t.Name).ID)
		}
	}
	return out
}

// send sends an event about the object.
func (c *reconciliation) send(e plan.Event) {
	c.Recorder.Eventf(c.snapshot.Object, related(e), e.Type, e.Reason, e.Action, "%s", sanitize.Text(e.Message, sanitize.MaxNote))
}

// related is what an event is about besides the hub object. Events that do not differ in it, nor in their
// reason, are counted as one whose text is that of the first.
func related(e plan.Event) runtime.Object {
	if e.Member == "" {
		return nil
	}
	ref := &corev1.ObjectReference{APIVersion: v1alpha1.GroupVersion.String(), Kind: "MemberCluster", Name: e.Member}
	if e.Run != "" {
		ref.FieldPath = "runs{" + e.Run + "}"
	}
	return ref
}
