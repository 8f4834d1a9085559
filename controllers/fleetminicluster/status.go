package fleetminicluster

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/internal/fleet"
	"github.com/minifleet/minifleet/internal/plan"
	"github.com/minifleet/minifleet/internal/sanitize"
)

// writeStatus writes the status if it has changed, and then sends the events. The write fails if anybody else has
// written since the object was read, so that no line of the ledger is ever lost.
func (c *reconciliation) writeStatus(ctx context.Context) error {
	return c.writeIfNew(ctx, c.status())
}

// status is what there is to say by now.
func (c *reconciliation) status() v1alpha1.FleetMiniClusterStatus {
	return c.round.Status(c.snapshot, c.decision, c.podIssues())
}

func (c *reconciliation) writeIfNew(ctx context.Context, status v1alpha1.FleetMiniClusterStatus) error {
	if c.isTold(&status) {
		return nil
	}
	return c.write(ctx, status)
}

// isTold says whether the hub has this status. Then none waits to be written any more.
func (c *reconciliation) isTold(status *v1alpha1.FleetMiniClusterStatus) bool {
	same := equality.Semantic.DeepEqual(status, &c.told)
	if same {
		c.pending.forget(c.key())
	}
	return same
}

func (c *reconciliation) write(ctx context.Context, status v1alpha1.FleetMiniClusterStatus) error {
	object := c.snapshot.Object
	if len(status.Runs) > 0 {
		c.newcomers.forget(object.UID)
	}
	c.expectations.Writing(c.key())
	sent := statusOnly(object, status)
	if err := c.Client.Status().Update(ctx, sent); err != nil {
		c.expectations.Wrote(c.key(), "")
		if apierrors.IsConflict(err) {
			err = fmt.Errorf("%w: %w", errStale, err)
		}
		return err
	}
	object.ResourceVersion, object.Status = sent.ResourceVersion, sent.Status
	if c.expectations.Wrote(c.key(), object.ResourceVersion) {
		c.requeueAfter(plan.Soon)
	}
	c.expectations.Expect(ctx, c.Client, object)
	c.pending.forget(c.key())
	measureStatus(&c.told, &object.Status)
	for _, e := range append(c.events, plan.StatusEvents(&c.told, &object.Status)...) {
		c.send(e)
	}
	c.events, c.told = nil, object.Status
	return nil
}

// statusOnly is what is sent of an object to write its status. A hub takes all else from what it has; to decode a spec, and to
// compare it for its managed fields, costs it as much as the status does.
func statusOnly(object *v1alpha1.FleetMiniCluster, status v1alpha1.FleetMiniClusterStatus) *v1alpha1.FleetMiniCluster {
	return &v1alpha1.FleetMiniCluster{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: object.Namespace, Name: object.Name, UID: object.UID, ResourceVersion: object.ResourceVersion,
		},
		Status: status,
	}
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
