package clusters

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	toolscache "k8s.io/client-go/tools/cache"
)

// informer is a SharedIndexInformer for a member at rest: it has the two goroutines of its reflector. That of client-go has
// five, and two more for each handler, so that a slow handler does not keep the others waiting. Here handlers are told one
// after the other by whoever reads the watch; those that members have put something into a queue and return.
type informer struct {
	reflector *toolscache.Reflector
	indexer   toolscache.Indexer
	// session ends when the member is no longer connected, and the informer with it.
	session context.Context //nolint:containedctx // Run is given one that ends when it returns
	synced  chan struct{}   // closed when the handlers were told of all objects that there were at first

	mu       sync.Mutex // held while the contents change, until the handlers have been told
	handlers []*registration
}

var (
	_ toolscache.SharedIndexInformer = (*informer)(nil)
	_ toolscache.Controller          = (*informer)(nil)
)

// newInformer makes an informer of a member that counts on an account what it holds.
func newInformer(session context.Context, member string, a *account, lw toolscache.ListerWatcher, obj runtime.Object, resync time.Duration, by toolscache.Indexers) *informer {
	i := &informer{indexer: toolscache.NewIndexer(toolscache.DeletionHandlingMetaNamespaceKeyFunc, by), session: session, synced: make(chan struct{})}
	i.reflector = toolscache.NewReflectorWithOptions(a.listWatch(lw), obj, a.store(contentsOf{i}), toolscache.ReflectorOptions{ResyncPeriod: resync, Name: member})
	return i
}

// registration is a handler that was added.
type registration struct {
	*informer
	handler toolscache.ResourceEventHandler
	resyncs bool
}

// HasSyncedChecker implements toolscache.ResourceEventHandlerRegistration. A handler is told what there is when it is added.
func (r *registration) HasSyncedChecker() toolscache.DoneChecker { return r.informer }

// AddEventHandler implements toolscache.SharedInformer.
func (i *informer) AddEventHandler(h toolscache.ResourceEventHandler) (toolscache.ResourceEventHandlerRegistration, error) {
	return i.add(h, true)
}

// AddEventHandlerWithResyncPeriod implements toolscache.SharedInformer: the period is that of the informer, or none.
func (i *informer) AddEventHandlerWithResyncPeriod(h toolscache.ResourceEventHandler, period time.Duration) (toolscache.ResourceEventHandlerRegistration, error) {
	return i.add(h, period > 0)
}

// AddEventHandlerWithOptions implements toolscache.SharedInformer.
func (i *informer) AddEventHandlerWithOptions(h toolscache.ResourceEventHandler, o toolscache.HandlerOptions) (toolscache.ResourceEventHandlerRegistration, error) {
	return i.add(h, o.ResyncPeriod == nil || *o.ResyncPeriod > 0)
}

func (i *informer) add(h toolscache.ResourceEventHandler, resyncs bool) (toolscache.ResourceEventHandlerRegistration, error) {
	if i.IsStopped() {
		return nil, errors.New("the member is no longer connected")
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	for _, obj := range i.indexer.List() {
		h.OnAdd(obj, true)
	}
	r := &registration{informer: i, handler: h, resyncs: resyncs}
	i.handlers = append(i.handlers, r)
	return r, nil
}

// RemoveEventHandler implements toolscache.SharedInformer.
func (i *informer) RemoveEventHandler(r toolscache.ResourceEventHandlerRegistration) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.handlers = slices.DeleteFunc(i.handlers, func(one *registration) bool { return one == r })
	return nil
}

// Run implements toolscache.SharedInformer.
func (i *informer) Run(<-chan struct{}) { i.RunWithContext(i.session) }

// RunWithContext implements toolscache.SharedInformer. It does not wait for the end, which takes controller-runtime two
// goroutines for each kind; nor is an informer removed before its session ends.
func (i *informer) RunWithContext(context.Context) { go i.reflector.RunWithContext(i.session) }

// HasSynced implements toolscache.SharedInformer.
func (i *informer) HasSynced() bool { return toolscache.IsDone(i) }

// HasSyncedChecker implements toolscache.SharedInformer.
func (i *informer) HasSyncedChecker() toolscache.DoneChecker { return i }

// Name implements toolscache.DoneChecker.
func (i *informer) Name() string { return i.reflector.Name() + " " + i.reflector.TypeDescription() }

// Done implements toolscache.DoneChecker.
func (i *informer) Done() <-chan struct{} { return i.synced }

// IsStopped implements toolscache.SharedInformer.
func (i *informer) IsStopped() bool { return i.session.Err() != nil }

// LastSyncResourceVersion implements toolscache.SharedInformer.
func (i *informer) LastSyncResourceVersion() string { return i.reflector.LastSyncResourceVersion() }

// GetStore implements toolscache.SharedInformer.
func (i *informer) GetStore() toolscache.Store { return i.indexer }

// GetIndexer implements toolscache.SharedIndexInformer.
func (i *informer) GetIndexer() toolscache.Indexer { return i.indexer }

// AddIndexers implements toolscache.SharedIndexInformer.
func (i *informer) AddIndexers(by toolscache.Indexers) error { return i.indexer.AddIndexers(by) }

// GetController implements toolscache.SharedInformer.
func (i *informer) GetController() toolscache.Controller { return i }

var errNotForMembers = errors.New("informers of members do not have that")

// SetTransform implements toolscache.SharedInformer. What is kept of an object the account says.
func (i *informer) SetTransform(f toolscache.TransformFunc) error {
	if f != nil {
		return errNotForMembers
	}
	return nil
}

// SetWatchErrorHandler implements toolscache.SharedInformer.
func (i *informer) SetWatchErrorHandler(toolscache.WatchErrorHandler) error { return errNotForMembers }

// SetWatchErrorHandlerWithContext implements toolscache.SharedInformer.
func (i *informer) SetWatchErrorHandlerWithContext(toolscache.WatchErrorHandlerWithContext) error {
	return errNotForMembers
}

// contentsOf is what the reflector of an informer writes to.
type contentsOf struct{ *informer }

// Add implements toolscache.ReflectorStore.
func (s contentsOf) Add(obj any) error { return s.Update(obj) }

// Update implements toolscache.ReflectorStore.
func (s contentsOf) Update(obj any) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	before, known, err := s.indexer.Get(obj)
	if err != nil {
		return err
	}
	if err := s.indexer.Update(obj); err != nil {
		return err
	}
	s.tell(before, known, obj, false)
	return nil
}

// tell says that an object was added, or changed where it was known before.
func (s contentsOf) tell(before any, known bool, obj any, first bool) {
	for _, r := range s.handlers {
		if known {
			r.handler.OnUpdate(before, obj)
		} else {
			r.handler.OnAdd(obj, first)
		}
	}
}

// Delete implements toolscache.ReflectorStore.
func (s contentsOf) Delete(obj any) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, known, err := s.indexer.Get(obj)
	if err != nil || !known {
		return err
	}
	if err := s.indexer.Delete(obj); err != nil {
		return err
	}
	s.tellDeleted(obj)
	return nil
}

func (s contentsOf) tellDeleted(obj any) {
	for _, r := range s.handlers {
		r.handler.OnDelete(obj)
	}
}

// Replace implements toolscache.ReflectorStore. Whoever is told of one object finds all others as they are listed, too.
func (s contentsOf) Replace(list []any, version string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := map[string]any{}
	for _, obj := range s.indexer.List() {
		key, err := toolscache.DeletionHandlingMetaNamespaceKeyFunc(obj)
		if err != nil {
			return err
		}
		before[key] = obj
	}
	if err := s.indexer.Replace(list, version); err != nil {
		return err
	}
	first := !s.HasSynced()
	for _, obj := range list {
		key, err := toolscache.DeletionHandlingMetaNamespaceKeyFunc(obj)
		if err != nil {
			return err
		}
		old, known := before[key]
		delete(before, key)
		s.tell(old, known, obj, first)
	}
	for key, obj := range before {
		s.tellDeleted(toolscache.DeletedFinalStateUnknown{Key: key, Obj: obj})
	}
	if first {
		close(s.synced)
	}
	return nil
}

// Resync implements toolscache.ReflectorStore.
func (s contentsOf) Resync() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.handlers {
		if !r.resyncs {
			continue
		}
		for _, obj := range s.indexer.List() {
			r.handler.OnUpdate(obj, obj)
		}
	}
	return nil
}
