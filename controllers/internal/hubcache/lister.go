package hubcache

import (
	"context"
	"fmt"

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
	all := l.indexer.List()
	out := make([]T, 0, len(all))
	for _, obj := range all {
		if item, is := obj.(T); is {
			out = append(out, item)
		}
	}
	return out
}
