package controllers

import (
	"context"
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"github.com/minifleet/minifleet/api/v1alpha1"
)

// written remembers each FleetMiniCluster as it was last written, until the cache has it too. A pass that
// follows at once, since a Job has just been created, say, would else begin with what was before the write, do
// it again, and lose the race against itself.
type written struct {
	mu      sync.Mutex
	objects map[types.NamespacedName]*v1alpha1.FleetMiniCluster
}

// note remembers an object as a write has returned it.
func (w *written) note(ctx context.Context, cache client.Reader, fmc *v1alpha1.FleetMiniCluster) {
	key := client.ObjectKeyFromObject(fmc)
	fmc = fmc.DeepCopy()
	fmc.ManagedFields = nil // as in the cache
	w.mu.Lock()
	if w.objects == nil {
		w.objects = map[types.NamespacedName]*v1alpha1.FleetMiniCluster{}
	}
	w.objects[key] = fmc
	w.mu.Unlock()
	var cached v1alpha1.FleetMiniCluster
	if err := cache.Get(ctx, key, &cached); err == nil {
		w.seen(&cached) // its event may have come before
	}
}

// newest is what the cache has or, while that is older, what was written.
func (w *written) newest(cached *v1alpha1.FleetMiniCluster) *v1alpha1.FleetMiniCluster {
	w.mu.Lock()
	defer w.mu.Unlock()
	if fmc := w.objects[client.ObjectKeyFromObject(cached)]; fmc != nil && older(cached, fmc) {
		return fmc.DeepCopy()
	}
	return cached
}

// seen forgets what the cache has.
func (w *written) seen(cached client.Object) {
	key := client.ObjectKeyFromObject(cached)
	w.mu.Lock()
	defer w.mu.Unlock()
	if fmc := w.objects[key]; fmc != nil && !older(cached, fmc) {
		delete(w.objects, key)
	}
}

func (w *written) gone(key types.NamespacedName) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.objects, key)
}

// older says whether a came before b. Versions that cannot be compared are taken for new.
func older(a, b client.Object) bool {
	c, err := resourceversion.CompareResourceVersion(a.GetResourceVersion(), b.GetResourceVersion())
	return err == nil && c < 0
}

// events lets every event through, having taken note of what the cache has by then.
func (w *written) events() predicate.Predicate {
	return predicate.Funcs{
		UpdateFunc: func(e event.UpdateEvent) bool {
			w.seen(e.ObjectNew)
			return true
		},
		DeleteFunc: func(e event.DeleteEvent) bool {
			w.gone(client.ObjectKeyFromObject(e.Object))
			return true
		},
	}
}
