// Package memberwatches brings events of objects on members to a controller. In come members that are connected; out come
// requests in the controller's queue.
package memberwatches

import (
	"context"
	"fmt"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/source"
	mchandler "sigs.k8s.io/multicluster-runtime/pkg/handler"
	mcmanager "sigs.k8s.io/multicluster-runtime/pkg/manager"
	"sigs.k8s.io/multicluster-runtime/pkg/multicluster"
	mcreconcile "sigs.k8s.io/multicluster-runtime/pkg/reconcile"
	mcsource "sigs.k8s.io/multicluster-runtime/pkg/source"
)

// Watches brings what happens to objects on members to a controller. The watches of the multicluster
// builder would leave a goroutine behind for each kind whenever a member connects anew, until the hub ends.
type Watches struct {
	kinds []mcsource.SyncingSource[client.Object]
	// ready is closed when queue, the controller's, is set.
	ready chan struct{}
	queue workqueue.TypedRateLimitingInterface[mcreconcile.Request]
}

var _ mcmanager.Runnable = (*Watches)(nil)

// New returns Watches of nothing.
func New() *Watches { return &Watches{ready: make(chan struct{})} }

// Add has a kind watched on all members that engage later.
func (w *Watches) Add(obj client.Object, handler mchandler.TypedEventHandlerFunc[client.Object, mcreconcile.Request], predicates ...predicate.Predicate) {
	w.kinds = append(w.kinds, mcsource.Kind(obj, handler, predicates...))
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

// Engage implements mcmanager.Runnable: it watches a member until ctx ends.
func (w *Watches) Engage(ctx context.Context, name multicluster.ClusterName, member cluster.Cluster) error {
	select {
	case <-w.ready:
	case <-ctx.Done():
		return ctx.Err()
	}
	for _, kind := range w.kinds {
		src, _, err := kind.ForCluster(name, member)
		if err != nil {
			return err
		}
		if err := src.Start(ctx, w.queue); err != nil {
			return fmt.Errorf("watching member %s: %w", name, err)
		}
	}
	return nil
}
