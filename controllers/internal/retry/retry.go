// Package retry says when controllers try again. What comes in is the error of a reconciliation; what goes out
// is its result, and how retries of one object are spaced.
package retry

import (
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

const (
	// firstDelay and maxDelay bound the exponential backoff after errors.
	firstDelay = 50 * time.Millisecond
	maxDelay   = 30 * time.Second
	// conflictDelay is about the time that a cache takes to catch up with a write.
	conflictDelay = 100 * time.Millisecond
)

// Limiter spaces the retries of one object, so that it is tried again well within a minute of the repair of
// whatever was wrong.
func Limiter[T comparable]() workqueue.TypedRateLimiter[T] {
	return workqueue.NewTypedItemExponentialFailureRateLimiter[T](firstDelay, maxDelay)
}

// OnConflict makes a lost race a reason to reconcile again, not an error: another write came first, and the
// cache will bring it. An object that is no longer there needs no retry.
func OnConflict(err error) (reconcile.Result, error) {
	if apierrors.IsConflict(err) {
		return reconcile.Result{RequeueAfter: conflictDelay}, nil
	}
	return reconcile.Result{}, client.IgnoreNotFound(err)
}
