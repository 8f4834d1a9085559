package gitsource

import (
	"context"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"
)

// triggers bring webhooks to the queue of the controller.
type triggers struct {
	mu    sync.Mutex
	queue workqueue.TypedRateLimitingInterface[reconcile.Request]
}

// source is what the controller watches.
func (t *triggers) source() source.TypedSource[reconcile.Request] {
	return source.TypedFunc[reconcile.Request](func(_ context.Context, q workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.queue = q
		return nil
	})
}

// trigger has a source reconciled after a while. The queue does so once for all that wait, and once more where a reconciliation
// is under way. Before the controller runs there is nothing to miss: it begins with every source.
//
// What waits has a timer, and not a place in the queue: the interval of the source may be due before it, and the queue
// keeps the earlier of two.
func (t *triggers) trigger(name types.NamespacedName, after time.Duration) {
	if after > 0 {
		time.AfterFunc(after, func() { t.trigger(name, 0) })
		return
	}
	t.mu.Lock()
	queue := t.queue
	t.mu.Unlock()
	if queue != nil {
		queue.Add(reconcile.Request{NamespacedName: name})
	}
}
