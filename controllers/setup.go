package controllers

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	mcmanager "sigs.k8s.io/multicluster-runtime/pkg/manager"
	mcreconcile "sigs.k8s.io/multicluster-runtime/pkg/reconcile"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/clusters"
	"github.com/minifleet/minifleet/clusters/clusterprofile"
	"github.com/minifleet/minifleet/clusters/credentialplugin"
	"github.com/minifleet/minifleet/controllers/fleetminicluster"
	"github.com/minifleet/minifleet/controllers/gitsource"
	"github.com/minifleet/minifleet/controllers/internal/commits"
	"github.com/minifleet/minifleet/controllers/internal/curvesecret"
	"github.com/minifleet/minifleet/controllers/internal/enforcement"
	"github.com/minifleet/minifleet/controllers/internal/events"
	"github.com/minifleet/minifleet/controllers/internal/hubcache"
	"github.com/minifleet/minifleet/controllers/internal/identity"
	"github.com/minifleet/minifleet/controllers/internal/inflight"
	"github.com/minifleet/minifleet/controllers/internal/metrics"
	"github.com/minifleet/minifleet/controllers/internal/metricsauth"
	"github.com/minifleet/minifleet/controllers/internal/shards"
	"github.com/minifleet/minifleet/controllers/membercluster"
	"github.com/minifleet/minifleet/controllers/notification"
	"github.com/minifleet/minifleet/gitsource/fetch"
	"github.com/minifleet/minifleet/gitsource/overlay/build"
	"github.com/minifleet/minifleet/gitsource/receiver"
	"github.com/minifleet/minifleet/internal/policy"
	"github.com/minifleet/minifleet/internal/queue"
	"github.com/minifleet/minifleet/internal/tenant"
)

// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch
// +kubebuilder:rbac:groups="",namespace=system,resources=secrets,verbs=get;list;watch
// +kubebuilder:rbac:groups="",namespace=system,resources=events,verbs=create;patch
// +kubebuilder:rbac:groups=coordination.k8s.io,namespace=system,resources=leases,verbs=get;create;update

// maxGitTimeout is the upper bound of a GitSource's spec.timeout, which each fetch is given.
const maxGitTimeout = 10 * time.Minute

// Options of the manager.
type Options struct {
	// Namespace is the manager's own, which holds the members' kubeconfigs and the lease.
	Namespace string
	// Shard is the value of the label minifleet.dev/shard of the objects that this process takes; empty takes those without
	// the label. Each shard has a lease of its own.
	Shard string
	// LeaderElection makes a second manager wait until the first has ended.
	LeaderElection bool
	// MetricsAddress and ProbeAddress are HOST:PORT; "0" turns the server off.
	MetricsAddress, ProbeAddress string
	// PprofAddress is HOST:PORT of Go's profiles; empty is none.
	PprofAddress string
	// MetricsSecure serves metrics over TLS, and to those whom the hub lets get /metrics. MetricsCertDir has tls.crt and
	// tls.key; without these the certificate is self-signed.
	MetricsSecure  bool
	MetricsCertDir string
	// Workers is how many FleetMiniClusters are reconciled at once.
	Workers int
	// FollowInterval is how often the hub's Secrets and ConfigMaps that live runs have copies of are read.
	FollowInterval time.Duration
	// Git says what GitSources may do.
	Git GitOptions
	// Notifications says what Notifications may do.
	Notifications NotificationOptions
	// Webhooks is what has the hooks of GitSources, to be served by the caller; nil for a hub that does not listen for them.
	Webhooks *receiver.Server
	// DefaultMaxPriority is the highest priority of a FleetMiniCluster that counts among those of other namespaces, where its
	// namespace says nothing.
	DefaultMaxPriority int32
	// IntervalScale multiplies the intervals after which something is tried again or reported although nothing happens;
	// 0 is 1. It is for tests that would otherwise wait for them. What somebody has set in an object stays as it is, and
	// so do the margins that decisions rest on: timeouts of requests, how far caches may be behind, and by how much
	// clocks may differ.
	IntervalScale float64
	// Reserved are patterns of namespaces of members that nobody uses, beside the manager's own; nil is the default.
	Reserved tenant.Reserved
	// MemberLimitFactor multiplies what a member may answer before it is quarantined; 0 is 1.
	MemberLimitFactor float64
	// MemberConnects is how many members are connected at once; 0 is no bound.
	MemberConnects int
	// ClusterProfiles says how members are reached that have a ClusterProfile; nil for a hub that does without.
	ClusterProfiles *ClusterProfileOptions
	// Policy is what takes a permission.
	Policy policy.Rules
	// AllowUnenforced has what GitSources allow count on a hub without the admission policy that says who may write it.
	AllowUnenforced bool
	// Now is the clock.
	Now func() time.Time
}

// GitOptions say what GitSources may do. The addresses of the hub's own Services are refused besides.
type GitOptions struct {
	Network  fetch.Network
	Settings gitsource.Settings
	// StoreBytes is fetch.Fetcher.StoreBytes.
	StoreBytes int64
	// BuildCommand starts the process that builds an overlay (package build).
	BuildCommand []string
}

// ClusterProfileOptions say which credential plugins there are.
type ClusterProfileOptions struct {
	// Namespace is that of the ClusterProfiles; empty for the manager's own.
	Namespace string
	Providers *clusterprofile.Providers
	// Environment is what every plugin gets, NAME=VALUE, and Timeout how long one may take.
	Environment []string
	Timeout     time.Duration
}

// NotificationOptions say what Notifications may do. They send to no address that GitSources may not read from, but to those
// in Allowed.
type NotificationOptions struct {
	// Off sends nothing.
	Off     bool
	Allowed []netip.Prefix
	// Dashboard is the URL by which browsers reach the dashboard; empty: messages have no links.
	Dashboard string
}

// Manager runs all controllers. What else it has is for those who tell people of it; it is filled once this manager leads.
type Manager struct {
	mcmanager.Manager
	// Members are the connections to members.
	Members *clusters.Provider
	// Queue is who has reserved room on members, and who waits for some.
	Queue *queue.Queue
	// FleetID is the identity of the fleet.
	FleetID string
}

func (o *Options) reserved() tenant.Reserved {
	out := o.Reserved
	if out == nil {
		out = tenant.DefaultReserved
	}
	return append(slices.Clone(out), o.Namespace)
}

func (o *Options) scale() float64 {
	if o.IntervalScale == 0 {
		return 1
	}
	return o.IntervalScale
}

// NewScheme returns a scheme with everything that the hub reads and writes.
func NewScheme() (*runtime.Scheme, error) {
	scheme := runtime.NewScheme()
	if err := clientgoscheme.AddToScheme(scheme); err != nil {
		return nil, err
	}
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		return nil, err
	}
	return scheme, nil
}

// NewManager connects to the hub and sets all controllers up. The manager is not started.
func NewManager(ctx context.Context, cfg *rest.Config, o Options) (*Manager, error) {
	scheme, err := NewScheme()
	if err != nil {
		return nil, err
	}
	cfg = rest.CopyConfig(cfg)
	cfg.QPS = -1 // the server's own flow control is the limit
	// It takes an API server that is near longer to compress a list than to send it.
	cfg.DisableCompression = true
	cfg.UserAgent = clusters.UserAgent(o.Shard)
	connections := &notifiers{}
	local, err := manager.New(cfg, managerOptions(o, scheme))
	if err != nil {
		return nil, fmt.Errorf("setting up the manager: %w", err)
	}
	others, err := shards.NewCache(cfg, local.GetHTTPClient(), scheme, local.GetRESTMapper(), o.Shard)
	if err != nil {
		return nil, err
	}
	if err := local.Add(others); err != nil {
		return nil, err
	}
	elsewhere := &shards.Members{Shard: o.Shard, Cached: others, Live: local.GetAPIReader()}
	provider := clusters.NewProvider(local.GetLogger().WithName("clusters"), o.Now, connections.notify)
	provider.SetIntervals(clusters.DefaultIntervals().Scale(o.scale()))
	provider.SetLimits(clusters.DefaultLimits().Scale(cmp.Or(o.MemberLimitFactor, 1)))
	provider.SetConnects(o.MemberConnects)
	mgr, err := mcmanager.WithMultiCluster(local, provider)
	if err != nil {
		return nil, err
	}
	who, err := identity.Load(ctx, identity.Options{
		Reader: local.GetAPIReader(), Writer: local.GetClient(), Namespace: o.Namespace,
		Recorder: local.GetEventRecorder("minifleet"), Log: local.GetLogger().WithName("identity"), Now: o.Now,
	})
	if err != nil {
		return nil, err
	}
	provider.SetHub(who)
	m := &Manager{Manager: mgr, Members: provider, Queue: queue.New(), FleetID: who.FleetID()}
	network := &o.Git.Network
	network.Refused = slices.Concat(network.Refused, hubAddresses(ctx, local.GetAPIReader(), cfg.Host, local.GetLogger().WithName("gitsource")))
	if err := setUpControllers(m, connections, who, elsewhere, o); err != nil {
		return nil, err
	}
	if err := hubcache.Prime(ctx, local.GetCache(), watched()...); err != nil {
		return nil, err
	}
	return m, errors.Join(local.AddHealthzCheck("ping", healthz.Ping), local.AddReadyzCheck("caches", cachesFilled(local.GetCache())))
}

// watched are the kinds of the hub that controllers watch.
func watched() []client.Object {
	return []client.Object{
		&v1alpha1.FleetMiniCluster{}, &v1alpha1.MemberCluster{}, &v1alpha1.Placement{}, &v1alpha1.GitSource{}, &v1alpha1.Notification{},
		&corev1.Namespace{}, &corev1.Secret{},
	}
}

// cachesFilled is ready when the hub's objects have been read, whether or not this manager leads.
func cachesFilled(c cache.Cache) healthz.Checker {
	return func(req *http.Request) error {
		ctx, cancel := context.WithTimeout(req.Context(), time.Second)
		defer cancel()
		if !hubcache.Filled(ctx, c) {
			return errors.New("the hub's objects have not been read yet")
		}
		return nil
	}
}

func managerOptions(o Options, scheme *runtime.Scheme) manager.Options {
	return manager.Options{
		Scheme:                        scheme,
		LeaderElection:                o.LeaderElection,
		LeaderElectionID:              v1alpha1.ControllerLease(o.Shard),
		LeaderElectionNamespace:       o.Namespace,
		LeaderElectionReleaseOnCancel: true,
		Metrics:                       metricsOptions(o),
		HealthProbeBindAddress:        o.ProbeAddress,
		PprofBindAddress:              o.PprofAddress,
		NewCache:                      hubcache.New,
		Cache: cache.Options{
			DefaultTransform: hubcache.Compact(),
			ByObject:         cachedObjects(o),
		},
		// Other Secrets are read one by one, when they are needed.
		Client: client.Options{Cache: &client.CacheOptions{DisableFor: []client.Object{&corev1.Secret{}}}},
	}
}

// cachedObjects are what of the hub's objects is watched where that is not all: those of the shard, and of all Secrets only
// the kubeconfigs. The certificates beside them are many.
func cachedObjects(o Options) map[client.Object]cache.ByObject {
	out := shards.ByObject(o.Shard)
	out[&corev1.Secret{}] = cache.ByObject{Namespaces: map[string]cache.Config{o.Namespace: {
		FieldSelector: fields.OneTermNotEqualSelector("type", string(curvesecret.Type)),
	}}}
	return out
}

func metricsOptions(o Options) metricsserver.Options {
	out := metricsserver.Options{BindAddress: o.MetricsAddress}
	if o.MetricsSecure {
		out.SecureServing, out.CertDir = true, o.MetricsCertDir
		out.FilterProvider = metricsauth.Provider(o.Now)
		// Streams that are opened and reset cost more in HTTP/2 than they bring here.
		out.TLSOpts = []func(*tls.Config){func(c *tls.Config) { c.NextProtos = []string{"http/1.1"} }}
	}
	return out
}

// notifiers bring changes of connections to controllers: all of them to that of MemberClusters, and those of
// reachability to that of FleetMiniClusters, too.
type notifiers struct {
	members events.Notifier[reconcile.Request]
	fleet   events.Notifier[mcreconcile.Request]
	sources events.Notifier[reconcile.Request]
}

func (n *notifiers) notify(member string, reachability bool) {
	n.members.Notify(member)
	if reachability {
		n.fleet.Notify(member)
	}
}

// everyMember stands for what concerns all FleetMiniClusters, whatever they have on which members.
const everyMember = ""

// notifyAll has a change of everyMember reconcile every FleetMiniCluster.
func (n *notifiers) notifyAll(hub client.Reader) {
	ofMember := n.fleet.Requests
	n.fleet.Requests = func(ctx context.Context, member string) []mcreconcile.Request {
		if member != everyMember {
			return ofMember(ctx, member)
		}
		var list v1alpha1.FleetMiniClusterList
		if err := hub.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
			return nil // a list from memory does not fail
		}
		out := make([]mcreconcile.Request, 0, len(list.Items))
		for i := range list.Items {
			out = append(out, mcreconcile.Request{Request: reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&list.Items[i])}})
		}
		return out
	}
}

// setUpProfiles has members reached by ClusterProfiles, where that is configured.
func setUpProfiles(mgr *Manager, members *membercluster.Reconciler, o Options) error {
	if o.ClusterProfiles == nil {
		return nil
	}
	local := mgr.GetLocalManager()
	hub, err := dynamic.NewForConfigAndClient(local.GetConfig(), local.GetHTTPClient())
	if err != nil {
		return fmt.Errorf("setting up a client for ClusterProfiles: %w", err)
	}
	mgr.Members.SetPlugins(&credentialplugin.Runner{Environment: o.ClusterProfiles.Environment, Timeout: o.ClusterProfiles.Timeout, Now: o.Now})
	members.Profiles = membercluster.NewClusterProfiles(hub, cmp.Or(o.ClusterProfiles.Namespace, o.Namespace), o.ClusterProfiles.Providers,
		o.scale(), local.GetLogger().WithName("clusterprofiles"))
	return nil
}

func setUpControllers(mgr *Manager, connections *notifiers, who *identity.Identity, elsewhere *shards.Members, o Options) error {
	local := mgr.GetLocalManager()
	recorder := local.GetEventRecorder("minifleet")
	tracker, arrivals, applied := &inflight.Tracker{}, &metrics.Arrivals{}, &commits.Tracker{}
	if err := local.Add(who.Lead()); err != nil {
		return fmt.Errorf("setting up the identity of the fleet: %w", err)
	}
	if err := local.Add(&metrics.State{
		Hub: local.GetClient(), Members: mgr.Members, Queue: mgr.Queue, Arrivals: arrivals, Now: o.Now, Log: local.GetLogger().WithName("metrics"),
	}); err != nil {
		return fmt.Errorf("setting up metrics: %w", err)
	}
	enforced := &enforcement.Checker{
		Reader: local.GetAPIReader(), Waived: o.AllowUnenforced, Interval: time.Duration(float64(enforcement.Interval) * o.scale()), Now: o.Now,
		Changed: func() {
			connections.sources.Notify(everyMember)
			connections.fleet.Notify(everyMember)
		},
		Announce: announcePolicy(local.GetLogger().WithName("policy"), recorder,
			&corev1.ObjectReference{APIVersion: "v1", Kind: "ConfigMap", Namespace: o.Namespace, Name: v1alpha1.FleetConfigMap}, o.AllowUnenforced),
	}
	if err := local.Add(enforced); err != nil {
		return fmt.Errorf("watching the admission policy: %w", err)
	}
	members := &membercluster.Reconciler{
		Client: local.GetClient(), Cache: local.GetCache(), APIReader: local.GetAPIReader(), Provider: mgr.Members, Namespace: o.Namespace,
		Elsewhere: elsewhere,
		FleetID:   who.FleetID(), Identity: who, Recorder: recorder, Now: o.Now, InFlight: tracker, Intervals: membercluster.DefaultIntervals().Scale(o.scale()),
	}
	if err := setUpProfiles(mgr, members, o); err != nil {
		return err
	}
	mgr.Members.SetAdmission(members.Admit)
	mgr.Members.SetShard(o.Shard, members.TakeOver)
	if err := members.SetUp(local, &connections.members); err != nil {
		return fmt.Errorf("setting up the MemberCluster controller: %w", err)
	}
	if err := mgr.Add(members.WatchJobs(connections.members.Notify)); err != nil {
		return fmt.Errorf("watching Jobs on members: %w", err)
	}
	fleet := fleetminicluster.New(fleetminicluster.Options{
		Client: local.GetClient(), APIReader: local.GetAPIReader(), Provider: mgr.Members, Elsewhere: elsewhere, FleetID: who.FleetID(), HubUID: who.UID(), Namespace: o.Namespace, Unasked: who.Unasked,
		Recorder: recorder, Now: o.Now, FollowInterval: o.FollowInterval, InFlight: tracker, Reserved: o.reserved(),
		Policy: o.Policy, Enforcement: enforced, DefaultMaxPriority: o.DefaultMaxPriority,
		Queue: mgr.Queue, Arrivals: arrivals, Commits: applied, Intervals: fleetminicluster.DefaultIntervals().Scale(o.scale()),
	})
	if err := fleet.SetUp(mgr, &connections.fleet, o.Workers); err != nil {
		return fmt.Errorf("setting up the FleetMiniCluster controller: %w", err)
	}
	connections.notifyAll(local.GetClient())
	who.OnChange(func() { connections.fleet.Notify(everyMember) })
	sources := &gitsource.Reconciler{
		Client: local.GetClient(), Live: local.GetAPIReader(), Recorder: recorder, Now: o.Now,
		Fetcher:   &fetch.Fetcher{Timeout: maxGitTimeout, Network: o.Git.Network, StoreBytes: o.Git.StoreBytes},
		Overlays:  &build.Builder{Command: o.Git.BuildCommand},
		Namespace: o.Namespace, Settings: o.Git.Settings, Policy: o.Policy, Enforcement: enforced,
		Webhooks: o.Webhooks, Arrivals: arrivals, Commits: applied, Fleet: hubcache.NewLabelled(local.GetCache(), &v1alpha1.FleetMiniCluster{}, v1alpha1.LabelSource),
		Accounts: &gitsource.Accounts{
			Config: local.GetConfig(), Options: client.Options{Scheme: local.GetScheme(), Mapper: local.GetRESTMapper()},
		},
	}
	if err := sources.SetUp(local, &connections.sources); err != nil {
		return fmt.Errorf("setting up the GitSource controller: %w", err)
	}
	notifications := &notification.Reconciler{
		Client: local.GetClient(), Live: local.GetAPIReader(), Recorder: recorder, Now: o.Now, Namespace: o.Namespace,
		Network:   &fetch.Network{Refused: o.Git.Network.Refused, Allowed: o.Notifications.Allowed},
		Dashboard: o.Notifications.Dashboard, Off: o.Notifications.Off, Intervals: notification.DefaultIntervals().Scale(o.scale()),
	}
	if err := notifications.SetUp(local); err != nil {
		return fmt.Errorf("setting up the Notification controller: %w", err)
	}
	return nil
}
