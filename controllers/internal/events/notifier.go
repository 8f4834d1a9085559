// Package events brings events of members to controllers. What comes in is the name of a member of which
// something has changed; what goes out are requests in the queue of a controller.
package events

import (
	"context"
	"slices"
	"sync"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/source"
)

// Notifier queues requests of type T in a controller when something has changed of a member. It never blocks
// whoever calls Notify.
type Notifier[T comparable] struct {
	// Requests are those that a change of a member asks for. It is set before the controller starts.
	Requests func(ctx context.Context, member string) []T

	mu    sync.Mutex
	ctx   context.Context //nolint:containedctx // that of the queue, for the time that it runs
	queue workqueue.TypedRateLimitingInterface[T]
	// before are the members of which it was told before there was a queue.
	before []string
}

// Notify queues the requests for a member. Before the controller runs there is nothing to miss: it begins with
// every object.
func (n *Notifier[T]) Notify(member string) {
	n.mu.Lock()
	ctx, queue := n.ctx, n.queue
	if queue == nil && !slices.Contains(n.before, member) {
		n.before = append(n.before, member)
	}
	n.mu.Unlock()
	if queue != nil {
		n.enqueue(ctx, queue, member)
	}
}

func (n *Notifier[T]) enqueue(ctx context.Context, queue workqueue.TypedRateLimitingInterface[T], member string) {
	for _, request := range n.Requests(ctx, member) {
		queue.Add(request)
	}
}

// Source is what the controller watches.
func (n *Notifier[T]) Source() source.TypedSource[T] {
	return source.TypedFunc[T](func(ctx context.Context, q workqueue.TypedRateLimitingInterface[T]) error {
		n.mu.Lock()
		before := n.before
		n.ctx, n.queue, n.before = ctx, q, nil
		n.mu.Unlock()
		for _, member := range before {
			n.enqueue(ctx, q, member)
		}
		return nil
	})
}
