// Package memberwatches brings events of objects on members to a controller. In come members that are connected; out come
// requests in the controller's queue.
package memberwatches

import (
	"context"
	"fmt"
	"slices"

	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/source"
	mchandler "sigs.k8s.io/multicluster-runtime/pkg/handler"
	mcmanager "sigs.k8s.io/multicluster-runtime/pkg/manager"
	"sigs.k8s.io/multicluster-runtime/pkg/multicluster"
	mcreconcile "sigs.k8s.io/multicluster-runtime/pkg/reconcile"
)

// Watches brings what happens to objects on members to a controller. The watches of the multicluster
// builder would leave a goroutine behind for each kind whenever a member connects anew, until the hub ends, and its
// sources have one for each kind as long as the member is connected.
type Watches struct {
	kinds []kind
	// ready is closed when queue, the controller's, is set.
	ready chan struct{}
	queue workqueue.TypedRateLimitingInterface[mcreconcile.Request]
}

// kind is a kind that is watched, and for whom.
type kind struct {
	obj        client.Object
	handler    mchandler.TypedEventHandlerFunc[client.Object, mcreconcile.Request]
	predicates []predicate.Predicate
}

var _ mcmanager.Runnable = (*Watches)(nil)

// New returns Watches of nothing.
func New() *Watches { return &Watches{ready: make(chan struct{})} }

// Add has a kind watched on all members that engage later.
func (w *Watches) Add(obj client.Object, h mchandler.TypedEventHandlerFunc[client.Object, mcreconcile.Request], predicates ...predicate.Predicate) {
	w.kinds = append(w.kinds, kind{obj, h, predicates})
}

// Source is what the controller watches.
func (w *Watches) Source() source.TypedSource[mcreconcile.Request] {
	return source.TypedFunc[mcreconcile.Request](func(_ context.Context, q workqueue.TypedRateLimitingInterface[mcreconcile.Request]) error {
		w.queue = q
		close(w.ready)
		return nil
	})
}

// Start implements mcmanager.Runnable: there is nothing to do before a member engages.
func (w *Watches) Start(ctx context.Context) error {
	<-ctx.Done()
	return nil
}

// Engage implements mcmanager.Runnable: it watches a member until ctx ends. The handlers end with the member's caches.
func (w *Watches) Engage(ctx context.Context, name multicluster.ClusterName, member cluster.Cluster) error {
	select {
	case <-w.ready:
	case <-ctx.Done():
		return ctx.Err()
	}
	for _, k := range w.kinds {
		informer, err := member.GetCache().GetInformer(ctx, k.obj)
		if err != nil {
			return fmt.Errorf("watching member %s: %w", name, err)
		}
		h := &onMember{ctx: ctx, queue: w.queue, handler: k.handler(name, member), predicates: k.predicates}
		if _, err := informer.AddEventHandlerWithResyncPeriod(h, 0); err != nil {
			return fmt.Errorf("watching member %s: %w", name, err)
		}
	}
	return nil
}

// onMember brings the events of one kind on one member, as long as that is connected.
type onMember struct {
	ctx        context.Context //nolint:containedctx // that of the member
	queue      workqueue.TypedRateLimitingInterface[mcreconcile.Request]
	handler    handler.TypedEventHandler[client.Object, mcreconcile.Request]
	predicates []predicate.Predicate
}

// all says whether the member is connected and all predicates let an event through.
func (h *onMember) all(through func(predicate.Predicate) bool) bool {
	return h.ctx.Err() == nil && !slices.ContainsFunc(h.predicates, func(p predicate.Predicate) bool { return !through(p) })
}

// OnAdd implements toolscache.ResourceEventHandler.
func (h *onMember) OnAdd(obj any, initial bool) {
	o, ok := obj.(client.Object)
	e := event.CreateEvent{Object: o, IsInInitialList: initial}
	if ok && h.all(func(p predicate.Predicate) bool { return p.Create(e) }) {
		h.handler.Create(h.ctx, e, h.queue)
	}
}

// OnUpdate implements toolscache.ResourceEventHandler.
func (h *onMember) OnUpdate(before, after any) {
	o, ok1 := before.(client.Object)
	n, ok2 := after.(client.Object)
	e := event.UpdateEvent{ObjectOld: o, ObjectNew: n}
	if ok1 && ok2 && h.all(func(p predicate.Predicate) bool { return p.Update(e) }) {
		h.handler.Update(h.ctx, e, h.queue)
	}
}

// OnDelete implements toolscache.ResourceEventHandler.
func (h *onMember) OnDelete(obj any) {
	unknown, isUnknown := obj.(toolscache.DeletedFinalStateUnknown)
	if isUnknown {
		obj = unknown.Obj
	}
	o, ok := obj.(client.Object)
	e := event.DeleteEvent{Object: o, DeleteStateUnknown: isUnknown}
	if ok && h.all(func(p predicate.Predicate) bool { return p.Delete(e) }) {
		h.handler.Delete(h.ctx, e, h.queue)
	}
}
