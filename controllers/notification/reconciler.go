// Package notification tells people and programs of runs and sources. What comes in are Notifications, and the FleetMiniClusters and
// GitSources of their namespaces; what goes out are messages, and the statuses of the Notifications. Nothing waits for a message:
// transitions go to a bounded queue in memory, and what was told is saved afterwards.
//
//	reconciler.go  a Notification and its Secret -> a sink, and its status
//	observe.go     objects -> the sinks of their namespace
//	sink.go        transitions -> messages, one after the other, with attempts, limits and counts
//	target.go      spec and Secret -> where to send to, and with what
//	client.go      a request -> an answer, from addresses that are not refused
package notification

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/fluxcd/pkg/runtime/conditions"
	"github.com/fluxcd/pkg/runtime/jitter"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	kevents "k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/controllers/internal/condition"
	"github.com/minifleet/minifleet/controllers/internal/events"
	"github.com/minifleet/minifleet/controllers/internal/hubobjects"
	"github.com/minifleet/minifleet/controllers/internal/retry"
	"github.com/minifleet/minifleet/internal/notify"
)

// +kubebuilder:rbac:groups=minifleet.dev,resources=notifications,verbs=get;list;watch
// +kubebuilder:rbac:groups=minifleet.dev,resources=notifications/status,verbs=update

// MaxPerNamespace is how many Notifications of a namespace count, the oldest first.
const MaxPerNamespace = 20

// intervalJitter spreads what is done at intervals.
const intervalJitter = 0.1

// Reconciler keeps a sink for each Notification.
type Reconciler struct {
	Client client.Client
	// Live reads the hub itself: what a cache does not know yet was told already.
	Live     client.Reader
	Recorder kevents.EventRecorder
	Now      func() time.Time
	// Namespace is the manager's own.
	Namespace string
	// Network says where no connection is made to.
	Network Network
	// Dashboard is the URL by which browsers reach the dashboard; empty: messages have no links.
	Dashboard string
	// Off sends nothing, and has the status of each Notification say so.
	Off       bool
	Intervals Intervals

	sinks   sinks
	changes events.Notifier[reconcile.Request]
}

// SetUp registers the controller with a manager of the hub.
func (r *Reconciler) SetUp(mgr manager.Manager) error {
	r.changes.Requests = func(_ context.Context, name string) []reconcile.Request {
		namespace, name, _ := strings.Cut(name, "/")
		return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: namespace, Name: name}}}
	}
	if err := mgr.Add(manager.RunnableFunc(r.run)); err != nil {
		return err
	}
	kind := v1alpha1.GroupVersion.WithKind("Notification")
	if _, err := mgr.GetRESTMapper().RESTMapping(kind.GroupKind(), kind.Version); meta.IsNoMatchError(err) {
		mgr.GetLogger().Error(err, "no notifications are sent: install the CRD notifications.minifleet.dev, and restart the controller")
		return nil
	}
	return ctrl.NewControllerManagedBy(mgr).
		Named("notification").
		For(&v1alpha1.Notification{}, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(&v1alpha1.FleetMiniCluster{}, r.observer()).
		Watches(&v1alpha1.GitSource{}, r.observer()).
		WatchesRawSource(r.changes.Source()).
		WithOptions(controller.Options{MaxConcurrentReconciles: 4, RateLimiter: retry.Limiter[reconcile.Request]()}).
		Complete(r)
}

// run ends all sinks when the manager stops, and writes what they have told since the last write: the next hub does not tell it again.
func (r *Reconciler) run(ctx context.Context) error {
	<-ctx.Done()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	for _, s := range r.sinks.close() {
		if s.dirty() {
			_, _ = r.reconcile(ctx, s.key, s) // it is told again where this fails
		}
	}
	return nil
}

// Reconcile implements reconcile.Reconciler.
func (r *Reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	after, err := r.reconcile(ctx, req.NamespacedName, nil)
	if err != nil {
		return retry.OnConflict(err)
	}
	return reconcile.Result{RequeueAfter: jitter.Percent(intervalJitter, nil)(after)}, nil
}

// reconcile returns after how long the Notification is reconciled again. Last is its sink where that has ended and is to be saved.
func (r *Reconciler) reconcile(ctx context.Context, key types.NamespacedName, last *sink) (time.Duration, error) {
	var n v1alpha1.Notification
	reader := client.Reader(r.Client)
	if last != nil { // the cache may not know the latest write yet, and there is no second try
		reader = r.Live
	}
	if err := reader.Get(ctx, key, &n); err != nil {
		r.sinks.remove(key)
		return 0, client.IgnoreNotFound(err)
	}
	if last == nil && !n.Spec.Suspend && !r.Off && !r.sinks.has(&n) {
		if err := r.Live.Get(ctx, key, &n); err != nil {
			return 0, client.IgnoreNotFound(err)
		}
	}
	before := n.Status.DeepCopy()
	if last != nil {
		if n.UID != last.uid || n.Spec.Suspend {
			return 0, nil
		}
		report(&n, last)
		return 0, r.Client.Status().Update(ctx, &n)
	}
	after, err := r.apply(ctx, &n)
	if err != nil {
		return 0, err
	}
	n.Status.ObservedGeneration = n.Generation
	if equality.Semantic.DeepEqual(before, &n.Status) {
		return after, nil
	}
	if err := r.Client.Status().Update(ctx, &n); err != nil {
		return 0, err
	}
	r.sendEvent(before, &n)
	return after, nil
}

// apply has a Notification send, or not, and says so in its status.
func (r *Reconciler) apply(ctx context.Context, n *v1alpha1.Notification) (time.Duration, error) {
	key := client.ObjectKeyFromObject(n)
	if !n.DeletionTimestamp.IsZero() {
		r.sinks.remove(key)
		return 0, nil
	}
	why, err := r.silent(ctx, n)
	if err != nil {
		return 0, err
	}
	if why != nil {
		if s := r.sinks.remove(key); s != nil {
			report(n, s) // what it has told since the last write
		}
		n.Status.Memory = nil
		condition.Set(n, r.Now(), conditions.FalseCondition(v1alpha1.ConditionReady, why.reason, "%s", why.message))
		return r.Intervals.Reread, nil
	}
	to, wrong, err := r.target(ctx, n)
	if err != nil {
		return 0, err
	}
	selector, invalid := selectorOf(n)
	if invalid != nil {
		wrong = invalid
	}
	s, err := r.sinkFor(ctx, n, selector, to)
	if err != nil {
		return 0, err
	}
	failing := report(n, s)
	condition.Set(n, r.Now(), ready(n, wrong, failing))
	if wrong != nil {
		return r.Intervals.Retry, nil
	}
	return r.Intervals.Reread, nil
}

// silent says why nothing is sent although nothing is wrong with the Notification.
func (r *Reconciler) silent(ctx context.Context, n *v1alpha1.Notification) (*problem, error) {
	if r.Off {
		return &problem{v1alpha1.ReasonNotificationsOff, "nothing is sent, and what happens meanwhile is not made up for: the controller was started with --notifications=false"}, nil
	}
	tooMany, err := r.tooMany(ctx, n)
	switch {
	case err != nil:
		return nil, err
	case tooMany:
		return &problem{v1alpha1.ReasonTooManyNotifications, fmt.Sprintf("the namespace has more than %d Notifications, of which the oldest count: delete others", MaxPerNamespace)}, nil
	case n.Spec.Suspend:
		return &problem{v1alpha1.ReasonSuspended, "suspended: nothing is sent while spec.suspend is true, and what happens meanwhile is not made up for"}, nil
	}
	return nil, nil
}

// selectorOf selects what a Notification is about.
func selectorOf(n *v1alpha1.Notification) (labels.Selector, *problem) {
	if n.Spec.Selector == nil {
		return labels.Everything(), nil
	}
	out, err := metav1.LabelSelectorAsSelector(n.Spec.Selector)
	if err != nil {
		return labels.Nothing(), &problem{v1alpha1.ReasonInvalidSpec, "spec.selector: " + err.Error()}
	}
	return out, nil
}

// report sets what a sink has told, and returns why its last attempt has failed.
func report(n *v1alpha1.Notification, s *sink) string {
	memory, counts, failing := s.snapshot()
	n.Status.Memory = memory
	n.Status.Delivered, n.Status.Failed, n.Status.Dropped, n.Status.LastDeliveredTime = counts.delivered, counts.failed, counts.dropped, counts.last
	return failing
}

func ready(n *v1alpha1.Notification, wrong *problem, failing string) *metav1.Condition {
	switch {
	case wrong != nil:
		return conditions.FalseCondition(v1alpha1.ConditionReady, wrong.reason, "%s", wrong.message)
	case failing != "":
		return conditions.FalseCondition(v1alpha1.ConditionReady, v1alpha1.ReasonDeliveryFailed, "the last attempt has failed: %s", failing)
	default:
		return conditions.TrueCondition(v1alpha1.ConditionReady, v1alpha1.ReasonSucceeded, "messages are sent to %s", map[v1alpha1.NotificationType]string{
			v1alpha1.NotifyWebhook: "a webhook", v1alpha1.NotifyAlertmanager: "an Alertmanager", v1alpha1.NotifyChat: "a chat",
		}[n.Spec.Type])
	}
}

// tooMany says whether a namespace has as many older Notifications as count.
func (r *Reconciler) tooMany(ctx context.Context, n *v1alpha1.Notification) (bool, error) {
	var list v1alpha1.NotificationList
	if err := r.Client.List(ctx, &list, client.InNamespace(n.Namespace), client.UnsafeDisableDeepCopy); err != nil {
		return false, err
	}
	older := slices.DeleteFunc(slices.Clone(list.Items), func(o v1alpha1.Notification) bool {
		if c := o.CreationTimestamp.Compare(n.CreationTimestamp.Time); c != 0 {
			return c > 0
		}
		return o.Name >= n.Name
	})
	return len(older) >= MaxPerNamespace, nil
}

// target is where a Notification sends to, or what is wrong.
func (r *Reconciler) target(ctx context.Context, n *v1alpha1.Notification) (*target, *problem, error) {
	var data map[string][]byte
	if ref := n.Spec.SecretRef; ref != nil {
		key := types.NamespacedName{Namespace: n.Namespace, Name: ref.Name}
		var secret corev1.Secret
		switch err := r.Client.Get(ctx, key, &secret); {
		case apierrors.IsNotFound(err):
			return nil, &problem{v1alpha1.ReasonSecretInvalid, fmt.Sprintf("spec.secretRef: there is no Secret %s: create it with the keys that type %s needs", key, n.Spec.Type)}, nil
		case apierrors.IsForbidden(err):
			return nil, &problem{v1alpha1.ReasonBindingMissing, fmt.Sprintf(
				"spec.secretRef: MiniFleet may not read Secret %s on the hub; to let it read Secrets and ConfigMaps of this namespace: %s", key, hubobjects.BindCommand(n.Namespace, r.Namespace))}, nil
		case err != nil:
			return nil, nil, fmt.Errorf("reading Secret %s: %w", key, err)
		}
		data = secret.Data
	}
	to, wrong := newTarget(n, data, r.Network, r.Dashboard)
	if wrong != nil {
		return nil, wrong, nil
	}
	return to, nil, nil
}

// sinkFor is the sink of a Notification. A new one sees all objects of the namespace once.
func (r *Reconciler) sinkFor(ctx context.Context, n *v1alpha1.Notification, selector labels.Selector, to *target) (*sink, error) {
	s, made := r.configured(n, selector, to)
	if !made {
		return s, nil
	}
	var clusters v1alpha1.FleetMiniClusterList
	var sources v1alpha1.GitSourceList
	for _, list := range []client.ObjectList{&clusters, &sources} {
		if err := r.Client.List(ctx, list, client.InNamespace(n.Namespace), client.UnsafeDisableDeepCopy); err != nil {
			r.sinks.remove(client.ObjectKeyFromObject(n))
			return nil, err
		}
	}
	for i := range clusters.Items {
		s.runs(&clusters.Items[i])
	}
	for i := range sources.Items {
		s.source(&sources.Items[i])
	}
	s.begin()
	return s, nil
}

// configured is the sink of a Notification, and whether it was made. A new one is configured before the observer can reach it: until
// then it has no selector.
func (r *Reconciler) configured(n *v1alpha1.Notification, selector labels.Selector, to *target) (*sink, bool) {
	s, made := r.sinks.get(n, func(n *v1alpha1.Notification, slots *slots) *sink {
		s := r.newSink(n, slots)
		s.configure(n, selector, to)
		return s
	})
	if !made {
		s.configure(n, selector, to)
	}
	return s, made
}

// newSink goes on where the status says that an earlier one has ended.
func (r *Reconciler) newSink(n *v1alpha1.Notification, slots *slots) *sink {
	now := r.Now()
	memory := notify.NewMemory(n.CreationTimestamp.Time)
	switch st := &n.Status; {
	case st.Memory != nil:
		memory = notify.Restore(st.Memory, now)
	case st.ObservedGeneration != 0: // it was suspended, or did not count
		memory = notify.NewMemory(now)
	}
	return &sink{
		key: client.ObjectKeyFromObject(n), uid: n.UID, slots: slots, intervals: r.Intervals, now: r.Now, memory: memory,
		changed: func(key types.NamespacedName) { r.changes.Notify(key.String()) },
		wake:    make(chan struct{}, 1), ended: make(chan struct{}), generation: n.Status.ObservedGeneration,
		counts: counts{n.Status.Delivered, n.Status.Failed, n.Status.Dropped, n.Status.LastDeliveredTime},
	}
}

// sendEvent tells of a Notification that has come to fail, or to work again.
func (r *Reconciler) sendEvent(before *v1alpha1.NotificationStatus, n *v1alpha1.Notification) {
	was, is := conditions.Get(&v1alpha1.Notification{Status: *before}, v1alpha1.ConditionReady), conditions.Get(n, v1alpha1.ConditionReady)
	if is == nil || was != nil && was.Status == is.Status && was.Reason == is.Reason || is.Reason == v1alpha1.ReasonSuspended {
		return
	}
	kind := corev1.EventTypeWarning
	if is.Status == metav1.ConditionTrue {
		if was == nil {
			return
		}
		kind = corev1.EventTypeNormal
	}
	r.Recorder.Eventf(n, nil, kind, is.Reason, "Notify", "%s", is.Message)
}
