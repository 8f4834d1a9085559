// Package gitsource reconciles GitSources. What comes in are a GitSource, the commit that it names and the hub's
// objects of its namespace; what goes out are FleetMiniClusters and Placements as the commit declares them, and
// the GitSource's status.
//
//	fetch.go    credentials and a commit -> a tree: what the commit declares
//	turns.go    which source may be reconciled now, and which may take much memory
//	needs.go    tree + namespace -> what the source declares that needs permissions, recorded before it is applied
//	account.go  as whom a source writes, and what it lacks
//	apply.go    tree + hub -> created and updated objects
//	anew.go     one object before and after -> would it run anew; and those that wait for approval, if they are many
//	desired.go  one object in Git -> the object on the hub, and that merged with what is there
//	prune.go    tree + hub -> deleted objects, or those that wait for approval
//	report.go   all of these -> status and events
package gitsource

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/fluxcd/pkg/runtime/jitter"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	kevents "k8s.io/client-go/tools/events"
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
	"github.com/minifleet/minifleet/controllers/internal/allowance"
	"github.com/minifleet/minifleet/controllers/internal/enforcement"
	"github.com/minifleet/minifleet/controllers/internal/events"
	"github.com/minifleet/minifleet/controllers/internal/retry"
	"github.com/minifleet/minifleet/gitsource/budget"
	"github.com/minifleet/minifleet/gitsource/fetch"
	"github.com/minifleet/minifleet/internal/grant"
	"github.com/minifleet/minifleet/internal/policy"
)

// +kubebuilder:rbac:groups=minifleet.dev,resources=gitsources,verbs=get;list;watch
// +kubebuilder:rbac:groups=minifleet.dev,resources=gitsources/status,verbs=update;declare
// +kubebuilder:rbac:groups=minifleet.dev,resources=fleetminiclusters;placements,verbs=get;list;watch;create;update;delete

const (
	// conflictDelay is how long the cache is given that was behind when objects were applied.
	conflictDelay = 200 * time.Millisecond
	// intervalJitter spreads intervals, so that sources which were created together do not stay together.
	intervalJitter = 0.1
	// bindingInterval is how often it is tried again to read a Secret without the right to.
	bindingInterval = 10 * time.Second
	// defaultTimeout is that of a source that names none.
	defaultTimeout = time.Minute
)

// Reconciler keeps the hub's objects as Git repositories declare them.
type Reconciler struct {
	Client   client.Client
	Fetcher  *fetch.Fetcher
	Recorder kevents.EventRecorder
	Now      func() time.Time
	// Namespace is the manager's own.
	Namespace string
	// Accounts write for sources that name a service account; nil writes everything as Client.
	Accounts *Accounts
	// Settings are those of the administrator.
	Settings Settings
	// Policy is what takes a permission, Enforcement whether what sources allow counts.
	Policy      policy.Rules
	Enforcement *enforcement.Checker

	trees        treeCache
	turns        turns
	reservations reservations
}

// Settings bound what sources may do. Their zero value has the defaults.
type Settings struct {
	// PerNamespace is how many sources of one namespace are reconciled at once; 0 is DefaultPerNamespace.
	PerNamespace int
	// Large is how many sources at once may take more memory than budget.SmallBytes; 0 is DefaultLarge.
	Large int
	// DefaultServiceAccount is that of sources which name none; without it, these write as the hub itself.
	DefaultServiceAccount string
	// Limits are those of one repository.
	Limits budget.Limits
}

// SetUp registers the controller with a manager of the hub. A change of whether what sources allow counts is told to
// allowing, whatever the name.
func (r *Reconciler) SetUp(mgr manager.Manager, allowing *events.Notifier[reconcile.Request]) error {
	r.turns.perNamespace, r.reservations.most = r.Settings.PerNamespace, r.Settings.Large
	allowing.Requests = r.allowing
	return ctrl.NewControllerManagedBy(mgr).
		Named("gitsource").
		// An annotation, whichever it is, has the repository fetched at once.
		For(&v1alpha1.GitSource{}, builder.WithPredicates(predicate.Or[client.Object](predicate.GenerationChangedPredicate{}, predicate.AnnotationChangedPredicate{}))).
		Watches(&v1alpha1.FleetMiniCluster{}, handler.EnqueueRequestsFromMapFunc(sourceOf), builder.WithPredicates(editedOrDeleted)).
		Watches(&v1alpha1.Placement{}, handler.EnqueueRequestsFromMapFunc(sourceOf), builder.WithPredicates(editedOrDeleted)).
		Watches(&corev1.Namespace{}, handler.EnqueueRequestsFromMapFunc(r.sourcesIn), builder.WithPredicates(allowance.Changed())).
		WatchesRawSource(allowing.Source()).
		WithOptions(controller.Options{MaxConcurrentReconciles: concurrentSources, RateLimiter: retry.Limiter[reconcile.Request]()}).
		Complete(r)
}

// editedOrDeleted accepts deletions and edits of hub objects, which may have to be put back.
var editedOrDeleted = predicate.And[client.Object](predicate.GenerationChangedPredicate{}, predicate.Funcs{
	CreateFunc: func(event.CreateEvent) bool { return false },
})

func sourceOf(_ context.Context, obj client.Object) []reconcile.Request {
	name := obj.GetLabels()[v1alpha1.LabelSource]
	if name == "" {
		return nil
	}
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: obj.GetNamespace(), Name: name}}}
}

// allowing are the sources that allow something.
func (r *Reconciler) allowing(ctx context.Context, _ string) []reconcile.Request {
	var sources v1alpha1.GitSourceList
	if err := r.Client.List(ctx, &sources, client.UnsafeDisableDeepCopy); err != nil {
		return nil // a list from memory does not fail
	}
	var out []reconcile.Request
	for i := range sources.Items {
		if len(sources.Items[i].Spec.Allow) > 0 {
			out = append(out, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&sources.Items[i])})
		}
	}
	return out
}

// sourcesIn are the sources of a namespace whose allowance has changed.
func (r *Reconciler) sourcesIn(ctx context.Context, namespace client.Object) []reconcile.Request {
	var sources v1alpha1.GitSourceList
	if err := r.Client.List(ctx, &sources, client.InNamespace(namespace.GetName()), client.UnsafeDisableDeepCopy); err != nil {
		return nil // a list from memory does not fail
	}
	var out []reconcile.Request
	for i := range sources.Items {
		out = append(out, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&sources.Items[i])})
	}
	return out
}

// Reconcile fetches one repository and applies what it declares.
func (r *Reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	source := &v1alpha1.GitSource{}
	if err := r.Client.Get(ctx, req.NamespacedName, source); err != nil {
		if apierrors.IsNotFound(err) {
			r.trees.forget(req.NamespacedName)
			r.turns.forget(req.NamespacedName)
		}
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if !source.DeletionTimestamp.IsZero() {
		return reconcile.Result{}, nil
	}
	if source.Spec.Suspend {
		return retry.OnConflict(r.reportSuspended(ctx, source))
	}
	end, again := r.turns.take(req.NamespacedName)
	if end == nil {
		if err := r.reportWaiting(ctx, source); err != nil {
			return retry.OnConflict(err)
		}
		return reconcile.Result{RequeueAfter: spread(again)}, nil
	}
	defer end()
	done, err := r.sync(ctx, source)
	if apierrors.IsConflict(err) {
		return reconcile.Result{RequeueAfter: conflictDelay}, nil
	}
	if reportErr := r.report(ctx, source, done, err); reportErr != nil {
		return retry.OnConflict(reportErr)
	}
	if err != nil && !isSourceError(err) {
		return reconcile.Result{}, err
	}
	return reconcile.Result{RequeueAfter: next(source.Spec.Interval.Duration, err)}, nil
}

// next is when a source is read again. No event tells that a Secret may be read by now.
func next(interval time.Duration, err error) time.Duration {
	var own *sourceError
	if errors.As(err, &own) && own.reason == v1alpha1.ReasonBindingMissing {
		return min(spread(interval), bindingInterval)
	}
	return spread(interval)
}

// spread is an interval with jitter.
func spread(interval time.Duration) time.Duration {
	if interval <= 0 {
		interval = time.Minute
	}
	return jitter.Percent(intervalJitter, nil)(interval) // its source of randomness is not for several goroutines
}

// progress is how far one reconciliation has got, and with what outcome.
type progress struct {
	tree     *tree
	declared declaration
	applied  applied
	pruned   pruned
}

// sync fetches, applies and prunes, all within spec.timeout. After an error, everything that was applied before stays.
func (r *Reconciler) sync(ctx context.Context, source *v1alpha1.GitSource) (progress, error) {
	timeout := source.Spec.Timeout.Duration
	if timeout <= 0 {
		timeout = defaultTimeout
	}
	limited, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	done, err := r.syncWithin(limited, source)
	if err != nil && ctx.Err() == nil && errors.Is(limited.Err(), context.DeadlineExceeded) && !isSourceError(err) {
		err = timedOut(timeout, done)
	}
	return done, err
}

// timedOut says how far a reconciliation has got.
func timedOut(timeout time.Duration, done progress) error {
	const remedy = "it goes on at the next interval; spec.timeout may be longer"
	if done.tree == nil {
		return &sourceError{v1alpha1.ReasonTimedOut, fmt.Sprintf("reading the repository took longer than the %s of spec.timeout; %s", timeout, remedy)}
	}
	return &sourceError{v1alpha1.ReasonTimedOut, fmt.Sprintf("applying revision %s took longer than the %s of spec.timeout, and %d of its %d objects were applied in that time; %s",
		done.tree.revision, timeout, len(done.applied.changed), len(done.tree.parsed.Objects), remedy)}
}

func (r *Reconciler) syncWithin(ctx context.Context, source *v1alpha1.GitSource) (done progress, err error) {
	have, err := r.readHub(ctx, source.Namespace)
	if err != nil {
		return done, err
	}
	namespace, err := allowance.OfNamespace(ctx, r.Client, source.Namespace)
	if err != nil {
		return done, err
	}
	if err := checkEncrypted(source, namespace); err != nil {
		return done, err
	}
	if done.tree, err = r.fetch(ctx, source, have.filesOf(source.Name)); err != nil {
		return done, err
	}
	if done.declared, err = r.declare(ctx, source, namespace, done.tree, have); err != nil {
		return done, err
	}
	to, err := r.writer(source)
	if err != nil {
		return done, err
	}
	if done.applied, err = apply(ctx, to, source, done.tree, have); err != nil {
		return done, err
	}
	done.pruned, err = prune(ctx, to, source, done.tree, have, done.applied)
	return done, err
}

// checkEncrypted refuses http:// where something is allowed: whoever is on the way could have it use that.
func checkEncrypted(source *v1alpha1.GitSource, namespace grant.Namespace) error {
	if !strings.HasPrefix(strings.ToLower(source.Spec.URL), "http://") {
		return nil
	}
	const refused = "spec.url: http:// is refused where dangerous fields are allowed, since whoever is on the way could declare what he likes: use https://, or "
	switch {
	case len(source.Spec.Allow) > 0:
		return &sourceError{fetch.ReasonURLRefused, refused + "remove spec.allow"}
	case len(namespace.Permissions) > 0:
		return &sourceError{fetch.ReasonURLRefused, fmt.Sprintf(refused+"a namespace without the annotation %s", v1alpha1.AnnotationAllow)}
	}
	return nil
}

// sourceError is a failure that is reported in the source's conditions, and tried again at its interval.
type sourceError struct{ reason, message string }

func (e *sourceError) Error() string { return e.message }

// isSourceError says whether an error is one of the source's or its repository's, and not of the hub's.
func isSourceError(err error) bool {
	var own *sourceError
	var fetching *fetch.Error
	var exceeded *budget.Exceeded
	return errors.As(err, &own) || errors.As(err, &fetching) || errors.As(err, &exceeded)
}
