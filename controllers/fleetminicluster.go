package controllers

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	clientevents "k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	mcbuilder "sigs.k8s.io/multicluster-runtime/pkg/builder"
	mchandler "sigs.k8s.io/multicluster-runtime/pkg/handler"
	mcmanager "sigs.k8s.io/multicluster-runtime/pkg/manager"
	"sigs.k8s.io/multicluster-runtime/pkg/multicluster"
	mcreconcile "sigs.k8s.io/multicluster-runtime/pkg/reconcile"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/clusters"
	"github.com/minifleet/minifleet/controllers/internal/allowance"
	"github.com/minifleet/minifleet/controllers/internal/events"
	"github.com/minifleet/minifleet/controllers/internal/inflight"
	"github.com/minifleet/minifleet/controllers/internal/retry"
	"github.com/minifleet/minifleet/clusters/copies"
)

// +kubebuilder:rbac:groups=minifleet.dev,resources=fleetminiclusters,verbs=get;list;watch;update
// +kubebuilder:rbac:groups=minifleet.dev,resources=fleetminiclusters/status,verbs=update
// +kubebuilder:rbac:groups=minifleet.dev,resources=fleetminiclusters/finalizers,verbs=update
// +kubebuilder:rbac:groups=minifleet.dev,resources=placements,verbs=get;list;watch
// +kubebuilder:rbac:groups="",resources=secrets,verbs=get;create

// FleetMiniClusterReconciler puts MiniClusters on members and reports how they do.
type FleetMiniClusterReconciler struct {
	Client client.Client
	// APIReader reads the hub itself, where the cache may be behind.
	APIReader client.Reader
	Provider  *clusters.Provider
	HubUID    string
	Recorder  clientevents.EventRecorder
	Now       func() time.Time
	// Wake has those looked at that wait for room on a member and may have it now. It may be nil.
	Wake func(member string)

	looks           looks
	inflight        *inflight.Tracker
	book            book
	written         written
	placeholderOnce sync.Once
	placeholder     []byte

	// sources are the hub's objects that members have copies of. copiesSeen are the keys of FleetMiniClusters
	// that copies name as their users, until they are looked at.
	sources    *sources
	copiesSeen sync.Map
}

func (r *FleetMiniClusterReconciler) setUp(mgr mcmanager.Manager, news, room *events.Notifier[mcreconcile.Request], workers int) error {
	if err := copies.Index(context.Background(), r.Provider); err != nil {
		return err
	}
	room.Requests, r.Wake = r.waitingOn, room.Notify
	r.Provider.OnRoom(room.Notify)
	news.Requests = func(ctx context.Context, member string) []mcreconcile.Request {
		return requests(r.usersOfMember(ctx, member))
	}
	local := []mcbuilder.WatchesOption{mcbuilder.WithEngageWithLocalCluster(true), mcbuilder.WithEngageWithProviderClusters(false)}
	members := newMemberWatches()
	own := predicate.Or[client.Object](predicate.GenerationChangedPredicate{}, predicate.AnnotationChangedPredicate{})
	b := mcbuilder.ControllerManagedBy(mgr).
		Named("fleetminicluster").
		For(&v1alpha1.FleetMiniCluster{}, mcbuilder.WithEngageWithLocalCluster(true),
			mcbuilder.WithEngageWithProviderClusters(false), mcbuilder.WithPredicates(r.written.events(), own)).
		Watches(&v1alpha1.Placement{}, r.onHub(r.usersOfPlacement), append(local, mcbuilder.WithPredicates(predicate.GenerationChangedPredicate{}))...).
		Watches(&v1alpha1.MemberCluster{}, r.onHub(func(ctx context.Context, m client.Object) []types.NamespacedName {
			return r.usersOfMember(ctx, m.GetName())
		}), append(local, mcbuilder.WithPredicates(memberChanged))...).
		Watches(&v1alpha1.GitSource{}, r.onHub(r.usersOfSource), append(local, mcbuilder.WithPredicates(sourceAllowanceChanged))...).
		Watches(&corev1.Namespace{}, r.onHub(r.usersOfNamespace), append(local, mcbuilder.WithPredicates(allowance.Changed()))...).
		WatchesRawSource(news.Source()).
		WatchesRawSource(room.Source()).
		WatchesRawSource(members.source()).
		WithOptions(controller.TypedOptions[mcreconcile.Request]{
			MaxConcurrentReconciles: workers, RateLimiter: retry.Limiter[mcreconcile.Request](), LogConstructor: quiet(mgr.GetLogger()),
		})
	// Of these the hub need not be told that they are there: it has just made them, or it looks at everything
	// on a member that connects. Of a copy it may not know the users any more.
	edits := predicate.Funcs{
		CreateFunc: func(e event.CreateEvent) bool { return len(copies.Users(e.Object)) > 0 },
		UpdateFunc: func(e event.UpdateEvent) bool { return !copies.OnlyUsersChanged(e.ObjectOld, e.ObjectNew) },
	}
	for _, kind := range clusters.OwnedKinds() {
		switch kind.(type) {
		case *batchv1.Job:
			members.add(kind, r.onMember)
		case *corev1.Pod:
			members.add(kind, r.onMember, servicesGone)
		default:
			members.add(kind, r.onMember, edits)
		}
	}
	return errors.Join(b.Complete(r), mgr.Add(members))
}

// quiet makes loggers for a controller: what it has to say of itself, such as four lines for each member
// that comes, is for those who debug it.
func quiet(log logr.Logger) func(*mcreconcile.Request) logr.Logger {
	log = log.WithValues("controller", "fleetminicluster")
	return func(req *mcreconcile.Request) logr.Logger {
		if req == nil {
			return log.V(1)
		}
		return log.WithValues("fleetminicluster", req.NamespacedName.String())
	}
}

// onHub makes an event handler out of a function that finds the FleetMiniClusters which an event is about.
func (r *FleetMiniClusterReconciler) onHub(find func(context.Context, client.Object) []types.NamespacedName) mchandler.TypedEventHandlerFunc[client.Object, mcreconcile.Request] {
	return func(multicluster.ClusterName, cluster.Cluster) handler.TypedEventHandler[client.Object, mcreconcile.Request] {
		return handler.TypedEnqueueRequestsFromMapFunc(func(ctx context.Context, obj client.Object) []mcreconcile.Request {
			return requests(find(ctx, obj))
		})
	}
}

func requests(keys []types.NamespacedName) []mcreconcile.Request {
	out := make([]mcreconcile.Request, 0, len(keys))
	for _, key := range keys {
		out = append(out, mcreconcile.Request{Request: reconcile.Request{NamespacedName: key}})
	}
	return out
}

// onMember maps an object on a member to the FleetMiniCluster that it says it belongs to. The request is
// for the hub: one reconciliation sees to all members.
func (r *FleetMiniClusterReconciler) onMember(multicluster.ClusterName, cluster.Cluster) handler.TypedEventHandler[client.Object, mcreconcile.Request] {
	return handler.TypedEnqueueRequestsFromMapFunc(func(_ context.Context, obj client.Object) []mcreconcile.Request {
		if obj.GetAnnotations()[v1alpha1.AnnotationHubUID] != r.HubUID {
			return nil
		}
		if users := r.usersOfCopy(obj); users != nil {
			return requests(users)
		}
		key, ok := parseKey(obj.GetAnnotations()[v1alpha1.AnnotationOwner])
		if !ok {
			return nil
		}
		return requests([]types.NamespacedName{key})
	})
}

func (r *FleetMiniClusterReconciler) usersOfPlacement(ctx context.Context, placement client.Object) []types.NamespacedName {
	return r.which(ctx, func(f *v1alpha1.FleetMiniCluster) bool {
		return f.Namespace == placement.GetNamespace() && f.Spec.PlacementRef != nil && f.Spec.PlacementRef.Name == placement.GetName()
	})
}

// usersOfMember are those that have something on the member, and those that might want to: whose
// placement is not satisfied, or takes every member that matches.
func (r *FleetMiniClusterReconciler) usersOfMember(ctx context.Context, member string) []types.NamespacedName {
	return r.which(ctx, func(f *v1alpha1.FleetMiniCluster) bool {
		if slices.ContainsFunc(f.Status.Clusters, func(c v1alpha1.ClusterStatus) bool { return c.Name == member }) {
			return true
		}
		d := f.Status.Placement
		return d == nil || d.Open || len(d.Clusters) < int(d.Wanted)
	})
}

func (r *FleetMiniClusterReconciler) which(ctx context.Context, match func(*v1alpha1.FleetMiniCluster) bool) []types.NamespacedName {
	var list v1alpha1.FleetMiniClusterList
	if err := r.Client.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
		return nil // a list from memory does not fail
	}
	var out []types.NamespacedName
	for i := range list.Items {
		if match(&list.Items[i]) {
			out = append(out, client.ObjectKeyFromObject(&list.Items[i]))
		}
	}
	return out
}

// memberChanged lets through what placement and reachability depend on, and not each change of capacity.
var memberChanged = predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
	before, ok1 := e.ObjectOld.(*v1alpha1.MemberCluster)
	after, ok2 := e.ObjectNew.(*v1alpha1.MemberCluster)
	if !ok1 || !ok2 {
		return true
	}
	was := meta.FindStatusCondition(before.Status.Conditions, v1alpha1.ConditionReady)
	is := meta.FindStatusCondition(after.Status.Conditions, v1alpha1.ConditionReady)
	if (was == nil) != (is == nil) || was != nil && (was.Status != is.Status || was.Reason != is.Reason || was.Message != is.Message) {
		return true
	}
	return before.Generation != after.Generation || !maps.Equal(before.Labels, after.Labels) ||
		before.DeletionTimestamp.IsZero() != after.DeletionTimestamp.IsZero() ||
		before.Annotations[v1alpha1.AnnotationDrain] != after.Annotations[v1alpha1.AnnotationDrain] ||
		before.Annotations[v1alpha1.AnnotationMemberGone] != after.Annotations[v1alpha1.AnnotationMemberGone]
}}

// Reconcile brings one FleetMiniCluster forward as far as it goes without waiting.
func (r *FleetMiniClusterReconciler) Reconcile(ctx context.Context, req mcreconcile.Request) (reconcile.Result, error) {
	defer r.inflight.Start()()
	fmc := &v1alpha1.FleetMiniCluster{}
	if err := r.Client.Get(ctx, req.NamespacedName, fmc); err != nil {
		if apierrors.IsNotFound(err) {
			r.leaveBook(req.NamespacedName, false)
			r.looks.forget(req.NamespacedName)
			err = errors.Join(r.lostOwner(ctx, req.NamespacedName), r.dropAllLate(ctx, req.NamespacedName))
		}
		return reconcile.Result{}, err
	}
	fmc = r.written.newest(fmc)
	if !fmc.DeletionTimestamp.IsZero() {
		r.leaveBook(req.NamespacedName, true)
		return r.finalize(ctx, fmc)
	}
	if controllerutil.AddFinalizer(fmc, v1alpha1.Finalizer) {
		// Before anything is created on a member, so that nothing can be left behind there.
		if err := r.Client.Update(ctx, fmc); err != nil {
			return retry.OnConflict(err)
		}
	}
	p := r.newPass(fmc)
	if err := p.gather(ctx); err != nil {
		return reconcile.Result{}, err
	}
	actErr := p.act(ctx)
	if err := p.write(ctx); err != nil {
		return retry.OnConflict(err)
	}
	p.settle()
	actErr = errors.Join(actErr, p.releaseElsewhere(ctx))
	if errors.Is(actErr, errBehind) {
		return retry.OnConflict(errBehind)
	}
	if actErr != nil {
		// Whatever a member answered, be it NotFound or Conflict, is no news of the hub's object.
		return reconcile.Result{}, actErr
	}
	return p.result()
}
