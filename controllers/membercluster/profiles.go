package membercluster

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	toolscache "k8s.io/client-go/tools/cache"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/clusters"
	"github.com/minifleet/minifleet/clusters/clusterprofile"
)

// profilesInterval is how often the hub is asked whether it has ClusterProfiles, until it has.
const profilesInterval = 10 * time.Second

// anyProfile stands for all ClusterProfiles.
const anyProfile = ""

// ClusterProfiles are those of one namespace of the hub, and the credential plugins that they may name. It is run by a manager.
type ClusterProfiles struct {
	namespace string
	providers *clusterprofile.Providers
	interval  time.Duration
	log       logr.Logger
	informer  toolscache.SharedIndexInformer
	list      func(context.Context, metav1.ListOptions) (*unstructured.UnstructuredList, error)
	// changed is called with the name of a ClusterProfile that has changed, or anyProfile.
	changed func(profile string)

	mu      sync.Mutex
	refused string // why ClusterProfiles cannot be read, as far as that is for a person to change
}

// NewClusterProfiles reads the ClusterProfiles of a namespace once it is started. scale multiplies the interval after which a hub
// that has none of that kind is asked again.
func NewClusterProfiles(hub dynamic.Interface, namespace string, providers *clusterprofile.Providers, scale float64, log logr.Logger) *ClusterProfiles {
	resource := hub.Resource(clusterprofile.Resource).Namespace(namespace)
	p := &ClusterProfiles{
		namespace: namespace, providers: providers, interval: time.Duration(scale * float64(profilesInterval)), log: log,
		list: resource.List, changed: func(string) {},
	}
	p.informer = toolscache.NewSharedIndexInformer(toolscache.ToListWatcherWithWatchListSemantics(&toolscache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			list, err := resource.List(ctx, o)
			p.note(err)
			return list, err
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			w, err := resource.Watch(ctx, o)
			p.note(err)
			return w, err
		},
	}, hub), &unstructured.Unstructured{}, 0, toolscache.Indexers{})
	return p
}

// Start waits until the hub has ClusterProfiles, and keeps reading them until ctx ends. It implements manager.Runnable.
func (p *ClusterProfiles) Start(ctx context.Context) error {
	for {
		_, err := p.list(ctx, metav1.ListOptions{Limit: 1})
		p.note(err)
		if err == nil {
			break
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(p.interval):
		}
	}
	if err := p.informer.SetTransform(stripped); err != nil {
		return err // not reachable: it has not begun
	}
	if _, err := p.informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { p.notify(obj) },
		UpdateFunc: func(_, obj any) { p.notify(obj) },
		DeleteFunc: func(obj any) { p.notify(obj) },
	}); err != nil {
		return err // not reachable: it has not ended
	}
	go func() {
		if toolscache.WaitForCacheSync(ctx.Done(), p.informer.HasSynced) {
			p.changed(anyProfile) // those that are not there have had no event
		}
	}()
	p.informer.RunWithContext(ctx)
	return nil
}

// stripped keeps of a ClusterProfile what is read.
func stripped(obj any) (any, error) {
	u, ok := obj.(*unstructured.Unstructured)
	if !ok {
		return obj, nil
	}
	u.SetManagedFields(nil)
	u.SetAnnotations(nil)
	for _, field := range []string{"conditions", "properties", "version"} {
		unstructured.RemoveNestedField(u.Object, "status", field)
	}
	return u, nil
}

func (p *ClusterProfiles) notify(obj any) {
	if deleted, ok := obj.(toolscache.DeletedFinalStateUnknown); ok {
		obj = deleted.Obj
	}
	if u, ok := obj.(*unstructured.Unstructured); ok {
		p.changed(u.GetName())
	}
}

// note remembers whether ClusterProfiles could be read. What may end by itself changes nothing.
func (p *ClusterProfiles) note(err error) {
	refused := ""
	switch {
	case err == nil:
	case apierrors.IsNotFound(err):
		refused = "the hub has no kind ClusterProfile (clusterprofiles.multicluster.x-k8s.io/v1alpha1): install its CustomResourceDefinition"
	case apierrors.IsForbidden(err):
		refused = fmt.Sprintf("the controller may not get, list and watch ClusterProfiles in namespace %s: apply config/cluster-profiles, or bind a role of that kind to it there", p.namespace)
	default:
		return
	}
	p.mu.Lock()
	same := p.refused == refused
	p.refused = refused
	p.mu.Unlock()
	if same {
		return
	}
	if refused != "" {
		p.log.Info(refused)
	}
	p.changed(anyProfile)
}

// access is how to reach the cluster of a ClusterProfile. Where that is not known yet, the error has the reason Connecting.
func (p *ClusterProfiles) access(name string) (*clusters.Access, *clusters.Error) {
	p.mu.Lock()
	refused := p.refused
	p.mu.Unlock()
	if refused != "" {
		return nil, &clusters.Error{Reason: v1alpha1.ReasonClusterProfileMissing, Err: errors.New(refused)}
	}
	if !p.informer.HasSynced() {
		return nil, &clusters.Error{Reason: v1alpha1.ReasonConnecting, Err: errors.New("ClusterProfiles are being read")}
	}
	key := p.namespace + "/" + name
	obj, found, err := p.informer.GetStore().GetByKey(key)
	u, ok := obj.(*unstructured.Unstructured)
	if err != nil || !found || !ok {
		return nil, &clusters.Error{Reason: v1alpha1.ReasonClusterProfileMissing, Err: fmt.Errorf(
			"there is no ClusterProfile %s: have the manager of the cluster make it, or name another one (`kubectl -n %s get clusterprofiles` lists them)", key, p.namespace)}
	}
	var profile clusterprofile.Profile
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &profile); err != nil {
		return nil, refusedProfile(key, errors.New("status cannot be read: it is none of multicluster.x-k8s.io/v1alpha1"))
	}
	access, err := p.providers.Access(&profile)
	if err != nil {
		return nil, refusedProfile(key, err)
	}
	return access, nil
}

func refusedProfile(key string, err error) *clusters.Error {
	return &clusters.Error{Reason: v1alpha1.ReasonClusterProfileRefused, Err: fmt.Errorf("ClusterProfile %s: %s", key, strings.ReplaceAll(err.Error(), "\n", "; "))}
}
