package fleetminicluster

import (
	"context"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/internal/plan"
	"github.com/minifleet/minifleet/internal/queue"
)

// pendingStatuses are statuses that wait for what comes next, so that the hub is written to once for both. Whatever is decided
// meanwhile is decided on them, and they are written before anything is done that follows from them.
type pendingStatuses struct {
	mu sync.Mutex
	of map[queue.Key]pendingStatus
}

type pendingStatus struct {
	// object is as it is to be written, told the status that the hub has.
	object *v1alpha1.FleetMiniCluster
	told   v1alpha1.FleetMiniClusterStatus
	since  time.Time
}

// on is an object with the status that waits to be written to it, unless the hub has another one by now than that was made of.
func (p *pendingStatuses) on(fmc *v1alpha1.FleetMiniCluster) *v1alpha1.FleetMiniCluster {
	key := client.ObjectKeyFromObject(fmc)
	p.mu.Lock()
	defer p.mu.Unlock()
	have, ok := p.of[key]
	if !ok {
		return fmc
	}
	if have.object.UID != fmc.UID || !equality.Semantic.DeepEqual(have.told, fmc.Status) {
		delete(p.of, key)
		return fmc
	}
	out := fmc.DeepCopy()
	have.object.Status.DeepCopyInto(&out.Status)
	return out
}

// add has a status wait. It returns since when the first of those waits that it replaces.
func (p *pendingStatuses) add(fmc *v1alpha1.FleetMiniCluster, told, status v1alpha1.FleetMiniClusterStatus, now time.Time) (since time.Time) {
	key, object := client.ObjectKeyFromObject(fmc), fmc.DeepCopy()
	object.Status = *status.DeepCopy()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.of == nil {
		p.of = map[queue.Key]pendingStatus{}
	}
	since = now
	if have, ok := p.of[key]; ok {
		since = have.since
	}
	p.of[key] = pendingStatus{object: object, told: *told.DeepCopy(), since: since}
	return since
}

func (p *pendingStatuses) forget(key queue.Key) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.of, key)
}

// take returns all that wait, and forgets them.
func (p *pendingStatuses) take() []*v1alpha1.FleetMiniCluster {
	p.mu.Lock()
	defer p.mu.Unlock()
	var out []*v1alpha1.FleetMiniCluster
	for _, s := range p.of {
		out = append(out, s.object)
	}
	clear(p.of)
	return out
}

// report writes the status at the end of a reconciliation, unless it may wait, what is new in it can wait for what comes next,
// and has not waited for long.
func (c *reconciliation) report(ctx context.Context, may bool) error {
	status := c.status()
	if c.isTold(&status) {
		return nil
	}
	if !may || len(c.events) > 0 || !plan.CanWait(&c.told, &status) {
		return c.write(ctx, status)
	}
	now := c.Now()
	left := c.pending.add(c.snapshot.Object, c.told, status, now).Add(c.Intervals.Starting).Sub(now)
	if left <= 0 {
		return c.write(ctx, status)
	}
	c.requeueAfter(left)
	return nil
}

// flushTimeout bounds how long a manager that ends writes statuses that wait.
const flushTimeout = 5 * time.Second

// flushPoll is between two questions whether all reconciliations have ended.
const flushPoll = 10 * time.Millisecond

// awaitInFlight waits until what is being reconciled has ended, which may have a status wait yet; for flushTimeout at most.
func (r *Reconciler) awaitInFlight(ctx context.Context) {
	mark := r.InFlight.Mark()
	_ = wait.PollUntilContextTimeout(ctx, flushPoll, flushTimeout, true, func(context.Context) (bool, error) { return r.InFlight.DoneBefore(mark), nil })
}

// flushPending writes what waits when the manager ends, while it still leads: who comes next would find all of it out by
// itself, but for a Job that vanishes until then. What another has written meanwhile stays.
func (r *Reconciler) flushPending(ctx context.Context) error {
	<-ctx.Done()
	ctx = context.WithoutCancel(ctx)
	r.awaitInFlight(ctx)
	ctx, cancel := context.WithTimeout(ctx, flushTimeout)
	defer cancel()
	for _, fmc := range r.pending.take() {
		if r.Client.Status().Update(ctx, statusOnly(fmc, fmc.Status)) != nil && ctx.Err() != nil {
			break
		}
	}
	return nil
}
