// Package expectations keeps FleetMiniClusters as they were written until the cache has them. In come writes and events
// of the cache; out comes the newest that is known.
package expectations

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

// Expectations are FleetMiniClusters as they were last written, until the cache has them. A reconciliation that
// follows at once, since a Job has just been created, say, would else begin with what was before the write, do it
// again, and lose the race against itself.
type Expectations struct {
	mu      sync.Mutex
	objects map[types.NamespacedName]*v1alpha1.FleetMiniCluster
}

// Expect remembers an object as a write has returned it.
func (e *Expectations) Expect(ctx context.Context, cache client.Reader, fmc *v1alpha1.FleetMiniCluster) {
	key := client.ObjectKeyFromObject(fmc)
	fmc = fmc.DeepCopy()
	fmc.ManagedFields = nil // as in the cache
	e.mu.Lock()
	if e.objects == nil {
		e.objects = map[types.NamespacedName]*v1alpha1.FleetMiniCluster{}
	}
	e.objects[key] = fmc
	e.mu.Unlock()
	var cached v1alpha1.FleetMiniCluster
	if err := cache.Get(ctx, key, &cached); err == nil {
		e.observed(&cached) // its event may have come before
	}
}

// Newest is what the cache has or, while that is older, what was written.
func (e *Expectations) Newest(cached *v1alpha1.FleetMiniCluster) *v1alpha1.FleetMiniCluster {
	e.mu.Lock()
	defer e.mu.Unlock()
	if fmc := e.objects[client.ObjectKeyFromObject(cached)]; fmc != nil && older(cached, fmc) {
		return fmc.DeepCopy()
	}
	return cached
}

// observed forgets what the cache has.
func (e *Expectations) observed(cached client.Object) {
	key := client.ObjectKeyFromObject(cached)
	e.mu.Lock()
	defer e.mu.Unlock()
	if fmc := e.objects[key]; fmc != nil && !older(cached, fmc) {
		delete(e.objects, key)
	}
}

func (e *Expectations) deleted(key types.NamespacedName) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.objects, key)
}

// older says whether a came before b. Versions that cannot be compared are taken for new.
func older(a, b client.Object) bool {
	order, err := resourceversion.CompareResourceVersion(a.GetResourceVersion(), b.GetResourceVersion())
	return err == nil && order < 0
}

// Predicate lets every event through, having taken note of what the cache has by then.
func (e *Expectations) Predicate() predicate.Predicate {
	return predicate.Funcs{
		UpdateFunc: func(ev event.UpdateEvent) bool {
			e.observed(ev.ObjectNew)
			return true
		},
		DeleteFunc: func(ev event.DeleteEvent) bool {
			e.deleted(client.ObjectKeyFromObject(ev.Object))
			return true
		},
	}
}
