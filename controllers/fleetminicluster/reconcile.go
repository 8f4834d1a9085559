package fleetminicluster

import (
	"context"
	"errors"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	mcreconcile "sigs.k8s.io/multicluster-runtime/pkg/reconcile"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/controllers/internal/retry"
	"github.com/minifleet/minifleet/internal/plan"
	"github.com/minifleet/minifleet/internal/queue"
)

const (
	// maxRounds bounds the rounds of one reconciliation: a run that ends and the next that begins take four.
	maxRounds = 8
	// maxReads bounds how often a plan may ask for more, or lose a race for room, before it is left to the next
	// reconciliation.
	maxReads = 20
)

// Reconcile brings one FleetMiniCluster forward as far as it goes without waiting.
func (r *Reconciler) Reconcile(ctx context.Context, req mcreconcile.Request) (reconcile.Result, error) {
	defer r.InFlight.Start()()
	if err := r.noteVanished(ctx, req.NamespacedName); err != nil {
		return staleOr(err)
	}
	fmc := &v1alpha1.FleetMiniCluster{}
	if err := r.Client.Get(ctx, req.NamespacedName, fmc); err != nil {
		if apierrors.IsNotFound(err) {
			err = r.forget(ctx, req.NamespacedName)
		}
		return reconcile.Result{}, err
	}
	fmc = r.expectations.Newest(fmc)
	if !fmc.DeletionTimestamp.IsZero() {
		r.wake(r.queue.Dequeue(req.NamespacedName))
		return r.finalize(ctx, r.pending.on(fmc))
	}
	if controllerutil.AddFinalizer(fmc, v1alpha1.Finalizer) {
		// Before anything is created on a member, so that nothing can be left behind there.
		if err := r.Client.Update(ctx, fmc); err != nil {
			return retry.OnConflict(err)
		}
	}
	defer r.Commits.Reconciled(sourceOf(fmc), fmc.Annotations[v1alpha1.AnnotationSourceCommit])
	return r.reconcile(ctx, fmc)
}

// sourceOf is the GitSource that a FleetMiniCluster is declared by; without a name where it is by none.
func sourceOf(fmc *v1alpha1.FleetMiniCluster) types.NamespacedName {
	return types.NamespacedName{Namespace: fmc.Namespace, Name: fmc.Labels[v1alpha1.LabelSource]}
}

// forget drops what is remembered of a FleetMiniCluster that was deleted, and removes what has come to members since.
func (r *Reconciler) forget(ctx context.Context, key types.NamespacedName) error {
	r.wake(r.queue.Release(key))
	r.probes.Forget(key)
	r.recorded.forget(key)
	r.pending.forget(key)
	r.releases.forget(key)
	return errors.Join(r.references.ReleaseDeleted(ctx, key), r.removeAllStale(ctx, key))
}

// reconcile brings a FleetMiniCluster forward that is not being deleted.
func (r *Reconciler) reconcile(ctx context.Context, fmc *v1alpha1.FleetMiniCluster) (reconcile.Result, error) {
	began, told := r.Now(), fmc.Status
	fmc = r.pending.on(fmc)
	s, connected, err := r.snapshot(ctx, fmc)
	if err != nil {
		return reconcile.Result{}, err
	}
	if err := r.takeBack(ctx, s); err != nil {
		return retry.OnConflict(err)
	}
	c := &reconciliation{Reconciler: r, snapshot: s, told: told, members: connected, traced: traced{began: began, read: r.Now()}}
	if err := c.decide(ctx); err != nil {
		return staleOr(err)
	}
	c.traced.decided = r.Now()
	if slices.ContainsFunc(s.Members, func(m plan.Member) bool {
		return m.Connection.Reason == v1alpha1.ReasonOtherShard && remembers(m.Cluster, fmc)
	}) {
		c.requeueAfter(r.Intervals.Unreachable) // of what another shard does there no event tells
	}
	if err := c.ensureKey(ctx); err != nil {
		return reconcile.Result{}, err
	}
	execErr := c.execute(ctx)
	c.traced.span.End(execErr)
	if err := c.report(ctx, execErr == nil); err != nil {
		return retry.OnConflict(err)
	}
	c.updateQueue()
	if err := c.releaseElsewhere(ctx); err != nil { // when it is tried again is not known
		execErr = errors.Join(execErr, err, c.writeIfNew(ctx, c.status()))
	}
	if execErr != nil {
		return staleOr(execErr)
	}
	return reconcile.Result{RequeueAfter: c.again}, nil
}

// takeBack takes declarations out of the annotation run-gone that the members have shown not to hold.
func (r *Reconciler) takeBack(ctx context.Context, s *plan.Snapshot) error {
	heard := plan.HeardOf(s)
	if len(heard) == 0 {
		return nil
	}
	s.Object = s.Object.DeepCopy()
	status := s.Object.Status.DeepCopy() // which may wait to be written
	left := plan.WithoutRuns(s.Object.Annotations[v1alpha1.AnnotationRunGone], heard)
	if s.Object.Annotations[v1alpha1.AnnotationRunGone] = left; left == "" {
		delete(s.Object.Annotations, v1alpha1.AnnotationRunGone)
	}
	if err := r.Client.Update(ctx, s.Object); err != nil {
		return err
	}
	s.Object.Status = *status
	for i := range heard {
		r.Recorder.Eventf(s.Object, nil, corev1.EventTypeWarning, v1alpha1.ReasonRunHeardOf, "Observe",
			"%s: run %s is live there; it was declared gone with the annotation %s, from which it is taken: declare it again if the member is lost and you have made sure",
			heard[i].Cluster, heard[i].ID, v1alpha1.AnnotationRunGone)
	}
	return nil
}

// ensureKey makes the certificate when the first run that the ledger holds is adopted or restored, as it is made for one that
// is begun: by that it is known that there have been runs, should the status be lost again. One that an earlier FleetMiniCluster of the
// name has left tells that as well, and is replaced when a run begins: to do it before the status is written could lose both.
func (c *reconciliation) ensureKey(ctx context.Context) error {
	if !plan.KnowsNoRun(c.snapshot.Object) || len(c.decision.Ledger) == 0 {
		return nil
	}
	if kept, err := c.keys.Kept(ctx, c.snapshot.Object); kept || err != nil {
		return err
	}
	_, err := c.curveCert(ctx)
	return err
}

// staleOr makes a stale cache a reason to reconcile again. Whatever else a member answered, be it NotFound or Conflict,
// is no news of the hub's object.
func staleOr(err error) (reconcile.Result, error) {
	if errors.Is(err, errStale) {
		return retry.OnConflict(errStale)
	}
	return reconcile.Result{}, err
}

// decide makes the decision, reads what it asks for, and reserves the room that it takes.
func (c *reconciliation) decide(ctx context.Context) error {
	var d *plan.Decision
	for range maxReads {
		var reads plan.Reads
		d, reads = plan.Decide(c.snapshot, d)
		if reads.Any() {
			if err := c.read(ctx, reads, d.Ledger); err != nil {
				return err
			}
			continue
		}
		if !c.reserve(d.Reserve) {
			continue
		}
		c.decision, c.events = d, d.Events
		c.requeueAfter(d.After)
		c.notifyWhenKnown(d.Line.Notify)
		return nil
	}
	return errStale // others were always faster
}

// reserve takes room. Where others have taken some since it was viewed, nothing is taken, and the views are dropped.
func (c *reconciliation) reserve(requests []queue.Request) bool {
	ok := c.queue.Reserve(c.key(), requests)
	for _, r := range requests {
		f := c.snapshot.Facts[r.View.Member]
		if ok {
			c.snapshot.Queue.Reserved[r.View.Member] = r.Reservation
		} else {
			f.Room, f.RoomBeside = nil, nil
		}
		c.snapshot.Facts[r.View.Member] = f
	}
	return ok
}

// notifyWhenKnown asks to be told when the room of members becomes known. It may have just now.
func (c *reconciliation) notifyWhenKnown(names []string) {
	for _, name := range names {
		c.queue.NotifyWhenKnown(name, c.key())
		if m, ok := c.members[name]; ok && m.RoomState() != c.snapshot.Member(name).Connection.Room {
			c.requeueAfter(plan.Soon)
		}
	}
}

// execute takes rounds until nothing more is to be done now. A line of the ledger is written before anything that it
// calls for is done, and before anything is undone that it remembers.
func (c *reconciliation) execute(ctx context.Context) error {
	c.round = plan.Round{Targets: plan.Targets(c.snapshot, c.decision, c.decision.Ledger), Ledger: c.decision.Ledger}
	if c.decision.Problem != nil && c.decision.Placement == nil {
		return nil
	}
	var errs []error
	unwritten, checked := !slices.EqualFunc(c.decision.Ledger, c.told.Runs, sameRun), false
	for range maxRounds {
		if err := c.next(ctx); err != nil {
			return err
		}
		if len(c.round.Changed) > 0 {
			unwritten = true
			continue
		}
		due := c.round.Due()
		if len(due) == 0 {
			break
		}
		if unwritten {
			if err := c.writeStatus(ctx); err != nil {
				return err
			}
			unwritten, checked = false, true
		}
		if !checked {
			if err := c.upToDate(ctx); err != nil {
				return err
			}
			checked = true
		}
		errs = append(errs, c.perform(ctx, due)...)
	}
	c.upkeep(ctx)
	c.round.Finish(c.snapshot, c.decision)
	c.tell(c.round.Events)
	c.requeueAfter(c.round.After)
	return errors.Join(errs...)
}

func sameRun(a, b v1alpha1.Run) bool { return a.ID == b.ID && a.State == b.State }

// next makes the next round, and takes over what it makes of the ledger.
func (c *reconciliation) next(ctx context.Context) error {
	for range maxReads {
		round, reads := plan.Next(c.snapshot, c.decision, c.round.Ledger)
		if reads.Any() {
			if err := c.read(ctx, reads, c.round.Ledger); err != nil {
				return err
			}
			continue
		}
		if len(round.Reserve) > 0 {
			if c.reserve(round.Reserve) {
				c.admit(round.Targets)
			}
			continue
		}
		c.adopt(round)
		return nil
	}
	return errStale
}

// admit notes which live runs have been given more room.
func (c *reconciliation) admit(targets []plan.Target) {
	for i := range targets {
		if t := &targets[i]; t.Reserve != nil && t.Reserve.Reservation.Run != "" {
			c.learn(t.Name, func(f *plan.Facts) { f.Admitted = true })
		}
	}
}

// adopt takes over a round. Members of which the ledger tells something else now are to be observed anew.
func (c *reconciliation) adopt(round plan.Round) {
	before := c.round.Ledger
	c.round = round
	c.tell(round.Events)
	c.requeueAfter(round.After)
	c.notifyWhenKnown(round.Line.Notify)
	for _, name := range round.Done {
		c.learn(name, func(f *plan.Facts) { f.Done = true })
	}
	for _, name := range round.Changed {
		last := round.Ledger.Last(name)
		begun := last.State == v1alpha1.RunStarting && before.Find(last.ID) == nil
		c.learn(name, func(f *plan.Facts) {
			f.Begun = f.Begun || begun
			if !f.Done {
				f.Observed, f.Exit = nil, nil
			}
		})
	}
}

// updateQueue brings the queue in line with the ledger that was just written, and wakes those whom it concerns.
func (c *reconciliation) updateQueue() {
	reservations, entry := c.round.Reservations(c.snapshot, c.decision)
	c.wake(c.queue.Update(c.key(), reservations, entry))
	if entry != nil && c.snapshot.Queue.Pending == nil {
		c.requeueAfter(plan.Soon) // room that was released before it stood in the line was told to nobody
	}
	c.requeueAfter(c.decision.WaitInterval(c.snapshot))
}

// releaseElsewhere releases copies on members that this object has nothing to do with any more.
func (c *reconciliation) releaseElsewhere(ctx context.Context) error {
	var except []string
	for i := range c.round.Targets {
		if t := &c.round.Targets[i]; !t.Unregistered {
			except = append(except, t.Name)
		}
	}
	return c.references.ReleaseElsewhere(ctx, c.key(), c.user(c.snapshot.Object), except, c.upToDate)
}
