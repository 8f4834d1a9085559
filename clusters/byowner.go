package clusters

import (
	"context"
	"slices"
	"sync"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/minifleet/minifleet/api/v1alpha1"
)

// byOwner finds objects in the cache by their FleetMiniCluster. A list by an index of the cache does so too, and takes ten
// times as long where there is nothing, as on nearly all members of a large fleet for any one FleetMiniCluster.
type byOwner struct {
	once     sync.Once
	indexers []toolscache.Indexer // of each namespace that the cache is confined to, or one
}

// of are the objects of an owner, NAMESPACE/NAME, as the cache holds them: they are not to be changed. It is not ok where they
// cannot be found like this.
func (b *byOwner) of(ctx context.Context, m *Member, kind client.Object, owners toolscache.IndexFunc, owner string) (objects []any, ok bool) {
	b.once.Do(func() {
		informer, err := m.GetCache().GetInformer(ctx, kind, cache.BlockUntilSynced(false))
		if err == nil && informer.AddIndexers(toolscache.Indexers{ownerIndex: owners}) == nil {
			b.indexers = m.indexers.of(kind)
		}
	})
	for _, indexer := range b.indexers {
		found, err := indexer.ByIndex(ownerIndex, owner)
		if err != nil {
			return nil, false
		}
		objects = append(objects, found...)
	}
	return objects, len(b.indexers) > 0
}

// indexers are those of the informers of a member, by kind. A cache that is confined to namespaces has an informer for each, of
// which it shows only what all have in common.
type indexers struct {
	mu     sync.Mutex
	byKind map[string][]toolscache.Indexer
}

func (i *indexers) add(kind runtime.Object, indexer toolscache.Indexer) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.byKind == nil {
		i.byKind = map[string][]toolscache.Indexer{}
	}
	i.byKind[typeOf(kind)] = append(i.byKind[typeOf(kind)], indexer)
}

func (i *indexers) of(kind runtime.Object) []toolscache.Indexer {
	i.mu.Lock()
	defer i.mu.Unlock()
	return slices.Clone(i.byKind[typeOf(kind)])
}

// ownerOf is what an object says is its FleetMiniCluster, if it says one.
func ownerOf(obj any) ([]string, error) {
	o, ok := obj.(client.Object)
	if !ok || o.GetAnnotations()[v1alpha1.AnnotationOwner] == "" {
		return nil, nil
	}
	return []string{o.GetAnnotations()[v1alpha1.AnnotationOwner]}, nil
}

// ownerOfRecord is that of a record of runs.
func ownerOfRecord(obj any) ([]string, error) {
	if o, ok := obj.(client.Object); !ok || o.GetLabels()[v1alpha1.LabelRecord] == "" {
		return nil, nil
	}
	return ownerOf(obj)
}

// jobsOf are the Jobs of an owner that the cache shows, in whatever namespace. They are not to be changed. It is not ok where
// there is no index, as in tests without caches.
func (m *Member) jobsOf(ctx context.Context, owner string) (out []*batchv1.Job, ok bool) {
	if found, ok := m.jobsByOwner.of(ctx, m, &batchv1.Job{}, ownerOf, owner); ok {
		for _, obj := range found {
			if job, is := obj.(*batchv1.Job); is {
				out = append(out, job)
			}
		}
		return out, true
	}
	var list batchv1.JobList
	if err := m.GetClient().List(ctx, &list, client.MatchingFields{ownerIndex: owner}, client.UnsafeDisableDeepCopy); err != nil {
		return nil, false
	}
	for i := range list.Items {
		out = append(out, &list.Items[i])
	}
	return out, true
}

// recordsOf are the records of an owner that the cache shows, in whatever namespace. They are not to be changed.
func (m *Member) recordsOf(ctx context.Context, owner string) []*corev1.ConfigMap {
	var out []*corev1.ConfigMap
	if found, ok := m.recordsByOwner.of(ctx, m, &corev1.ConfigMap{}, ownerOfRecord, owner); ok {
		for _, obj := range found {
			if record, is := obj.(*corev1.ConfigMap); is {
				out = append(out, record)
			}
		}
		return out
	}
	var list corev1.ConfigMapList
	if err := m.GetClient().List(ctx, &list, client.MatchingFields{ownerIndex: owner}, client.UnsafeDisableDeepCopy); err != nil {
		return nil // there is no index in tests without caches
	}
	for i := range list.Items {
		out = append(out, &list.Items[i])
	}
	return out
}
