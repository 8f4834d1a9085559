package fleetminicluster

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"

	fluxv1alpha2 "github.com/minifleet/minifleet/api/flux/v1alpha2"
	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/clusters"
	"github.com/minifleet/minifleet/controllers/fleetminicluster/references"
	"github.com/minifleet/minifleet/controllers/internal/hubobjects"
	"github.com/minifleet/minifleet/internal/plan"
	"github.com/minifleet/minifleet/internal/render"
	"github.com/minifleet/minifleet/internal/runs"
)

// upkeep sees to what is beside the runs: objects that somebody has edited, services, what is left after the end, why
// pods are not ready, and copies of Secrets and ConfigMaps.
func (c *reconciliation) upkeep(ctx context.Context) {
	c.each(func(t *plan.Target, w *maintenance) {
		w.step(func() error { return c.putOnRecord(ctx, t) })
		w.step(func() error { return c.putBackMarks(ctx, t, w) })
		w.step(func() error { return c.repair(ctx, t, w) })
		w.step(func() error { return c.keepServices(ctx, t, w) })
		w.step(func() error { return c.cleanUpEnded(ctx, t, w) })
		w.requeueAfter(c.probe(ctx, t))
	})
	c.each(func(t *plan.Target, w *maintenance) {
		w.step(func() error { return c.followReferences(ctx, t, w) })
	})
}

// maintenance is what upkeep on one member comes to.
type maintenance struct {
	err   error
	again time.Duration
	// remark is something to be told of a member on which nothing is wrong otherwise.
	remark *runs.Step
	events []plan.Event
}

func (w *maintenance) requeueAfter(d time.Duration) { w.again = plan.After(w.again, d) }

// step does something unless something before it has failed.
func (w *maintenance) step(do func() error) {
	if w.err != nil {
		return
	}
	if w.err = do(); errors.Is(w.err, errStale) {
		w.requeueAfter(plan.Soon) // it is tried again when the cache has caught up
		w.err = nil
	}
}

// each does something for every member that can be reached, all at once, so that a slow member delays no other.
func (c *reconciliation) each(do func(*plan.Target, *maintenance)) {
	results := make([]maintenance, len(c.round.Targets))
	var wg sync.WaitGroup
	for i := range c.round.Targets {
		if t := &c.round.Targets[i]; t.Reachable() {
			wg.Go(func() { do(t, &results[i]) })
		}
	}
	wg.Wait()
	for i := range results {
		c.take(&c.round.Targets[i], &results[i])
	}
}

// take notes what upkeep on a member has come to. Events of upkeep tell what was done, whatever the status says.
func (c *reconciliation) take(t *plan.Target, w *maintenance) {
	c.requeueAfter(w.again)
	for _, e := range w.events {
		c.send(e)
	}
	measureRepairs(t.Name, w.events)
	if w.remark != nil && !t.Step.Explained() {
		t.Step.Reason, t.Step.Message = w.remark.Reason, w.remark.Message
	}
	if w.err != nil {
		t.Failed, t.Lost = problemOf(w.err)
		c.learn(t.Name, func(f *plan.Facts) { f.Failed, f.Unreachable, f.Done = t.Failed, t.Lost, true })
		c.requeueAfter(c.Intervals.Failed)
	}
}

func upkeepEvent(t *plan.Target, reason, action, message string) plan.Event {
	return plan.Event{Type: corev1.EventTypeNormal, Reason: reason, Action: action, Member: t.Name, Message: t.Name + ": " + message}
}

// repair puts back what somebody has edited or deleted of the objects that a run needs.
func (c *reconciliation) repair(ctx context.Context, t *plan.Target, w *maintenance) error {
	if !c.round.Repairable(c.snapshot, c.decision, t) {
		return nil
	}
	if left := plan.GraceLeft(c.round.Ledger.Last(t.Name), c.Now()); left > 0 {
		w.requeueAfter(left)
		return nil
	}
	support, err := c.renderCompared(t)
	if err != nil {
		return err
	}
	for i, obj := range support {
		d, err := c.members[t.Name].Compare(ctx, obj, c.origin(c.snapshot.Object))
		if err != nil {
			return err
		}
		if d != clusters.Absent && d != clusters.Drifted {
			continue
		}
		if err := c.putBack(ctx, t, i, d, w); err != nil {
			return err
		}
	}
	return nil
}

// putBack applies one object of a run again.
func (c *reconciliation) putBack(ctx context.Context, t *plan.Target, index int, d clusters.Difference, w *maintenance) error {
	if err := c.confirm(ctx); err != nil {
		return err
	}
	cert, err := c.curveCert(ctx)
	if err != nil {
		return err
	}
	support, err := c.renderSupport(t, cert)
	if err != nil {
		return err
	}
	if err := c.permit(ctx, t); err != nil {
		return err
	}
	obj := support[index]
	changed, err := c.members[t.Name].Apply(ctx, obj, c.origin(c.snapshot.Object))
	if err != nil || !changed {
		return err
	}
	what := "had been edited"
	if d == clusters.Absent {
		what = "had been deleted"
	}
	w.events = append(w.events, upkeepEvent(t, v1alpha1.ReasonDriftRepaired, "Repair",
		fmt.Sprintf("%s %s %s; put back", obj.GetObjectKind().GroupVersionKind().Kind, obj.GetName(), what)))
	return nil
}

// confirm makes sure that what is taken away, or put back, is not that of a run which has begun since the cache was
// filled.
func (c *reconciliation) confirm(ctx context.Context) error {
	err := c.upToDate(ctx)
	if err == nil || errors.Is(err, errStale) {
		return err
	}
	return &hubobjects.Error{Message: "reading the FleetMiniCluster on the hub: " + err.Error()}
}

// keepServices keeps the services pod of a member beside a live run, and takes it away from any other. A run
// of an earlier spec keeps the pod that it has, and gets no new one: what that looked like is not known.
func (c *reconciliation) keepServices(ctx context.Context, t *plan.Target, w *maintenance) error {
	if t.Failure() != nil || t.Observed == nil {
		return nil
	}
	m := c.members[t.Name]
	pod, err := m.ServicesPod(ctx, c.servicesKey(t), c.origin(c.snapshot.Object))
	if err != nil && len(c.snapshot.Object.Spec.MiniCluster.Services) == 0 {
		return nil // somebody else's pod is in nobody's way
	}
	last := c.round.Ledger.Last(t.Name)
	due := runs.ServicesDue(last, t.Observed.Job)
	switch {
	case err != nil:
	case pod == nil && due == runs.ServicesOn && c.decision.Wanted.IsCurrent(last):
		err = c.startServices(ctx, t, last, w)
	case pod != nil && (due == runs.ServicesOff || pod.Labels[v1alpha1.LabelRun] != last.ID || lostWithNode(pod)):
		err = c.stopServices(ctx, m, pod)
	}
	if err != nil {
		return fmt.Errorf("the pod of services: %w", err)
	}
	return nil
}

func (c *reconciliation) stopServices(ctx context.Context, m *clusters.Member, pod *corev1.Pod) error {
	if !pod.DeletionTimestamp.IsZero() {
		return nil
	}
	if err := c.confirm(ctx); err != nil {
		return err
	}
	return m.DeleteServices(ctx, pod)
}

func (c *reconciliation) servicesKey(t *plan.Target) types.NamespacedName {
	return types.NamespacedName{Namespace: t.Namespace, Name: render.ServicesPodName(c.snapshot.Object.Name)}
}

// startServices makes the services pod of a live run anew: it was deleted, or its run was suspended.
func (c *reconciliation) startServices(ctx context.Context, t *plan.Target, last *v1alpha1.Run, w *maintenance) error {
	if spec, err := c.decision.Spec(t.Name, t.Step.Action, c.snapshot.Object); err != nil || len(spec.Services) == 0 {
		return err
	}
	if left := plan.GraceLeft(last, c.Now()); left > 0 {
		w.requeueAfter(left) // the cache may not show it yet
		return nil
	}
	bundle, err := c.render(t, c.placeholder())
	if err != nil || bundle.services == nil {
		return err
	}
	if err := c.confirm(ctx); err != nil {
		return err
	}
	inTheWay, err := c.members[t.Name].StartServices(ctx, bundle.services, c.origin(c.snapshot.Object))
	if inTheWay != "" {
		w.requeueAfter(c.Intervals.Deleting)
	}
	return err
}

// lostWithNode says whether a pod has ended because of its node, and not by itself: then another one takes its
// place, as one of a Job's would.
func lostWithNode(pod *corev1.Pod) bool {
	if pod.Status.Phase != corev1.PodFailed {
		return false
	}
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.DisruptionTarget && condition.Status == corev1.ConditionTrue {
			return true
		}
	}
	return pod.Status.Reason == "Evicted" || pod.Status.Reason == "NodeLost"
}

// cleanUpEnded removes what is left of a run that has ended and is not to be kept.
func (c *reconciliation) cleanUpEnded(ctx context.Context, t *plan.Target, w *maintenance) error {
	if !c.round.CleansUp(c.snapshot, c.decision, t) {
		return nil
	}
	left, err := c.anythingLeft(ctx, t)
	if err != nil || !left {
		return err
	}
	if err := c.confirm(ctx); err != nil {
		return err
	}
	removed, err := c.cleanup(ctx, c.members[t.Name], c.snapshot.Object, c.round.Ledger)
	if !removed {
		w.requeueAfter(c.Intervals.Deleting)
	}
	return err
}

// anythingLeft asks the cache, so that a MiniCluster that was cleaned up costs no requests.
func (c *reconciliation) anythingLeft(ctx context.Context, t *plan.Target) (bool, error) {
	support, err := c.renderCompared(t)
	if err != nil {
		return false, err
	}
	m, origin := c.members[t.Name], c.origin(c.snapshot.Object)
	for _, obj := range support {
		d, err := m.Compare(ctx, obj, origin)
		var conflict *clusters.Conflict
		if errors.As(err, &conflict) {
			continue // somebody else's by now
		}
		if err != nil {
			return false, err
		}
		if d != clusters.Absent {
			return true, nil
		}
	}
	if pod, err := m.ServicesPod(ctx, c.servicesKey(t), origin); err != nil || pod != nil {
		return pod != nil, err
	}
	return c.references.Any(ctx, m, c.user(c.snapshot.Object))
}

// cleanup removes everything of a FleetMiniCluster from a member, copies last, and says whether nothing is
// left, but for the record of its runs. What runs need that have not ended is left alone.
func (r *Reconciler) cleanup(ctx context.Context, m *clusters.Member, fmc *v1alpha1.FleetMiniCluster, ledger runs.Ledger) (removed bool, err error) {
	return r.removeAll(ctx, m, fmc, clusters.Removal{
		Owns: r.origin(fmc).Owns, Jobs: known(ledger, m.Name), Over: ledger.Ended, KeepRecord: true,
	})
}

func (r *Reconciler) removeAll(ctx context.Context, m *clusters.Member, fmc *v1alpha1.FleetMiniCluster, what clusters.Removal) (removed bool, err error) {
	keys := []types.NamespacedName{r.keyOn(ctx, m, fmc)}
	if !what.KeepRecord { // which may be where it ran before
		keys = m.KeysOf(ctx, fmc, r.origin(fmc))
	}
	for _, key := range keys {
		if removed, err = m.Cleanup(ctx, key, what); err != nil || !removed {
			return removed, err
		}
	}
	refs := fluxv1alpha2.References(&fmc.Spec.MiniCluster, field.NewPath("spec", "miniCluster"))
	var namespaces []string
	for _, key := range keys {
		namespaces = append(namespaces, key.Namespace)
	}
	err = r.references.ReleaseAll(ctx, m, r.user(fmc), namespaces, len(refs))
	return err == nil, err
}

// followReferences keeps the copies of Secrets and ConfigMaps on a member.
func (c *reconciliation) followReferences(ctx context.Context, t *plan.Target, w *maintenance) error {
	if !t.FollowsReferences() {
		return nil
	}
	last := c.round.Ledger.Last(t.Name)
	uses := references.Uses{
		Of: func(kind, name string, noted, offered bool) plan.Use {
			return c.round.UseOf(c.decision, t, kind, name, noted, offered)
		},
		Live: last != nil && !last.State.Ended(), Confirm: c.confirm,
		Permit: func(ctx context.Context) error { return c.permit(ctx, t) },
	}
	if c.round.UsesReferences(c.decision, t) {
		uses.Needed = c.decision.Variants.For(t.Name).References
	}
	result, err := c.references.Maintain(ctx, c.members[t.Name], c.user(c.snapshot.Object), uses)
	w.requeueAfter(result.After)
	if r := result.Remark; r != nil {
		w.remark = &runs.Step{Reason: r.Reason, Message: r.Message}
	}
	for _, change := range result.Changes {
		w.events = append(w.events, upkeepEvent(t, change.Reason, "Propagate", change.Message))
	}
	return err
}
