// Package expectations keeps FleetMiniClusters as they were written until the cache has them. In come writes and events
// of the cache; out comes the newest that is known.
package expectations

import (
	"context"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/api/equality"
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
	writes  map[types.NamespacedName]*ownWrites
}

// ownWrites are the latest writes of a status.
type ownWrites struct {
	// versions are the resource versions that they came to, the latest last, pending says that there is one more, whose
	// version is not known yet.
	versions []string
	pending  bool
	// seen is the resource version of a change that came meanwhile: that of this write, it may be, or somebody else's.
	seen string
}

// maxWrites is how many writes the cache may be behind without a change being taken for somebody else's.
const maxWrites = 4

// Writing says that a status is about to be written.
func (e *Expectations) Writing(key types.NamespacedName) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.writes == nil {
		e.writes = map[types.NamespacedName]*ownWrites{}
	}
	if e.writes[key] == nil {
		e.writes[key] = &ownWrites{}
	}
	e.writes[key].pending, e.writes[key].seen = true, ""
}

// Wrote says what has become of it: the resource version, empty if it was refused. It returns whether somebody else has
// changed the status meanwhile.
func (e *Expectations) Wrote(key types.NamespacedName, version string) (edited bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	w := e.writes[key]
	if w == nil {
		return false
	}
	w.pending = false
	if version != "" {
		w.versions = append(w.versions, version)
		w.versions = w.versions[max(len(w.versions)-maxWrites, 0):]
	}
	return w.seen != "" && !slices.Contains(w.versions, w.seen)
}

// StatusEdited lets those changes of a status through that somebody else has made.
func (e *Expectations) StatusEdited() predicate.Predicate {
	return predicate.Funcs{
		CreateFunc: func(event.CreateEvent) bool { return false }, DeleteFunc: func(event.DeleteEvent) bool { return false },
		GenericFunc: func(event.GenericEvent) bool { return false },
		UpdateFunc: func(ev event.UpdateEvent) bool {
			before, ok1 := ev.ObjectOld.(*v1alpha1.FleetMiniCluster)
			after, ok2 := ev.ObjectNew.(*v1alpha1.FleetMiniCluster)
			return ok1 && ok2 && !e.own(after) && !equality.Semantic.DeepEqual(before.Status, after.Status)
		},
	}
}

// own says whether an object is as it was last written here, or may be.
func (e *Expectations) own(fmc *v1alpha1.FleetMiniCluster) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	w := e.writes[client.ObjectKeyFromObject(fmc)]
	if w == nil {
		return false
	}
	if slices.Contains(w.versions, fmc.ResourceVersion) {
		return true
	}
	if w.pending {
		w.seen = fmc.ResourceVersion
	}
	return w.pending
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
	delete(e.writes, key)
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
