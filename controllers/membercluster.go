package controllers

import (
	"context"
	"fmt"
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
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/clusters"
	"github.com/minifleet/minifleet/internal/words"
)

// +kubebuilder:rbac:groups=minifleet.dev,resources=memberclusters,verbs=get;list;watch
// +kubebuilder:rbac:groups=minifleet.dev,resources=memberclusters/status,verbs=update

// MemberClusterReconciler keeps the connection to each member, and reports on it.
type MemberClusterReconciler struct {
	Client    client.Client
	Cache     client.Reader
	Provider  *clusters.Provider
	Namespace string
	HubUID    string
	Recorder  events.EventRecorder
	Now       func() time.Time
}

func (r *MemberClusterReconciler) setUp(mgr manager.Manager, news *notifier[reconcile.Request]) error {
	news.requests = func(_ context.Context, member string) []reconcile.Request {
		return []reconcile.Request{{NamespacedName: types.NamespacedName{Name: member}}}
	}
	return ctrl.NewControllerManagedBy(mgr).
		Named("membercluster").
		For(&v1alpha1.MemberCluster{}, builder.WithPredicates(predicate.Or(predicate.GenerationChangedPredicate{}, orphansChanged))).
		Watches(&corev1.Secret{}, handler.EnqueueRequestsFromMapFunc(r.usersOf)).
		// When one of two registrations of a cluster goes, the other may be used.
		Watches(&v1alpha1.MemberCluster{}, handler.EnqueueRequestsFromMapFunc(r.refusedTwins), builder.WithPredicates(predicate.Funcs{
			CreateFunc: func(event.CreateEvent) bool { return false },
			UpdateFunc: func(event.UpdateEvent) bool { return false },
		})).
		WatchesRawSource(news.source()).
		WithOptions(controller.Options{MaxConcurrentReconciles: 4, RateLimiter: rateLimiter[reconcile.Request]()}).
		Complete(r)
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
	state, err := r.connect(ctx, &member)
	if err != nil {
		return reconcile.Result{}, err
	}
	state.Message = words.Safe(state.Message, words.Note) // some of it is the member's own
	if err := r.report(ctx, &member, state); err != nil {
		return retryConflict(err)
	}
	again, err := r.workOffOrphans(ctx, &member)
	return reconcile.Result{RequeueAfter: again}, err
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

// report writes the status if it has changed, and an event if the member came or went.
func (r *MemberClusterReconciler) report(ctx context.Context, member *v1alpha1.MemberCluster, state clusters.State) error {
	before := member.Status.DeepCopy()
	s := &member.Status
	was := meta.FindStatusCondition(before.Conditions, v1alpha1.ConditionReady)
	if state.Reason == v1alpha1.ReasonConnecting && was != nil {
		return nil // what was known stays until the attempt has succeeded or failed
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
	s.LastHeardTime = lastHeard(before, was, state)
	meta.SetStatusCondition(&s.Conditions, metav1.Condition{
		Type: v1alpha1.ConditionReady, Status: readiness(state), Reason: state.Reason, Message: state.Message,
		ObservedGeneration: member.Generation, LastTransitionTime: metav1.NewTime(r.Now()),
	})
	if equality.Semantic.DeepEqual(before, s) {
		return nil
	}
	if err := r.Client.Status().Update(ctx, member); err != nil {
		return client.IgnoreNotFound(err)
	}
	if was == nil || was.Reason != state.Reason {
		kind := corev1.EventTypeNormal
		if !state.Ready && state.Reason != v1alpha1.ReasonConnecting {
			kind = corev1.EventTypeWarning
		}
		r.Recorder.Eventf(member, nil, kind, state.Reason, "Connect", "%s", state.Message)
	}
	return nil
}

// lastHeard is nil for a member that answers. After a restart of the hub nothing is known but that the
// member answered when it was last found ready.
func lastHeard(before *v1alpha1.MemberClusterStatus, was *metav1.Condition, state clusters.State) *metav1.Time {
	var t metav1.Time
	switch {
	case state.Ready:
		return nil
	case !state.LastHeard.IsZero():
		t = metav1.NewTime(state.LastHeard).Rfc3339Copy()
	case before.LastHeardTime != nil:
		return before.LastHeardTime
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
