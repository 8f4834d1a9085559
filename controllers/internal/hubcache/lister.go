package hubcache

import (
	"context"
	"fmt"
	"sync"

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

// Namespaced lists the objects of a kind in one namespace as the cache holds them. The kind is asked for when it is listed first,
// so that nobody waits for it who does not list it.
type Namespaced[T client.Object] struct {
	cache cache.Cache
	kind  T

	mu     sync.Mutex
	lister *Lister[T]
}

// NewNamespaced returns what lists a kind that is cached from all namespaces.
func NewNamespaced[T client.Object](c cache.Cache, kind T) *Namespaced[T] {
	return &Namespaced[T]{cache: c, kind: kind}
}

// List returns the objects of a namespace in no order. They are the cache's own, and not to be changed.
func (n *Namespaced[T]) List(ctx context.Context, namespace string) ([]T, error) {
	l, err := n.listed(ctx)
	if err != nil {
		return nil, err
	}
	some, err := l.indexer.ByIndex(toolscache.NamespaceIndex, namespace)
	if err != nil {
		return nil, fmt.Errorf("listing %T: %w", n.kind, err)
	}
	return of[T](some), nil
}

func (n *Namespaced[T]) listed(ctx context.Context) (*Lister[T], error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.lister == nil {
		l, err := NewLister(ctx, n.cache, n.kind)
		if err != nil {
			return nil, err
		}
		n.lister = l
	}
	return n.lister, nil
}
