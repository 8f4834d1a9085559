package clusters

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/singleflight"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/discovery"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/internal/tenant"
)

// Time limits of single requests.
const (
	ReadTimeout  = 10 * time.Second
	WriteTimeout = 15 * time.Second
	probeTimeout = 5 * time.Second
)

// syncInterval is how often caches are polled until they have been filled.
const syncInterval = 5 * time.Millisecond

// Member is an engaged member: its client, its caches, and its identity.
type Member struct {
	cluster.Cluster

	// Name of the MemberCluster.
	Name string
	// Spec of the MemberCluster that the connection was made for.
	Spec v1alpha1.MemberClusterSpec
	// UID is the member's identity, Version that of its API server.
	UID, Version string

	session  context.Context //nolint:containedctx // it ends when the member is no longer connected; nil in tests
	cached   context.Context //nolint:containedctx // the caches end with it; nil until they are made
	line     *line
	http     *http.Client
	verified atomic.Int64 // the number of dials after which the identity was last checked
	// verifying has one answer do for all who ask for it at once.
	verifying singleflight.Group
	capacity  *capacity
	meter     *meter
	// credentials are MiniFleet's own there, besides those that a plugin has issued.
	credentials [][]byte
	issued      *issued
	fence       *fence   // nil where the provider has no Hub
	locks       sync.Map // a *sync.Mutex for each name that was ever given to Lock
	// permitted are the times at which namespaces were found to be permitted, by the hub's and the member's.
	permitted sync.Map

	indexers                    indexers
	jobsByOwner, recordsByOwner byOwner
}

func newMember(name string, spec v1alpha1.MemberClusterSpec, cfg *rest.Config, l *line) (*Member, error) {
	m := &Member{Name: name, Spec: spec, line: l, meter: newMeter(l), credentials: credentialsOf(cfg)}
	cfg = rest.CopyConfig(cfg)
	err := m.line.install(cfg)
	if err != nil {
		return nil, &Error{Reason: v1alpha1.ReasonKubeconfigInvalid, Err: errors.New("the kubeconfig's cluster.server cannot be used: set it to https://HOST:PORT")}
	}
	if m.http, err = rest.HTTPClientFor(cfg); err != nil {
		return nil, &Error{Reason: v1alpha1.ReasonKubeconfigInvalid, Err: errors.New("the kubeconfig's certificates or keys cannot be used: embed PEM data that belong together")}
	}
	ours := labels.SelectorFromSet(labels.Set{v1alpha1.LabelManagedBy: v1alpha1.ManagedBy})
	m.Cluster, err = cluster.New(cfg, func(o *cluster.Options) {
		o.Scheme = clientgoscheme.Scheme
		o.HTTPClient = m.http
		o.MapperProvider = func(*rest.Config, *http.Client) (meta.RESTMapper, error) { return restMapper(), nil }
		o.Cache = cache.Options{
			DefaultLabelSelector:        ours,
			ReaderFailOnMissingInformer: true,
			NewInformer: func(lw toolscache.ListerWatcher, obj runtime.Object, resync time.Duration, by toolscache.Indexers) toolscache.SharedIndexInformer {
				i := newInformer(m.cached, m.Name, m.meter.owned(typeOf(obj)), lw, obj, resync, by)
				m.indexers.add(obj, i.GetIndexer())
				return i
			},
		}
		confine(&o.Cache, &spec)
	})
	if err != nil {
		return nil, err
	}
	m.capacity = newCapacity(m)
	return m, nil
}

// confine keeps caches to the namespaces that MiniFleet is confined to, if it is, and to the record of who leads the fleet.
func confine(o *cache.Options, spec *v1alpha1.MemberClusterSpec) {
	only := tenant.Confined(spec)
	if only == nil {
		return
	}
	o.DefaultNamespaces = map[string]cache.Config{}
	for _, namespace := range only {
		o.DefaultNamespaces[namespace] = cache.Config{}
	}
	if at := fenceNamespaceOf(spec); !slices.Contains(only, at) {
		namespaces := maps.Clone(o.DefaultNamespaces)
		namespaces[at] = cache.Config{}
		o.ByObject = map[client.Object]cache.ByObject{&corev1.ConfigMap{}: {Namespaces: namespaces}}
	}
}

// identify asks the member who it is: the UID of kube-system, or, where credentials are confined to one
// namespace and may not read kube-system, the UID of that namespace.
func (m *Member) identify(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	var ns corev1.Namespace
	err := m.GetAPIReader().Get(ctx, client.ObjectKey{Name: identityNamespace}, &ns)
	if apierrors.IsForbidden(err) && m.Spec.Namespace != "" {
		err = m.GetAPIReader().Get(ctx, client.ObjectKey{Name: m.Spec.Namespace}, &ns)
	}
	if err != nil {
		return "", err
	}
	return string(ns.UID), m.line.checkNames(&ns, "GET namespace "+identityNamespace)
}

// Verify makes sure that the other end is still the cluster that was registered, and that no other hub leads the fleet
// there. It costs a request only when there has been a new connection since the last check.
func (m *Member) Verify(ctx context.Context) error {
	if err := m.verifyIdentity(ctx); err != nil {
		return err
	}
	return m.fence.check(ctx)
}

func (m *Member) verifyIdentity(ctx context.Context) error {
	// What others have asked may be older than the connection that is meant here. What is asked after that is answered is not.
	for range 2 {
		if m.isVerified() {
			return nil
		}
		answer := m.verifying.DoChan("", func() (any, error) { return nil, m.readIdentity(context.WithoutCancel(ctx)) })
		select {
		case result := <-answer:
			if result.Err != nil {
				return result.Err
			}
		case <-ctx.Done():
			return connectionError(ctx.Err())
		}
	}
	return nil
}

// readIdentity asks the member who it is.
func (m *Member) readIdentity(ctx context.Context) error {
	dials := m.line.dials.Load()
	uid, err := m.identify(ctx)
	if err != nil {
		return connectionError(err)
	}
	if m.UID != "" && uid != m.UID {
		m.line.doubt()
		return wrongCluster(m.UID, uid)
	}
	if dials == 0 && m.line.dials.Load() == 1 {
		dials = 1 // made for this very question, and there is no other that may have answered it
	}
	m.verified.Store(dials)
	return nil
}

// isVerified says whether there was no new connection since the identity was last checked.
func (m *Member) isVerified() bool {
	dials := m.line.dials.Load()
	return dials > 0 && m.verified.Load() == dials
}

func wrongCluster(want, got string) *Error {
	return &Error{Reason: v1alpha1.ReasonWrongCluster, Err: fmt.Errorf(
		"the kubeconfig leads to another cluster (UID %s) than the one registered under this name (UID %s): correct the kubeconfig, or register the new cluster under a name of its own", got, want)}
}

func (m *Member) serverVersion(ctx context.Context) (string, error) {
	cfg := rest.CopyConfig(m.GetConfig())
	cfg.Timeout = probeTimeout
	dc, err := discovery.NewDiscoveryClientForConfigAndClient(cfg, m.http)
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	body, err := dc.RESTClient().Get().AbsPath("/version").Do(ctx).Raw()
	if err != nil {
		return "", err
	}
	return parseVersion(body)
}

// mayCreateNamespaces says whether a missing namespace is created.
func (m *Member) mayCreateNamespaces() bool {
	return tenant.Confined(&m.Spec) == nil && (m.Spec.CreateNamespaces == nil || *m.Spec.CreateNamespaces)
}

// engage fills the caches. The informers are made before the caches start, so that those who watch them
// later never wait for this member.
func (m *Member) engage(ctx context.Context, timeout time.Duration) error {
	m.cached = ctx
	filled := make([]func() bool, len(owned))
	for i, k := range owned {
		informer, err := m.GetCache().GetInformer(ctx, k.object(), cache.BlockUntilSynced(false))
		if err != nil {
			return err
		}
		filled[i] = informer.HasSynced
	}
	go func() { _ = m.Start(ctx) }() // it ends with its context
	syncing, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	// WaitForCacheSync alone polls ten times a second, which is most of the time that it takes.
	_ = wait.PollUntilContextCancel(syncing, syncInterval, true, func(context.Context) (bool, error) {
		return !slices.ContainsFunc(filled, func(synced func() bool) bool { return !synced() }), nil
	})
	if !m.GetCache().WaitForCacheSync(syncing) {
		return m.syncError(ctx)
	}
	return nil
}

// syncError finds out why the caches do not fill; the caches keep that to themselves.
func (m *Member) syncError(ctx context.Context) error {
	if err := m.checkLists(ctx); err != nil {
		return connectionError(err)
	}
	return &Error{Reason: v1alpha1.ReasonUnreachable, Err: errors.New("the member answers, but its objects could not be listed in time")}
}

// Lock waits until nobody else holds the lock of this name on this member, and returns what gives it back. It is
// for those of this hub who write the same object; names are never forgotten while the member is engaged.
func (m *Member) Lock(name string) (unlock func()) {
	v, _ := m.locks.LoadOrStore(name, &sync.Mutex{})
	lock := v.(*sync.Mutex) //nolint:forcetypeassert // nothing else is stored
	lock.Lock()
	return lock.Unlock
}

func (m *Member) close() { m.http.CloseIdleConnections() }
