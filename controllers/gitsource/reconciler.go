// Package gitsource reconciles GitSources. What comes in are a GitSource, the commit that it names and the hub's
// objects of its namespace; what goes out are FleetMiniClusters and Placements as the commit declares them, and
// the GitSource's status.
//
//	fetch.go    credentials and a commit -> a tree: what the commit declares
//	verify.go   spec.verify + a commit -> who has signed it, or why it is not applied
//	overlays.go what the overlays of a commit build to, with its other files
//	hub.go      a source, and the names that its commit declares -> what the hub has of them
//	turns.go    which source may be reconciled now, and which may take much memory
//	needs.go    tree + namespace -> what the source declares that needs permissions, recorded before it is applied
//	account.go  as whom a source writes, and what it lacks
//	apply.go    what is to change (internal/changes) -> created and updated objects
//	prune.go    what is to change -> deleted objects
//	dryrun.go   what is to change -> the status of a source that changes nothing
//	inventory.go what became of all this -> the list of the objects of a source
//	origin.go   where what is applied comes from, and approvals that have been used
//	finalize.go a source that is deleted -> what goes with it
//	report.go   all of these -> status and events
//	webhook.go  spec.receiver -> the path of a webhook; triggers.go: a webhook -> a reconciliation
//	measure.go  what of all this is counted (controllers/internal/metrics)
//	requests.go two annotations -> the request that was made last
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
	"github.com/minifleet/minifleet/controllers/internal/commits"
	"github.com/minifleet/minifleet/controllers/internal/enforcement"
	"github.com/minifleet/minifleet/controllers/internal/events"
	"github.com/minifleet/minifleet/controllers/internal/metrics"
	"github.com/minifleet/minifleet/controllers/internal/retry"
	"github.com/minifleet/minifleet/gitsource/budget"
	"github.com/minifleet/minifleet/gitsource/fetch"
	"github.com/minifleet/minifleet/gitsource/receiver"
	"github.com/minifleet/minifleet/internal/changes"
	"github.com/minifleet/minifleet/internal/grant"
	"github.com/minifleet/minifleet/internal/policy"
	"github.com/minifleet/minifleet/internal/tracing"
)

// +kubebuilder:rbac:groups=minifleet.dev,resources=gitsources,verbs=get;list;watch;update
// +kubebuilder:rbac:groups=minifleet.dev,resources=gitsources/status,verbs=update;declare
// +kubebuilder:rbac:groups=minifleet.dev,resources=fleetminiclusters;placements,verbs=get;list;watch;create;update;delete

const (
	// conflictDelay is how long the cache is given that was behind when objects were applied.
	conflictDelay = 200 * time.Millisecond
	// intervalJitter spreads intervals, so that sources which were created together do not stay together.
	intervalJitter = 0.1
	// bindingInterval is how often it is tried again to read a Secret without the right to.
	bindingInterval = 10 * time.Second
	// firstRun is how long the status of a source waits, at most, for the first of what it has applied to be reconciled.
	firstRun = 100 * time.Millisecond
	// defaultTimeout is that of a source that names none.
	defaultTimeout = time.Minute
)

// Reconciler keeps the hub's objects as Git repositories declare them.
type Reconciler struct {
	Client client.Client
	// Live reads the hub itself, and not the cache.
	Live client.Reader
	// Fleet finds FleetMiniClusters among thousands of others; nil lists all with Client.
	Fleet   Fleet
	Fetcher *fetch.Fetcher
	// Overlays builds the paths that hold a kustomization.
	Overlays overlayBuilder
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
	// Webhooks have sources reconciled when something is pushed; nil where the hub does not listen for them.
	Webhooks *receiver.Server
	// Arrivals are told when commits become known.
	Arrivals *metrics.Arrivals
	// Commits tells when the first FleetMiniCluster of a commit was reconciled; nil where nobody waits for that.
	Commits *commits.Tracker

	trees        treeCache
	turns        turns
	reservations reservations
	requests     requests
	triggers     triggers
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
	r.turns.wake = func(name types.NamespacedName) { r.triggers.trigger(name, 0) }
	allowing.Requests = r.allowing
	if r.Webhooks != nil {
		r.Webhooks.SetSink(r)
	}
	return ctrl.NewControllerManagedBy(mgr).
		Named("gitsource").
		// An annotation, whichever it is, has the repository fetched at once.
		For(&v1alpha1.GitSource{}, builder.WithPredicates(predicate.Or[client.Object](predicate.GenerationChangedPredicate{}, predicate.AnnotationChangedPredicate{}))).
		Watches(&v1alpha1.FleetMiniCluster{}, handler.EnqueueRequestsFromMapFunc(sourceOf), builder.WithPredicates(editedOrDeleted)).
		Watches(&v1alpha1.Placement{}, handler.EnqueueRequestsFromMapFunc(sourceOf), builder.WithPredicates(editedOrDeleted)).
		Watches(&corev1.Namespace{}, handler.EnqueueRequestsFromMapFunc(r.sourcesIn), builder.WithPredicates(allowance.Changed())).
		WatchesRawSource(allowing.Source()).
		WatchesRawSource(r.triggers.source()).
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
			r.requests.forget(req.NamespacedName)
			r.Arrivals.Forget(req.NamespacedName)
			if r.Webhooks != nil {
				r.Webhooks.Remove(req.NamespacedName)
			}
		}
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if !source.DeletionTimestamp.IsZero() {
		return r.finalize(ctx, source)
	}
	r.listen(ctx, source)
	if source.Spec.Suspend {
		return retry.OnConflict(r.reportSuspended(ctx, source))
	}
	if err := r.setFinalizer(ctx, source); err != nil {
		return retry.OnConflict(err)
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
	return reconcile.Result{RequeueAfter: untilWebhook(source, next(source.Spec.Interval.Duration, err))}, nil
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
	plan     changes.Plan
	// carriedOut says that the plan was, as far as applied and pruned say.
	carriedOut bool
	applied    applied
	pruned     pruned
	request    string // the token of the request that was made last, to be answered
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
	have, err := r.readOwn(ctx, source)
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
	if done.tree, err = r.measured(ctx, source, have); err != nil {
		return done, err
	}
	if err := r.addNamed(ctx, have, source.Namespace, done.tree.parsed.Objects); err != nil {
		return done, err
	}
	ctx, span := traceCommit(ctx, source, done.tree)
	defer func() { span.End(err) }()
	if done.declared, err = r.declare(ctx, source, namespace, done.tree, have); err != nil {
		return done, err
	}
	done.plan = changes.Compare(input(source, done.tree, have))
	done.tree.inSync.versions = done.plan.InSync
	if isDry(source) {
		return done, nil
	}
	return r.carryOut(ctx, source, done)
}

// carryOut applies and prunes as planned.
func (r *Reconciler) carryOut(ctx context.Context, source *v1alpha1.GitSource, done progress) (progress, error) {
	if err := r.record(ctx, source, done.declared); err != nil {
		return done, err
	}
	to, err := r.writer(source)
	if err != nil {
		return done, err
	}
	if err := r.noteOrigin(ctx, source); err != nil {
		return done, err
	}
	done.carriedOut = true
	key := client.ObjectKeyFromObject(source)
	first := r.Commits.Expect(key, done.tree.commit)
	defer r.Commits.Forget(key, done.tree.commit)
	ctx, span := tracing.Start(ctx, "apply", tracing.Number("minifleet.changes", len(done.plan.Changes)))
	if done.applied, err = apply(ctx, to, r.Live, source, &done.plan); err == nil {
		done.pruned, err = prune(ctx, to, &done.plan, done.applied)
	}
	span.End(err)
	noteChanges(source, done)
	if err == nil && done.applied.anyMiniCluster() {
		giveWay(ctx, first)
	}
	return done, err
}

// giveWay has what was applied go before the status of its source: somebody waits for the Job, and the hub's API server answers the
// requests of both at the same time.
func giveWay(ctx context.Context, first <-chan struct{}) {
	if first == nil {
		return
	}
	timer := time.NewTimer(firstRun)
	defer timer.Stop()
	select {
	case <-first:
	case <-timer.C:
	case <-ctx.Done():
	}
}

// input is what a tree changes on the hub.
func input(source *v1alpha1.GitSource, t *tree, have changes.Hub) changes.Input {
	return changes.Input{
		Source: source, Commit: commitOf(t), Parsed: t.parsed, PathProblem: t.pathProblem, Hub: have, InSync: t.inSync.versions,
	}
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
