package clusters

import (
	"context"
	"net/http"
	"slices"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	fakesource "k8s.io/client-go/tools/cache/testing"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/internal/fleet"
)

// cachedCluster has a cache, and reads from nothing else.
type cachedCluster struct {
	cluster.Cluster
	cache cache.Cache
}

func (c *cachedCluster) GetCache() cache.Cache { return c.cache }
func (c *cachedCluster) GetClient() client.Client {
	return &cachedClient{cache: c.cache}
}

type cachedClient struct {
	client.Client
	cache cache.Cache
}

func (c *cachedClient) List(ctx context.Context, list client.ObjectList, o ...client.ListOption) error {
	return c.cache.List(ctx, list, o...)
}

// Jobs are found by their owners in a cache that is filled by then or not, in one for some namespaces as well.
func TestJobsByOwner(t *testing.T) {
	for name, namespaces := range map[string]map[string]cache.Config{"all namespaces": nil, "two namespaces": {"hpc": {}, "physics": {}}} {
		t.Run(name, func(t *testing.T) {
			source := fakesource.NewFakeControllerSource()
			add := func(namespace, name, owner string) {
				source.Add(&batchv1.Job{ObjectMeta: metav1.ObjectMeta{
					Namespace: namespace, Name: name, UID: types.UID(namespace + name), Annotations: fleet.Origin{FleetID: "f", Owner: owner}.Annotations(),
				}})
			}
			add("hpc", "run", "hpc/run")
			add("hpc", "other", "hpc/other")
			m := &Member{}
			c, err := cache.New(&rest.Config{}, cache.Options{
				HTTPClient: http.DefaultClient, Scheme: clientgoscheme.Scheme, Mapper: restMapper(), DefaultNamespaces: namespaces,
				NewInformer: func(_ toolscache.ListerWatcher, obj runtime.Object, _ time.Duration, by toolscache.Indexers) toolscache.SharedIndexInformer {
					i := toolscache.NewSharedIndexInformer(source, obj, 0, by)
					m.indexers.add(obj, i.GetIndexer())
					return i
				},
			})
			if err != nil {
				t.Fatal(err)
			}
			if err := c.IndexField(t.Context(), &batchv1.Job{}, ownerIndex, func(obj client.Object) []string {
				return []string{obj.GetAnnotations()[v1alpha1.AnnotationOwner]}
			}); err != nil {
				t.Fatal(err)
			}
			m.Cluster = &cachedCluster{cache: c}
			go func() { _ = c.Start(t.Context()) }()
			if !c.WaitForCacheSync(t.Context()) {
				t.Fatal("the cache is not filled")
			}
			found := func(owner string) []string {
				var out []string
				jobs, ok := m.jobsOf(t.Context(), owner)
				if !ok {
					t.Error("there is no index")
				}
				for _, job := range jobs {
					out = append(out, job.Namespace+"/"+job.Name)
				}
				return slices.Compact(out) // each namespace of this cache is filled from the same source
			}
			if got := found("hpc/run"); !slices.Equal(got, []string{"hpc/run"}) {
				t.Errorf("found %v", got)
			}
			if got := found("hpc/none"); len(got) > 0 {
				t.Errorf("found %v of one that has none", got)
			}
			if got, want := len(m.jobsByOwner.indexers), max(1, len(namespaces)); got != want {
				t.Errorf("%d informers are asked, and not %d", got, want)
			}
		})
	}
}
