package controllers

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/clusters"
	memberevents "github.com/minifleet/minifleet/controllers/internal/events"
	"github.com/minifleet/minifleet/controllers/internal/inflight"
	"github.com/minifleet/minifleet/controllers/internal/retry"
	"github.com/minifleet/minifleet/internal/sanitize"
)

// +kubebuilder:rbac:groups=minifleet.dev,resources=memberclusters,verbs=get;list;watch;update
// +kubebuilder:rbac:groups=minifleet.dev,resources=memberclusters/status,verbs=update
// +kubebuilder:rbac:groups=minifleet.dev,resources=memberclusters/finalizers,verbs=update

// MemberClusterReconciler keeps the connection to each member, and reports on it.
type MemberClusterReconciler struct {
	Client client.Client
	Cache  client.Reader
	// APIReader reads the hub itself, where the cache may be behind.
	APIReader client.Reader
	Provider  *clusters.Provider
	Namespace string
	HubUID    string
	Recorder  events.EventRecorder
	Now       func() time.Time

	// passes are those of the FleetMiniCluster controller.
	inflight *inflight.Tracker
	// quieting has, by the UID of a member that is drained or being deleted, how far it has got (*quieting).
	quieting sync.Map
}

func (r *MemberClusterReconciler) setUp(mgr manager.Manager, news *memberevents.Notifier[reconcile.Request]) error {
	news.Requests = func(_ context.Context, member string) []reconcile.Request {
		return []reconcile.Request{{NamespacedName: types.NamespacedName{Name: member}}}
	}
	return ctrl.NewControllerManagedBy(mgr).
		Named("membercluster").
		For(&v1alpha1.MemberCluster{}, builder.WithPredicates(predicate.Or(
			predicate.GenerationChangedPredicate{}, orphansChanged, drainChanged, conditionsChanged))).
		Watches(&v1alpha1.FleetMiniCluster{}, handler.EnqueueRequestsFromMapFunc(r.departingMembers), builder.WithPredicates(liveChanged)).
		Watches(&corev1.Secret{}, handler.EnqueueRequestsFromMapFunc(r.usersOf)).
		// When one of two registrations of a cluster goes, the other may be used.
		Watches(&v1alpha1.MemberCluster{}, handler.EnqueueRequestsFromMapFunc(r.refusedTwins), builder.WithPredicates(predicate.Funcs{
			CreateFunc: func(event.CreateEvent) bool { return false },
			UpdateFunc: func(event.UpdateEvent) bool { return false },
		})).
		WatchesRawSource(news.Source()).
		WithOptions(controller.Options{MaxConcurrentReconciles: 4, RateLimiter: retry.Limiter[reconcile.Request]()}).
		Complete(r)
}

// conditionsChanged lets through what this controller has written itself, or somebody else: news that came before the
// cache had it were compared with what had been written before, and may have been taken for nothing new.
var conditionsChanged = memberUpdated(func(before, after *v1alpha1.MemberCluster) bool {
	return !equality.Semantic.DeepEqual(before.Status.Conditions, after.Status.Conditions)
})

// memberUpdated lets updates of MemberClusters through that have changed what is asked about, and nothing else.
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

// usersOf finds the members that a kubeconfig Secret is for.
func (r *MemberClusterReconciler) usersOf(ctx context.Context, secret client.Object) []reconcile.Request {
	var list v1alpha1.MemberClusterList
	if err := r.Client.List(ctx, &list); err != nil {
		return nil // the cache of the hub itself; a list from memory does not fail
	}
	var out []reconcile.Request
	for _, m := range list.Items {
		if m.Spec.KubeconfigSecretRef.Name == secret.GetName() {
			out = append(out, reconcile.Request{NamespacedName: types.NamespacedName{Name: m.Name}})
		}
	}
	return out
}

// refusedTwins finds the members that were refused because another is the same cluster.
func (r *MemberClusterReconciler) refusedTwins(ctx context.Context, _ client.Object) []reconcile.Request {
	var list v1alpha1.MemberClusterList
	if err := r.Client.List(ctx, &list); err != nil {
		return nil
	}
	var out []reconcile.Request
	for _, m := range list.Items {
		if c := meta.FindStatusCondition(m.Status.Conditions, v1alpha1.ConditionReady); c != nil && c.Reason == v1alpha1.ReasonDuplicateCluster {
			out = append(out, reconcile.Request{NamespacedName: types.NamespacedName{Name: m.Name}})
		}
	}
	return out
}

// Reconcile connects one member, or disconnects it, and writes its status.
func (r *MemberClusterReconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	var member v1alpha1.MemberCluster
	if err := r.Client.Get(ctx, req.NamespacedName, &member); err != nil {
		if apierrors.IsNotFound(err) {
			r.Provider.Remove(req.Name)
		}
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	deleting := !member.DeletionTimestamp.IsZero()
	switch {
	case !deleting && controllerutil.AddFinalizer(&member, v1alpha1.Finalizer):
		// Before anything is created on the member, so that nothing can be left behind there unseen.
		if err := r.Client.Update(ctx, &member); err != nil {
			return retry.OnConflict(err)
		}
	case deleting && !controllerutil.ContainsFinalizer(&member, v1alpha1.Finalizer):
		r.Provider.Remove(req.Name) // it stays for the sake of others
		return reconcile.Result{}, nil
	case deleting && member.Spec.DeletionPolicy == v1alpha1.DeletionOrphan:
		return r.abandon(ctx, &member)
	}
	return r.tend(ctx, &member)
}

// tend keeps one member connected, and takes it out where it is to go.
func (r *MemberClusterReconciler) tend(ctx context.Context, member *v1alpha1.MemberCluster) (reconcile.Result, error) {
	state, err := r.connect(ctx, member)
	if err != nil {
		return reconcile.Result{}, err
	}
	state.Message = sanitize.Text(state.Message, sanitize.MaxNote) // some of it is the member's own
	d, err := r.departure(ctx, member)
	if err != nil {
		return reconcile.Result{}, err
	}
	clearErr := r.clear(ctx, member, d, state)
	if err := r.report(ctx, member, state, d); err != nil {
		return retry.OnConflict(err)
	}
	again, err := r.workOffOrphans(ctx, member)
	if err = errors.Join(err, clearErr); err != nil {
		return reconcile.Result{}, err
	}
	if d == nil {
		return reconcile.Result{RequeueAfter: again}, nil
	}
	if d.clean && len(member.Status.Orphans) == 0 {
		return r.letGo(ctx, member, corev1.EventTypeNormal, v1alpha1.ReasonCleanedUp, "everything of MiniFleet is removed from the member")
	}
	if again == 0 || d.again > 0 && d.again < again {
		again = d.again
	}
	return reconcile.Result{RequeueAfter: again}, nil
}

// connect hands the member's kubeconfig to the provider. A kubeconfig that cannot be read for the moment
// changes nothing; one that is not there disconnects.
func (r *MemberClusterReconciler) connect(ctx context.Context, member *v1alpha1.MemberCluster) (clusters.State, error) {
	key := types.NamespacedName{Namespace: r.Namespace, Name: member.Spec.KubeconfigSecretRef.Name}
	var secret corev1.Secret
	err := r.Cache.Get(ctx, key, &secret)
	if err != nil && !apierrors.IsNotFound(err) {
		return clusters.State{}, fmt.Errorf("reading the kubeconfig of member %s: %w", member.Name, err)
	}
	kubeconfig := secret.Data[v1alpha1.KubeconfigKey]
	if len(kubeconfig) == 0 {
		if state, connected := r.Provider.State(member.Name); connected && !member.DeletionTimestamp.IsZero() {
			return state, nil // deleted together with the MemberCluster, which needs it to the end
		}
		r.Provider.Remove(member.Name)
		return clusters.State{Reason: v1alpha1.ReasonKubeconfigMissing, Message: fmt.Sprintf(
			"spec.kubeconfigSecretRef: there is no Secret %s with key %q: create it with `kubectl -n %s create secret generic %s --from-file=%s=FILE`",
			key, v1alpha1.KubeconfigKey, key.Namespace, key.Name, v1alpha1.KubeconfigKey)}, nil
	}
	spec := *member.Spec.DeepCopy()
	spec.Suspend, spec.Taints, spec.DeletionPolicy = false, nil, "" // they are no reason to connect anew
	r.Provider.Ensure(member.Name, clusters.Target{Spec: spec, Kubeconfig: kubeconfig, ExpectedUID: member.Status.ClusterUID})
	state, _ := r.Provider.State(member.Name)
	twin, err := r.twin(ctx, member, state)
	if err != nil || twin == "" {
		return state, err
	}
	r.Provider.Remove(member.Name)
	return clusters.State{Reason: v1alpha1.ReasonDuplicateCluster, Message: fmt.Sprintf(
		"this is the same cluster as MemberCluster %s, where runs would collide: delete one of the two, or give each a spec.namespace of its own", twin)}, nil
}

// twin finds a member that was registered earlier for the same namespaces of the same cluster.
func (r *MemberClusterReconciler) twin(ctx context.Context, member *v1alpha1.MemberCluster, state clusters.State) (string, error) {
	if state.UID == "" {
		return "", nil
	}
	var list v1alpha1.MemberClusterList
	if err := r.Client.List(ctx, &list); err != nil {
		return "", err
	}
	for _, other := range list.Items {
		apart := member.Spec.Namespace != other.Spec.Namespace && member.Spec.Namespace != "" && other.Spec.Namespace != ""
		if other.Name == member.Name || other.Status.ClusterUID != state.UID || apart {
			continue
		}
		if earlier(&other, member) {
			return other.Name, nil
		}
	}
	return "", nil
}

func earlier(a, b *v1alpha1.MemberCluster) bool {
	if !a.CreationTimestamp.Equal(&b.CreationTimestamp) {
		return a.CreationTimestamp.Before(&b.CreationTimestamp)
	}
	return a.Name < b.Name
}

// report writes the status if it has changed, and events if the member came or went, or is drained.
func (r *MemberClusterReconciler) report(ctx context.Context, member *v1alpha1.MemberCluster, state clusters.State, d *departure) error {
	before := member.Status.DeepCopy()
	r.setReady(member, state)
	d.setDrained(member, state, r.Now())
	if equality.Semantic.DeepEqual(before, &member.Status) {
		return nil
	}
	if err := r.Client.Status().Update(ctx, member); err != nil {
		return client.IgnoreNotFound(err)
	}
	r.tell(member, before, v1alpha1.ConditionReady, "Connect")
	r.tell(member, before, v1alpha1.ConditionDrained, "Drain")
	return nil
}

// tell sends an event if a condition has another reason than before.
func (r *MemberClusterReconciler) tell(member *v1alpha1.MemberCluster, before *v1alpha1.MemberClusterStatus, condition, action string) {
	was, is := meta.FindStatusCondition(before.Conditions, condition), meta.FindStatusCondition(member.Status.Conditions, condition)
	if is == nil || was != nil && was.Reason == is.Reason {
		return
	}
	kind := corev1.EventTypeNormal
	if is.Status != metav1.ConditionTrue && is.Reason != v1alpha1.ReasonConnecting && is.Reason != v1alpha1.ReasonRunsLive {
		kind = corev1.EventTypeWarning
	}
	r.Recorder.Eventf(member, nil, kind, is.Reason, action, "%s", sanitize.Text(is.Message, sanitize.MaxNote))
}

// setReady puts into the status what is known of the connection.
func (r *MemberClusterReconciler) setReady(member *v1alpha1.MemberCluster, state clusters.State) {
	s := &member.Status
	was := meta.FindStatusCondition(s.Conditions, v1alpha1.ConditionReady).DeepCopy()
	if state.Reason == v1alpha1.ReasonConnecting && was != nil {
		return // what was known stays until the attempt has succeeded or failed
	}
	s.ObservedGeneration = member.Generation
	if state.Reason != v1alpha1.ReasonDuplicateCluster && s.ClusterUID == "" {
		s.ClusterUID = state.UID
	}
	if state.Version != "" {
		s.Version = state.Version
	}
	if !state.Ready || state.Capacity != nil {
		s.Capacity = state.Capacity // else it is on its way, and what was known stays
	}
	s.LastHeardTime = lastHeard(s.LastHeardTime, was, state)
	meta.SetStatusCondition(&s.Conditions, metav1.Condition{
		Type: v1alpha1.ConditionReady, Status: readiness(state), Reason: state.Reason, Message: state.Message,
		ObservedGeneration: member.Generation, LastTransitionTime: metav1.NewTime(r.Now()),
	})
}

// lastHeard is nil for a member that answers. After a restart of the hub nothing is known but that the
// member answered when it was last found ready.
func lastHeard(before *metav1.Time, was *metav1.Condition, state clusters.State) *metav1.Time {
	var t metav1.Time
	switch {
	case state.Ready:
		return nil
	case !state.LastHeard.IsZero():
		t = metav1.NewTime(state.LastHeard).Rfc3339Copy()
	case before != nil:
		return before
	case was != nil && was.Status == metav1.ConditionTrue:
		t = was.LastTransitionTime
	default:
		return nil
	}
	return &t
}

// readiness is Unknown for a member that merely does not answer, False for one that cannot be used as it
// is registered.
func readiness(state clusters.State) metav1.ConditionStatus {
	switch {
	case state.Ready:
		return metav1.ConditionTrue
	case state.Reason == v1alpha1.ReasonConnecting, state.Reason == v1alpha1.ReasonUnreachable:
		return metav1.ConditionUnknown
	default:
		return metav1.ConditionFalse
	}
}
