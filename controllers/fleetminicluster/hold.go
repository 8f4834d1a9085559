package fleetminicluster

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	mcreconcile "sigs.k8s.io/multicluster-runtime/pkg/reconcile"

	"github.com/minifleet/minifleet/api/v1alpha1"
)

// startQueue holds requests back when the hub starts. A FleetMiniCluster would be reconciled when the hub's objects are read,
// again when the first Job of a member is seen, and again when that member is connected: only the last of these knows enough
// to do anything.
type startQueue struct {
	priorityqueue.PriorityQueue[mcreconcile.Request]
	// hold is for how long a request is to be held back, unless it is made again and is not to be any more.
	hold func(mcreconcile.Request) time.Duration
}

// Add implements workqueue.TypedInterface.
func (q *startQueue) Add(request mcreconcile.Request) {
	q.AddWithOpts(priorityqueue.AddOpts{}, request)
}

// AddWithOpts implements priorityqueue.PriorityQueue. What is to wait anyway, for whatever reason, waits as long as it is told.
func (q *startQueue) AddWithOpts(o priorityqueue.AddOpts, requests ...mcreconcile.Request) {
	if o.After > 0 || o.RateLimited {
		q.PriorityQueue.AddWithOpts(o, requests...)
		return
	}
	for _, request := range requests {
		held := o
		held.After = q.hold(request)
		q.PriorityQueue.AddWithOpts(held, request)
	}
}

// newQueue makes the controller's queue, when the hub starts.
func (r *Reconciler) newQueue(log logr.Logger) func(string, workqueue.TypedRateLimiter[mcreconcile.Request]) workqueue.TypedRateLimitingInterface[mcreconcile.Request] {
	return func(name string, limiter workqueue.TypedRateLimiter[mcreconcile.Request]) workqueue.TypedRateLimitingInterface[mcreconcile.Request] {
		until := sync.OnceValue(func() time.Time { return r.Now().Add(r.Intervals.Start) }) // from the first object on
		return &startQueue{
			PriorityQueue: priorityqueue.New(name, func(o *priorityqueue.Opts[mcreconcile.Request]) {
				o.Log, o.RateLimiter = log.WithValues("controller", name), limiter
			}),
			hold: func(request mcreconcile.Request) time.Duration { return r.holdBack(request, until()) },
		}
	}
}

// holdBack is for how long a FleetMiniCluster is not reconciled because a member that it has something on is neither connected
// nor found to be out of reach. Both have it reconciled.
func (r *Reconciler) holdBack(request mcreconcile.Request, until time.Time) time.Duration {
	left := until.Sub(r.Now())
	if left <= 0 {
		return 0
	}
	ctx := context.Background()
	var fmc v1alpha1.FleetMiniCluster
	if err := r.Client.Get(ctx, request.NamespacedName, &fmc, client.UnsafeDisableDeepCopy); err != nil {
		return 0
	}
	if !slices.ContainsFunc(membersOf(&fmc), func(name string) bool { return r.isBeingConnected(ctx, name) }) {
		return 0
	}
	return left
}

// membersOf are the members that a status tells of.
func membersOf(fmc *v1alpha1.FleetMiniCluster) []string {
	var out []string
	for i := range fmc.Status.Clusters {
		out = append(out, fmc.Status.Clusters[i].Name)
	}
	for i := range fmc.Status.Runs {
		if run := &fmc.Status.Runs[i]; !run.State.Ended() {
			out = append(out, run.Cluster)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// isBeingConnected says whether a member is registered, and its first connection neither made nor failed.
func (r *Reconciler) isBeingConnected(ctx context.Context, name string) bool {
	if state, attempted := r.Provider.State(name); attempted {
		return state.Reason == v1alpha1.ReasonConnecting
	}
	return r.Client.Get(ctx, client.ObjectKey{Name: name}, &v1alpha1.MemberCluster{}, client.UnsafeDisableDeepCopy) == nil
}
