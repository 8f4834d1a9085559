package hubcache

import (
	"context"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	toolscache "k8s.io/client-go/tools/cache"
)

// newInformer is toolscache.NewSharedIndexInformer for what is listed at first, rather than streamed. The hub's objects are JSON, of
// which a stream has each in an event that is decoded before it: twice the CPU time.
func newInformer(lw toolscache.ListerWatcher, obj runtime.Object, resync time.Duration, by toolscache.Indexers) toolscache.SharedIndexInformer {
	return toolscache.NewSharedIndexInformer(lists{toolscache.ToListerWatcherWithContext(lw)}, obj, resync, by)
}

// lists lists objects as they are now, page by page, and not as the API server has had them at some time: a ledger from before
// the last writes would have them made again, and refused.
type lists struct {
	toolscache.ListerWatcherWithContext
}

// IsWatchListSemanticsUnSupported has a reflector list.
func (lists) IsWatchListSemanticsUnSupported() bool { return true }

// List implements toolscache.ListerWatcher.
func (l lists) List(o metav1.ListOptions) (runtime.Object, error) {
	return l.ListWithContext(context.Background(), o)
}

// ListWithContext implements toolscache.ListerWithContext.
func (l lists) ListWithContext(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
	if o.ResourceVersion == "0" { // at whatever time
		o.ResourceVersion = ""
	}
	return l.ListerWatcherWithContext.ListWithContext(ctx, o)
}

// Watch implements toolscache.Watcher.
func (l lists) Watch(o metav1.ListOptions) (watch.Interface, error) {
	return l.WatchWithContext(context.Background(), o)
}
