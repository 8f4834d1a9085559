package controllers

import (
	"context"
	"sync"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/source"
)

// notifier carries news of members from their connections to a controller, whose requests are of type T.
// It never blocks those who bring news.
type notifier[T comparable] struct {
	// requests are those that news of a member asks for.
	requests func(ctx context.Context, member string) []T

	mu    sync.Mutex
	ctx   context.Context //nolint:containedctx // that of the queue, for the time that it runs
	queue workqueue.TypedRateLimitingInterface[T]
}

func (n *notifier[T]) notify(member string) {
	n.mu.Lock()
	ctx, queue := n.ctx, n.queue
	n.mu.Unlock()
	if queue == nil {
		return // before the controller runs there is nothing to miss: it begins with every object
	}
	for _, request := range n.requests(ctx, member) {
		queue.Add(request)
	}
}

// source is what the controller watches.
func (n *notifier[T]) source() source.TypedSource[T] {
	return source.TypedFunc[T](func(ctx context.Context, q workqueue.TypedRateLimitingInterface[T]) error {
		n.mu.Lock()
		defer n.mu.Unlock()
		n.ctx, n.queue = ctx, q
		return nil
	})
}
