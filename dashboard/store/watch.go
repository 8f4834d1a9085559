package store

import (
	"context"

	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/minifleet/minifleet/api/v1alpha1"
)

// Watch has the informers of a cache feed the store. The function that it returns says whether the store has all that was
// there at first.
func (s *Store) Watch(ctx context.Context, c cache.Cache) (filled func() bool, err error) {
	var registered []toolscache.ResourceEventHandlerRegistration
	for _, w := range []struct {
		kind        client.Object
		set, remove func(any)
	}{
		// Members and sources first, so that rows are computed once.
		{&v1alpha1.MemberCluster{}, on(s.SetMember), on(func(m *v1alpha1.MemberCluster) { s.DeleteMember(m.Name) })},
		{&v1alpha1.GitSource{}, on(s.SetSource), on(func(g *v1alpha1.GitSource) { s.DeleteSource(client.ObjectKeyFromObject(g)) })},
		{&v1alpha1.FleetMiniCluster{}, on(s.SetMiniCluster), on(func(f *v1alpha1.FleetMiniCluster) { s.DeleteMiniCluster(client.ObjectKeyFromObject(f)) })},
	} {
		informer, err := c.GetInformer(ctx, w.kind, cache.BlockUntilSynced(false))
		if err != nil {
			return nil, err
		}
		r, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
			AddFunc: w.set, UpdateFunc: func(_, obj any) { w.set(obj) }, DeleteFunc: w.remove,
		})
		if err != nil {
			return nil, err
		}
		registered = append(registered, r)
	}
	return func() bool {
		for _, r := range registered {
			if !r.HasSynced() {
				return false
			}
		}
		return true
	}, nil
}

// on calls a function with objects of a type. What was deleted while nobody watched comes wrapped.
func on[T client.Object](f func(T)) func(any) {
	return func(obj any) {
		if missed, ok := obj.(toolscache.DeletedFinalStateUnknown); ok {
			obj = missed.Obj
		}
		if o, ok := obj.(T); ok {
			f(o)
		}
	}
}
