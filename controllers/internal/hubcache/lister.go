package hubcache

import (
	"context"
	"fmt"
	"sync"

	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Lister lists all objects of a kind as the cache holds them. A client makes a list of copies of them, if shallow ones, which is
// much where each of many reconciliations goes through all.
type Lister[T client.Object] struct {
	indexer toolscache.Indexer
}

// NewLister returns the Lister of a kind that is cached from all namespaces. Where the cache has started it waits until the kind
// has been read.
func NewLister[T client.Object](ctx context.Context, c cache.Cache, kind T) (*Lister[T], error) {
	found, err := c.GetInformer(ctx, kind)
	if err != nil {
		return nil, fmt.Errorf("listing %T: %w", kind, err)
	}
	if own, is := found.(*informer); is {
		found = own.Informer
	}
	shared, is := found.(toolscache.SharedIndexInformer)
	if !is {
		return nil, fmt.Errorf("listing %T: a cache of %T has more than one list", kind, found)
	}
	return &Lister[T]{shared.GetIndexer()}, nil
}

// List returns the objects in no order. They are the cache's own, and not to be changed.
func (l *Lister[T]) List() []T {
	return of[T](l.indexer.List())
}

func of[T client.Object](objects []any) []T {
	out := make([]T, 0, len(objects))
	for _, obj := range objects {
		if item, is := obj.(T); is {
			out = append(out, item)
		}
	}
	return out
}

// Labelled finds objects of a kind by namespace and name, or by the value of one label, as the cache holds them: in a time that does
// not grow with those that are not asked for. The kind is asked for when the first is searched, so that nobody waits for it who
// searches none.
type Labelled[T client.Object] struct {
	cache cache.Cache
	kind  T
	label string

	mu      sync.Mutex
	indexer toolscache.Indexer
}

// NewLabelled returns what finds objects of a kind that is cached from all namespaces. A cache takes one for each kind and label.
func NewLabelled[T client.Object](c cache.Cache, kind T, label string) *Labelled[T] {
	return &Labelled[T]{cache: c, kind: kind, label: label}
}

// List returns the objects of a namespace whose label has a value, in no order. They are the cache's own, and not to be changed.
func (l *Labelled[T]) List(ctx context.Context, namespace, value string) ([]T, error) {
	indexer, err := l.indexed(ctx)
	if err != nil {
		return nil, err
	}
	some, err := indexer.ByIndex(l.index(), namespace+"/"+value)
	if err != nil {
		return nil, fmt.Errorf("listing %T: %w", l.kind, err)
	}
	return of[T](some), nil
}

// Get returns an object, the cache's own, and whether there is one.
func (l *Labelled[T]) Get(ctx context.Context, key types.NamespacedName) (obj T, found bool, err error) {
	indexer, err := l.indexed(ctx)
	if err != nil {
		return obj, false, err
	}
	cached, found, err := indexer.GetByKey(key.String())
	if err != nil || !found {
		return obj, false, err
	}
	obj, found = cached.(T)
	return obj, found, nil
}

func (l *Labelled[T]) index() string { return "label " + l.label }

func (l *Labelled[T]) indexed(ctx context.Context) (toolscache.Indexer, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.indexer != nil {
		return l.indexer, nil
	}
	all, err := NewLister(ctx, l.cache, l.kind)
	if err != nil {
		return nil, err
	}
	err = all.indexer.AddIndexers(toolscache.Indexers{l.index(): func(obj any) ([]string, error) {
		item, is := obj.(T)
		if !is || item.GetLabels()[l.label] == "" {
			return nil, nil
		}
		return []string{item.GetNamespace() + "/" + item.GetLabels()[l.label]}, nil
	}})
	if err != nil {
		return nil, fmt.Errorf("listing %T by label %s: %w", l.kind, l.label, err)
	}
	l.indexer = all.indexer
	return l.indexer, nil
}
