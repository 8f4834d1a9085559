// Package hubcache fills the caches of the hub's objects, and has whoever waits for that told. In come the kinds that controllers
// watch; out comes a cache like any other.
//
// The libraries' own poll ten times a second, at each of four steps that follow one another in a start.
package hubcache

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// handlerWait is how long a caller is kept who asks whether a handler has been told of everything: as long as it would wait
// before it asks again.
const handlerWait = 100 * time.Millisecond

// Cache is a cache whose callers are told when it is filled.
type Cache struct {
	cache.Cache

	start   sync.Once
	started chan struct{}

	mu sync.Mutex
	// asked are the informers that somebody has asked for, by what they name themselves.
	asked map[string]toolscache.DoneChecker
	// primed are the informers that are to be filled, whoever asks for them.
	primed []toolscache.DoneChecker
	// added are called with objects that are added, by kind.
	added map[string]func(obj any, isInInitialList bool)
}

// New makes a cache of the hub. It is a cache.NewCacheFunc.
func New(cfg *rest.Config, o cache.Options) (cache.Cache, error) {
	o.NewInformer, o.HTTPClient = newInformer, ReadAhead(o.HTTPClient)
	c, err := cache.New(cfg, o)
	if err != nil {
		return nil, err
	}
	return &Cache{Cache: c, started: make(chan struct{}), asked: map[string]toolscache.DoneChecker{}, added: map[string]func(any, bool){}}, nil
}

// Start implements cache.Cache.
func (c *Cache) Start(ctx context.Context) error {
	c.start.Do(func() { close(c.started) })
	return c.Cache.Start(ctx)
}

// Prime has kinds read as soon as the cache starts, all at once, rather than when the first controller asks for each. Nobody
// waits for them who has not asked for them: a kind that cannot be read delays its own controllers alone. One that the hub does
// not have is left out.
func Prime(ctx context.Context, c cache.Cache, kinds ...client.Object) error {
	own, is := c.(*Cache)
	if !is {
		return fmt.Errorf("a cache of %T is not filled before it is asked", c)
	}
	var errs []error
	for _, kind := range kinds {
		inner, err := own.Cache.GetInformer(ctx, kind, cache.BlockUntilSynced(false))
		switch {
		case err == nil:
			own.mu.Lock()
			own.primed = append(own.primed, inner.HasSyncedChecker())
			own.mu.Unlock()
		case !meta.IsNoMatchError(err):
			errs = append(errs, fmt.Errorf("reading %T: %w", kind, err))
		}
	}
	return errors.Join(errs...)
}

// Filled waits for what somebody has asked for and for what was primed, and says whether all of it was read before the context ended.
func Filled(ctx context.Context, c cache.Cache) bool {
	if !c.WaitForCacheSync(ctx) {
		return false
	}
	own, is := c.(*Cache)
	if !is {
		return true
	}
	own.mu.Lock()
	primed := slices.Clone(own.primed)
	own.mu.Unlock()
	return toolscache.WaitFor(ctx, "", primed...)
}

// BeforeAdd has a function told of each object of a kind that is added, and whether it was there when the kind was first read,
// before each handler that is told so. Sources of multicluster-runtime do not tell controllers which of the two it is. It is called
// once for each handler, which may be at the same time and long after one another, and is to be set before the cache starts.
func BeforeAdd(c cache.Cache, kind client.Object, told func(obj any, isInInitialList bool)) error {
	own, is := c.(*Cache)
	if !is {
		return fmt.Errorf("a cache of %T tells nobody before its handlers", c)
	}
	own.mu.Lock()
	defer own.mu.Unlock()
	own.added[fmt.Sprintf("%T", kind)] = told
	return nil
}

// GetInformer implements cache.Cache.
func (c *Cache) GetInformer(ctx context.Context, obj client.Object, opts ...cache.InformerGetOption) (cache.Informer, error) {
	o := &cache.InformerGetOptions{}
	for _, opt := range opts {
		opt(o)
	}
	inner, err := c.Cache.GetInformer(ctx, obj, append(opts[:len(opts):len(opts)], cache.BlockUntilSynced(false))...)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	c.asked[fmt.Sprintf("%T", obj)] = inner.HasSyncedChecker()
	added := c.added[fmt.Sprintf("%T", obj)]
	c.mu.Unlock()
	if c.isStarted() && (o.BlockUntilSynced == nil || *o.BlockUntilSynced) && !toolscache.WaitFor(ctx, "", inner.HasSyncedChecker()) {
		return nil, fmt.Errorf("%T could not be read in time: %w", obj, context.Cause(ctx))
	}
	return &informer{Informer: inner, added: added}, nil
}

func (c *Cache) isStarted() bool {
	select {
	case <-c.started:
		return true
	default:
		return false
	}
}

// WaitForCacheSync implements cache.Cache: it waits for what somebody has asked for.
func (c *Cache) WaitForCacheSync(ctx context.Context) bool {
	select {
	case <-c.started:
	case <-ctx.Done():
		return false
	}
	return toolscache.WaitFor(ctx, "", c.checkers()...)
}

func (c *Cache) checkers() []toolscache.DoneChecker {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := make([]toolscache.DoneChecker, 0, len(c.asked))
	for _, checker := range c.asked {
		out = append(out, checker)
	}
	return out
}

// informer is one whose registrations are prompt.
type informer struct {
	cache.Informer
	added func(obj any, isInInitialList bool) // nil for nobody
}

// after is a handler that is told of what is added after somebody else.
func (i *informer) after(h toolscache.ResourceEventHandler) toolscache.ResourceEventHandler {
	if i.added == nil {
		return h
	}
	return &second{ResourceEventHandler: h, first: i.added}
}

type second struct {
	toolscache.ResourceEventHandler
	first func(obj any, isInInitialList bool)
}

// OnAdd implements toolscache.ResourceEventHandler.
func (s *second) OnAdd(obj any, isInInitialList bool) {
	s.first(obj, isInInitialList)
	s.ResourceEventHandler.OnAdd(obj, isInInitialList)
}

// AddEventHandler implements cache.Informer.
func (i *informer) AddEventHandler(h toolscache.ResourceEventHandler) (toolscache.ResourceEventHandlerRegistration, error) {
	return prompt(i.Informer.AddEventHandler(i.after(h)))
}

// AddEventHandlerWithResyncPeriod implements cache.Informer.
func (i *informer) AddEventHandlerWithResyncPeriod(h toolscache.ResourceEventHandler, d time.Duration) (toolscache.ResourceEventHandlerRegistration, error) {
	return prompt(i.Informer.AddEventHandlerWithResyncPeriod(i.after(h), d))
}

// AddEventHandlerWithOptions implements cache.Informer.
func (i *informer) AddEventHandlerWithOptions(h toolscache.ResourceEventHandler, o toolscache.HandlerOptions) (toolscache.ResourceEventHandlerRegistration, error) {
	return prompt(i.Informer.AddEventHandlerWithOptions(i.after(h), o))
}

// RemoveEventHandler implements cache.Informer.
func (i *informer) RemoveEventHandler(handle toolscache.ResourceEventHandlerRegistration) error {
	if own, is := handle.(*registration); is {
		handle = own.ResourceEventHandlerRegistration
	}
	return i.Informer.RemoveEventHandler(handle)
}

func prompt(inner toolscache.ResourceEventHandlerRegistration, err error) (toolscache.ResourceEventHandlerRegistration, error) {
	if err != nil {
		return nil, err
	}
	return &registration{inner}, nil
}

// registration is that of a handler.
type registration struct {
	toolscache.ResourceEventHandlerRegistration
}

// HasSynced implements toolscache.ResourceEventHandlerRegistration. Who asks does so ten times a second until the answer is
// yes, and is answered when that is so.
func (r *registration) HasSynced() bool {
	timer := time.NewTimer(handlerWait)
	defer timer.Stop()
	select {
	case <-r.HasSyncedChecker().Done():
		return true
	case <-timer.C:
		return r.ResourceEventHandlerRegistration.HasSynced()
	}
}
