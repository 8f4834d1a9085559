package membercluster

import (
	"context"
	"slices"

	"github.com/fluxcd/pkg/runtime/conditions"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/controllers/internal/events"
	"github.com/minifleet/minifleet/controllers/internal/retry"
)

// concurrentMembers is how many MemberClusters are reconciled at once.
const concurrentMembers = 4

// SetUp registers the controller with a manager of the hub. connections notifies it of changes of connections.
func (r *Reconciler) SetUp(mgr manager.Manager, connections *events.Notifier[reconcile.Request]) error {
	connections.Requests = func(_ context.Context, member string) []reconcile.Request {
		return []reconcile.Request{request(member)}
	}
	if r.Profiles != nil {
		r.Profiles.changed = func(profile string) {
			for _, request := range r.usersOfProfile(context.Background(), profile) {
				connections.Notify(request.Name)
			}
		}
		if err := mgr.Add(r.Profiles); err != nil {
			return err
		}
	}
	r.started = make(chan struct{})
	if err := mgr.Add(manager.RunnableFunc(func(ctx context.Context) error { return r.start(ctx, mgr.GetCache()) })); err != nil {
		return err
	}
	return ctrl.NewControllerManagedBy(mgr).
		Named("membercluster").
		For(&v1alpha1.MemberCluster{}, builder.WithPredicates(predicate.Or(
			predicate.GenerationChangedPredicate{}, orphansAdded, declarationChanged, conditionsChanged))).
		Watches(&v1alpha1.FleetMiniCluster{}, handler.EnqueueRequestsFromMapFunc(r.drainedMembersOf), builder.WithPredicates(liveChanged)).
		Watches(&v1alpha1.FleetMiniCluster{}, handler.EnqueueRequestsFromMapFunc(r.membersWithJobsOf), builder.WithPredicates(ownersChanged)).
		Watches(&corev1.Secret{}, handler.EnqueueRequestsFromMapFunc(r.usersOf)).
		// When one of two registrations of a cluster is deleted, the other may be used.
		Watches(&v1alpha1.MemberCluster{}, handler.EnqueueRequestsFromMapFunc(r.refusedDuplicates), builder.WithPredicates(predicate.Funcs{
			CreateFunc: func(event.CreateEvent) bool { return false },
			UpdateFunc: func(event.UpdateEvent) bool { return false },
		})).
		WatchesRawSource(connections.Source()).
		WithOptions(controller.Options{MaxConcurrentReconciles: concurrentMembers, RateLimiter: retry.Limiter[reconcile.Request]()}).
		Complete(r)
}

func request(member string) reconcile.Request {
	return reconcile.Request{NamespacedName: types.NamespacedName{Name: member}}
}

// orphansAdded accepts that a member was given something to remove: it may be connected again already.
var orphansAdded = memberUpdated(func(before, after *v1alpha1.MemberCluster) bool {
	return len(before.Status.Orphans) < len(after.Status.Orphans)
})

// declarationChanged accepts that a member is to be drained, or is declared to have nothing live, or not any more, or that
// its quarantine is lifted.
var declarationChanged = memberUpdated(func(before, after *v1alpha1.MemberCluster) bool {
	return before.Annotations[v1alpha1.AnnotationDrain] != after.Annotations[v1alpha1.AnnotationDrain] ||
		before.Annotations[v1alpha1.AnnotationMemberGone] != after.Annotations[v1alpha1.AnnotationMemberGone] ||
		before.Annotations[v1alpha1.AnnotationLiftQuarantine] != after.Annotations[v1alpha1.AnnotationLiftQuarantine]
})

// conditionsChanged accepts conditions that this controller has set, or somebody else: a change of a
// connection that came before the cache had them was compared with older ones, and may have been taken for none.
var conditionsChanged = memberUpdated(func(before, after *v1alpha1.MemberCluster) bool {
	return !equality.Semantic.DeepEqual(before.Status.Conditions, after.Status.Conditions)
})

// memberUpdated accepts updates of MemberClusters that have changed what is asked about, and nothing else.
func memberUpdated(changed func(before, after *v1alpha1.MemberCluster) bool) predicate.Predicate {
	return predicate.Funcs{
		CreateFunc:  func(event.CreateEvent) bool { return false },
		DeleteFunc:  func(event.DeleteEvent) bool { return false },
		GenericFunc: func(event.GenericEvent) bool { return false },
		UpdateFunc: func(e event.UpdateEvent) bool {
			before, ok1 := e.ObjectOld.(*v1alpha1.MemberCluster)
			after, ok2 := e.ObjectNew.(*v1alpha1.MemberCluster)
			return ok1 && ok2 && changed(before, after)
		},
	}
}

// liveChanged accepts FleetMiniClusters of which other runs are live than before.
var liveChanged = predicate.Funcs{
	CreateFunc:  func(event.CreateEvent) bool { return false }, // nothing runs yet, or the members are reconciled anyway
	GenericFunc: func(event.GenericEvent) bool { return false },
	UpdateFunc: func(e event.UpdateEvent) bool {
		before, ok1 := e.ObjectOld.(*v1alpha1.FleetMiniCluster)
		after, ok2 := e.ObjectNew.(*v1alpha1.FleetMiniCluster)
		return ok1 && ok2 && !slices.Equal(liveIDs(before), liveIDs(after))
	},
}

// ownersChanged accepts FleetMiniClusters that come or are deleted: Jobs may have lost their owner, or have one again.
var ownersChanged = predicate.Funcs{
	UpdateFunc:  func(event.UpdateEvent) bool { return false },
	GenericFunc: func(event.GenericEvent) bool { return false },
}

// membersWithJobsOf are the members that may have unowned Jobs of a FleetMiniCluster that comes or is deleted.
func (r *Reconciler) membersWithJobsOf(ctx context.Context, obj client.Object) []reconcile.Request {
	f, ok := obj.(*v1alpha1.FleetMiniCluster)
	if !ok {
		return nil
	}
	return r.unownedBy(ctx, f)
}

func liveIDs(f *v1alpha1.FleetMiniCluster) []string {
	var out []string
	for i := range f.Status.Runs {
		if run := &f.Status.Runs[i]; !run.State.Ended() {
			out = append(out, run.Cluster+" "+run.ID)
		}
	}
	return out
}

// usersOf are the members that a kubeconfig Secret is for.
func (r *Reconciler) usersOf(ctx context.Context, secret client.Object) []reconcile.Request {
	return r.members(ctx, func(m *v1alpha1.MemberCluster) bool { return m.Spec.KubeconfigSecretRef.Name == secret.GetName() })
}

// usersOfProfile are the members that a ClusterProfile is for; of anyProfile, all that have one.
func (r *Reconciler) usersOfProfile(ctx context.Context, profile string) []reconcile.Request {
	return r.members(ctx, func(m *v1alpha1.MemberCluster) bool {
		name := m.Spec.ClusterProfileRef.Name
		return name != "" && (name == profile || profile == anyProfile)
	})
}

// refusedDuplicates are the members that were refused because another is the same cluster, or says so.
func (r *Reconciler) refusedDuplicates(ctx context.Context, _ client.Object) []reconcile.Request {
	return r.members(ctx, func(m *v1alpha1.MemberCluster) bool {
		reason := conditions.GetReason(m, v1alpha1.ConditionReady)
		return reason == v1alpha1.ReasonDuplicateCluster || reason == v1alpha1.ReasonIdentityClaimed
	})
}

func (r *Reconciler) members(ctx context.Context, match func(*v1alpha1.MemberCluster) bool) []reconcile.Request {
	var list v1alpha1.MemberClusterList
	if err := r.Client.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
		return nil // the cache of the hub itself; a list from memory does not fail
	}
	var out []reconcile.Request
	for i := range list.Items {
		if match(&list.Items[i]) {
			out = append(out, request(list.Items[i].Name))
		}
	}
	return out
}

// drainedMembersOf are the members that a FleetMiniCluster has or had runs on, and that are drained or deleted.
func (r *Reconciler) drainedMembersOf(ctx context.Context, obj client.Object) []reconcile.Request {
	f, ok := obj.(*v1alpha1.FleetMiniCluster)
	if !ok {
		return nil
	}
	var names []string
	for i := range f.Status.Runs {
		names = append(names, f.Status.Runs[i].Cluster)
	}
	slices.Sort(names)
	var out []reconcile.Request
	for _, name := range slices.Compact(names) {
		var member v1alpha1.MemberCluster
		if err := r.Client.Get(ctx, client.ObjectKey{Name: name}, &member); err != nil {
			continue // it is no longer there
		}
		if why, _ := member.Draining(); why != "" || !member.DeletionTimestamp.IsZero() {
			out = append(out, request(name))
		}
	}
	return out
}
