// Package shards says which objects of the hub are of one process: those that bear the label minifleet.dev/shard with its key, or,
// without a key, those that do not bear the label. What is of another shard is read, where that is needed to do nothing to it, and
// never changed but for notes in the status of a MemberCluster.
package shards

import (
	"context"
	"fmt"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/controllers/internal/hubcache"
)

// Kinds are those that are divided, an empty object of each.
func Kinds() []client.Object {
	return []client.Object{
		&v1alpha1.MemberCluster{}, &v1alpha1.Placement{}, &v1alpha1.GitSource{}, &v1alpha1.FleetMiniCluster{}, &v1alpha1.Notification{},
	}
}

// Own selects the objects of a shard; without a key, those of none.
func Own(key string) labels.Selector {
	if key == "" {
		return selector(selection.DoesNotExist)
	}
	return selector(selection.Equals, key)
}

// Others selects the objects of all other shards.
func Others(key string) labels.Selector {
	if key == "" {
		return selector(selection.Exists)
	}
	return selector(selection.NotEquals, key)
}

func selector(op selection.Operator, values ...string) labels.Selector {
	requirement, err := labels.NewRequirement(v1alpha1.LabelShard, op, values)
	if err != nil {
		panic(err) // not reachable: keys are checked before
	}
	return labels.NewSelector().Add(*requirement)
}

// ByObject has a cache hold the objects of one shard alone. The API server selects.
func ByObject(key string) map[client.Object]cache.ByObject {
	out := map[client.Object]cache.ByObject{}
	for _, kind := range Kinds() {
		out[kind] = cache.ByObject{Label: Own(key)}
	}
	return out
}

// Members are the MemberClusters of other shards.
type Members struct {
	// Shard is the key of this process.
	Shard string
	// Cached has those of other shards, as Reduce makes them; Live is the hub itself.
	Cached, Live client.Reader
}

// Find is a MemberCluster that the cache of this process does not have; nil where the hub has none. One of this shard is as
// the hub itself has it: it has just come.
func (m *Members) Find(ctx context.Context, name string) (*v1alpha1.MemberCluster, error) {
	var out v1alpha1.MemberCluster
	err := m.Cached.Get(ctx, client.ObjectKey{Name: name}, &out)
	if apierrors.IsNotFound(err) {
		err = m.Live.Get(ctx, client.ObjectKey{Name: name}, &out)
	}
	if apierrors.IsNotFound(err) {
		return nil, nil //nolint:nilnil // there is none
	}
	if err != nil {
		return nil, fmt.Errorf("reading MemberCluster %s: %w", name, err)
	}
	return &out, nil
}

// List is all of other shards, reduced. They are the cache's own.
func (m *Members) List(ctx context.Context) ([]v1alpha1.MemberCluster, error) {
	var list v1alpha1.MemberClusterList
	if err := m.Cached.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing the MemberClusters of other shards: %w", err)
	}
	return list.Items, nil
}

// Reduce takes from a MemberCluster of another shard what nobody asks of it: its conditions but Ready, and its capacity.
func Reduce(obj any) (any, error) {
	m, ok := obj.(*v1alpha1.MemberCluster)
	if !ok {
		return obj, nil
	}
	m.ManagedFields = nil
	m.Status.Capacity = nil
	if ready := meta.FindStatusCondition(m.Status.Conditions, v1alpha1.ConditionReady); ready != nil {
		kept := *ready
		kept.Message = ""
		m.Status.Conditions = []metav1.Condition{kept}
	}
	return m, nil
}

// NewCache makes the cache of the MemberClusters of other shards. It is added to the manager, which fills it before anything
// is reconciled.
func NewCache(cfg *rest.Config, httpClient *http.Client, scheme *runtime.Scheme, mapper meta.RESTMapper, key string) (*Cache, error) {
	c, err := hubcache.New(cfg, cache.Options{
		HTTPClient: httpClient, Scheme: scheme, Mapper: mapper,
		ByObject: map[client.Object]cache.ByObject{&v1alpha1.MemberCluster{}: {Label: Others(key), Transform: Reduce}},
	})
	if err != nil {
		return nil, fmt.Errorf("making the cache of the MemberClusters of other shards: %w", err)
	}
	if _, err := c.GetInformer(context.Background(), &v1alpha1.MemberCluster{}, cache.BlockUntilSynced(false)); err != nil {
		return nil, fmt.Errorf("watching the MemberClusters of other shards: %w", err)
	}
	return &Cache{c}, nil
}

// Cache is a cache that a manager fills before it starts controllers.
type Cache struct{ cache.Cache }

// GetCache says so to the manager.
func (c *Cache) GetCache() cache.Cache { return c.Cache }
