package fleetminicluster

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/go-logr/logr"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	mcbuilder "sigs.k8s.io/multicluster-runtime/pkg/builder"
	mchandler "sigs.k8s.io/multicluster-runtime/pkg/handler"
	mcmanager "sigs.k8s.io/multicluster-runtime/pkg/manager"
	"sigs.k8s.io/multicluster-runtime/pkg/multicluster"
	mcreconcile "sigs.k8s.io/multicluster-runtime/pkg/reconcile"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/clusters"
	"github.com/minifleet/minifleet/clusters/copies"
	"github.com/minifleet/minifleet/controllers/internal/allowance"
	"github.com/minifleet/minifleet/controllers/internal/events"
	"github.com/minifleet/minifleet/controllers/internal/hubcache"
	"github.com/minifleet/minifleet/controllers/internal/memberwatches"
	"github.com/minifleet/minifleet/controllers/internal/retry"
	"github.com/minifleet/minifleet/internal/fleet"
	"github.com/minifleet/minifleet/internal/nodeusage"
)

// SetUp adds the controller to a manager. The notifier reachability is told of members that come and go.
func (r *Reconciler) SetUp(mgr mcmanager.Manager, reachability *events.Notifier[mcreconcile.Request], workers int) error {
	if err := errors.Join(clusters.Index(context.Background(), r.Provider), copies.Index(context.Background(), r.Provider)); err != nil {
		return err
	}
	var err error
	if r.memberClusters, err = hubcache.NewLister(context.Background(), mgr.GetLocalManager().GetCache(), &v1alpha1.MemberCluster{}); err != nil {
		return err
	}
	r.newcomers.leading = mgr.GetLocalManager().Elected()
	if err := hubcache.BeforeAdd(mgr.GetLocalManager().GetCache(), &v1alpha1.FleetMiniCluster{}, r.newcomers.added); err != nil {
		return err
	}
	if err := mgr.GetLocalManager().GetFieldIndexer().IndexField(context.Background(), &v1alpha1.FleetMiniCluster{}, membersIndex, concerning); err != nil {
		return fmt.Errorf("indexing FleetMiniClusters by members: %w", err)
	}
	room := &events.Notifier[mcreconcile.Request]{Requests: r.waitingOn}
	r.roomChanged = room.Notify
	r.Provider.OnRoom(room.Notify)
	reachability.Requests = func(ctx context.Context, member string) []mcreconcile.Request {
		return requests(r.usersOfMember(ctx, member))
	}
	onMembers := memberwatches.New()
	own := predicate.Or[client.Object](predicate.GenerationChangedPredicate{}, predicate.AnnotationChangedPredicate{}, r.expectations.StatusEdited())
	hub := func(predicates ...predicate.Predicate) []mcbuilder.WatchesOption {
		return []mcbuilder.WatchesOption{mcbuilder.WithEngageWithLocalCluster(true), mcbuilder.WithEngageWithProviderClusters(false), mcbuilder.WithPredicates(predicates...)}
	}
	b := mcbuilder.ControllerManagedBy(mgr).
		Named("fleetminicluster").
		For(&v1alpha1.FleetMiniCluster{}, mcbuilder.WithEngageWithLocalCluster(true),
			mcbuilder.WithEngageWithProviderClusters(false), mcbuilder.WithPredicates(r.newcomers.predicate(), r.expectations.Predicate(), r.vanished.predicate(), own)).
		Watches(&v1alpha1.Placement{}, r.onHub(r.usersOfPlacement), hub(predicate.GenerationChangedPredicate{})...).
		Watches(&v1alpha1.MemberCluster{}, r.onHub(r.onMemberCluster), hub(memberChanged)...).
		Watches(&v1alpha1.GitSource{}, r.onHub(r.usersOfSource), hub(sourceGrantChanged)...).
		Watches(&corev1.Namespace{}, r.onHub(r.usersOfNamespace), hub(predicate.Or[client.Object](allowance.Changed(), orderChanged))...).
		WatchesRawSource(reachability.Source()).
		WatchesRawSource(room.Source()).
		WatchesRawSource(onMembers.Source()).
		WithOptions(controller.TypedOptions[mcreconcile.Request]{
			MaxConcurrentReconciles: workers, RateLimiter: retry.Limiter[mcreconcile.Request](), LogConstructor: quiet(mgr.GetLogger()),
			NewQueue: r.newQueue(mgr.GetLogger()),
		})
	for _, kind := range clusters.OwnedKinds() {
		onMembers.Add(kind, r.onMember, ownedChanged(kind)...)
	}
	return errors.Join(b.Complete(r), mgr.Add(onMembers), mgr.GetLocalManager().Add(r.collectKeys()),
		mgr.GetLocalManager().Add(manager.RunnableFunc(r.flushPending)))
}

// ownedChanged lets those events of an owned kind through that call for a reconciliation. Of what a run needs the hub
// need not be told that it is there: it has just made it, or it reconciles everything on a member that connects. Of a
// copy it may not know the users any more.
func ownedChanged(kind client.Object) []predicate.Predicate {
	switch kind.(type) {
	case *batchv1.Job:
		return nil
	case *corev1.Pod:
		return []predicate.Predicate{servicesEnded}
	default:
		return []predicate.Predicate{predicate.Funcs{
			CreateFunc: func(e event.CreateEvent) bool { return len(copies.Users(e.Object)) > 0 },
			UpdateFunc: func(e event.UpdateEvent) bool { return !copies.OnlyUsersChanged(e.ObjectOld, e.ObjectNew) },
		}}
	}
}

// servicesEnded lets through what may call for a services pod to be made anew.
var servicesEnded = predicate.Funcs{
	CreateFunc:  func(event.CreateEvent) bool { return false },
	GenericFunc: func(event.GenericEvent) bool { return false },
	UpdateFunc: func(e event.UpdateEvent) bool {
		before, ok1 := e.ObjectOld.(*corev1.Pod)
		after, ok2 := e.ObjectNew.(*corev1.Pod)
		return !ok1 || !ok2 || before.Status.Phase != after.Status.Phase
	},
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
func (r *Reconciler) onHub(find func(context.Context, client.Object) []types.NamespacedName) mchandler.TypedEventHandlerFunc[client.Object, mcreconcile.Request] {
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
func (r *Reconciler) onMember(multicluster.ClusterName, cluster.Cluster) handler.TypedEventHandler[client.Object, mcreconcile.Request] {
	return handler.TypedEnqueueRequestsFromMapFunc(func(_ context.Context, obj client.Object) []mcreconcile.Request {
		if obj.GetAnnotations()[v1alpha1.AnnotationFleetID] != r.FleetID {
			return nil
		}
		if users := r.references.UsersOf(obj); users != nil {
			return requests(users)
		}
		key, ok := fleet.Origin{Owner: obj.GetAnnotations()[v1alpha1.AnnotationOwner]}.Key()
		if !ok {
			return nil
		}
		return requests([]types.NamespacedName{key})
	})
}

func (r *Reconciler) usersOfPlacement(ctx context.Context, placement client.Object) []types.NamespacedName {
	return r.which(ctx, client.InNamespace(placement.GetNamespace()), func(f *v1alpha1.FleetMiniCluster) bool {
		return f.Spec.PlacementRef != nil && f.Spec.PlacementRef.Name == placement.GetName()
	})
}

// usersOfMember are those that have something on the member, and those that might want to: whose
// placement is not satisfied, or takes every member that matches.
func (r *Reconciler) usersOfMember(ctx context.Context, member string) []types.NamespacedName {
	all := func(*v1alpha1.FleetMiniCluster) bool { return true }
	return append(r.which(ctx, client.MatchingFields{membersIndex: member}, all), r.which(ctx, client.MatchingFields{membersIndex: anyMember}, all)...)
}

// onMemberCluster returns the users of a MemberCluster that has changed. One that was deleted leaves nothing in memory.
func (r *Reconciler) onMemberCluster(ctx context.Context, member client.Object) []types.NamespacedName {
	if err := r.Client.Get(ctx, client.ObjectKeyFromObject(member), &v1alpha1.MemberCluster{}, client.UnsafeDisableDeepCopy); apierrors.IsNotFound(err) {
		r.queue.Forget(member.GetName())
	}
	return r.usersOfMember(ctx, member.GetName())
}

// membersIndex is the index of FleetMiniClusters by the members whose changes concern them, anyMember stands for all.
const membersIndex, anyMember = "minifleet.members", "*"

// concerning are the members whose changes concern a FleetMiniCluster: see usersOfMember.
func concerning(obj client.Object) []string {
	f, ok := obj.(*v1alpha1.FleetMiniCluster)
	if !ok {
		return nil
	}
	if d := f.Status.Placement; d == nil || d.Open || len(d.Clusters) < int(d.Wanted) {
		return []string{anyMember}
	}
	names := make([]string, 0, len(f.Status.Clusters))
	for i := range f.Status.Clusters {
		names = append(names, f.Status.Clusters[i].Name)
	}
	return names
}

// usersOfNamespace are those whose run may depend on what their namespace allows, and on its labels: what overrides make of
// them, which Secrets hold tokens, and which members they may use, depends on members.
func (r *Reconciler) usersOfNamespace(ctx context.Context, namespace client.Object) []types.NamespacedName {
	r.noteNamespace(namespace)
	return r.which(ctx, client.InNamespace(namespace.GetName()), func(*v1alpha1.FleetMiniCluster) bool { return true })
}

// usersOfSource are those whose run may depend on what their source allows, and declares.
func (r *Reconciler) usersOfSource(ctx context.Context, source client.Object) []types.NamespacedName {
	return r.which(ctx, client.InNamespace(source.GetNamespace()), func(f *v1alpha1.FleetMiniCluster) bool {
		return f.Labels[v1alpha1.LabelSource] == source.GetName()
	})
}

// waitingOn are those to reconcile when there is other room on a member: whom that concerns and, when the room
// has become known, those that could not be told of it before.
func (r *Reconciler) waitingOn(_ context.Context, member string) []mcreconcile.Request {
	m, err := r.Provider.Member(member)
	if err != nil {
		return nil
	}
	var keys []types.NamespacedName
	if r.queue.Waits(m.Name) {
		keys = r.queue.Affected(m.Name, m.Room(), r.Now())
	}
	if m.RoomState() != nodeusage.Pending {
		keys = append(keys, r.queue.Known(m.Name, m)...)
	}
	return requests(keys)
}

// which are those among some, which an index of the cache finds, that match.
func (r *Reconciler) which(ctx context.Context, among client.ListOption, match func(*v1alpha1.FleetMiniCluster) bool) []types.NamespacedName {
	var list v1alpha1.FleetMiniClusterList
	if err := r.Client.List(ctx, &list, among, client.UnsafeDisableDeepCopy); err != nil {
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

// orderChanged lets through what shares of members, and the order of those that wait, depend on of a namespace. Of one that
// is new that is read when something in it is reconciled.
var orderChanged = predicate.Funcs{
	CreateFunc: func(event.CreateEvent) bool { return false },
	DeleteFunc: func(event.DeleteEvent) bool { return false },
	UpdateFunc: func(e event.UpdateEvent) bool {
		return !maps.Equal(e.ObjectOld.GetLabels(), e.ObjectNew.GetLabels()) ||
			e.ObjectOld.GetAnnotations()[v1alpha1.AnnotationMaxPriority] != e.ObjectNew.GetAnnotations()[v1alpha1.AnnotationMaxPriority]
	},
}

// sourceGrantChanged lets through what sources allow, and for whom.
var sourceGrantChanged = predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
	before, ok1 := e.ObjectOld.(*v1alpha1.GitSource)
	after, ok2 := e.ObjectNew.(*v1alpha1.GitSource)
	return !ok1 || !ok2 || !slices.Equal(before.Spec.Allow, after.Spec.Allow) ||
		!equality.Semantic.DeepEqual(before.Status.Needs, after.Status.Needs)
}}
