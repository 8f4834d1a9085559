package controllers

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
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
	"github.com/minifleet/minifleet/controllers/internal/allowance"
	"github.com/minifleet/minifleet/controllers/internal/retry"
	"github.com/minifleet/minifleet/gitsource/fetch"
	"github.com/minifleet/minifleet/gitsource/parse"
)

// +kubebuilder:rbac:groups=minifleet.dev,resources=gitsources,verbs=get;list;watch
// +kubebuilder:rbac:groups=minifleet.dev,resources=gitsources/status,verbs=update
// +kubebuilder:rbac:groups=minifleet.dev,resources=fleetminiclusters;placements,verbs=get;list;watch;create;update;delete

// GitSourceReconciler keeps the hub's objects as a Git repository declares them.
type GitSourceReconciler struct {
	Client   client.Client
	Fetcher  *fetch.Fetcher
	Recorder events.EventRecorder
	Now      func() time.Time

	trees treeCache
}

func (r *GitSourceReconciler) setUp(mgr manager.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).
		Named("gitsource").
		// An annotation, whichever it is, makes the source look at its repository at once.
		For(&v1alpha1.GitSource{}, builder.WithPredicates(predicate.Or[client.Object](predicate.GenerationChangedPredicate{}, predicate.AnnotationChangedPredicate{}))).
		Watches(&v1alpha1.FleetMiniCluster{}, handler.EnqueueRequestsFromMapFunc(sourceOf), builder.WithPredicates(edited)).
		Watches(&v1alpha1.Placement{}, handler.EnqueueRequestsFromMapFunc(sourceOf), builder.WithPredicates(edited)).
		Watches(&corev1.Namespace{}, handler.EnqueueRequestsFromMapFunc(r.sourcesIn), builder.WithPredicates(allowance.Changed())).
		WithOptions(controller.Options{MaxConcurrentReconciles: 8, RateLimiter: retry.Limiter[reconcile.Request]()}).
		Complete(r)
}

// edited lets through deletions and edits of hub objects, which may have to be put back.
var edited = predicate.And[client.Object](predicate.GenerationChangedPredicate{}, predicate.Funcs{
	CreateFunc: func(event.CreateEvent) bool { return false },
})

func sourceOf(_ context.Context, obj client.Object) []reconcile.Request {
	name := obj.GetLabels()[v1alpha1.LabelSource]
	if name == "" {
		return nil
	}
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: obj.GetNamespace(), Name: name}}}
}

// Reconcile looks at one repository and applies what it declares.
func (r *GitSourceReconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	source := &v1alpha1.GitSource{}
	if err := r.Client.Get(ctx, req.NamespacedName, source); err != nil {
		if apierrors.IsNotFound(err) {
			r.trees.forget(req.NamespacedName)
		}
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	s := &gitSync{r: r, source: source, key: req.NamespacedName}
	if !source.DeletionTimestamp.IsZero() {
		return reconcile.Result{}, nil
	}
	if source.Spec.Suspend {
		return reconcile.Result{}, s.reportSuspended(ctx)
	}
	err := s.run(ctx)
	if apierrors.IsConflict(err) {
		return reconcile.Result{RequeueAfter: 200 * time.Millisecond}, nil // the cache was behind
	}
	if reportErr := s.report(ctx, err); reportErr != nil {
		return retry.OnConflict(reportErr)
	}
	if err != nil && !s.expected(err) {
		return reconcile.Result{}, err
	}
	return reconcile.Result{RequeueAfter: jitter(source.Spec.Interval.Duration)}, nil
}

// jitter spreads d by a tenth, so that sources which were created together do not stay together.
func jitter(d time.Duration) time.Duration {
	if d <= 0 {
		d = time.Minute
	}
	return d - d/10 + rand.N(d/5+1) //nolint:gosec // jitter needs no secrecy
}

// gitSync is one look at a repository.
type gitSync struct {
	r      *GitSourceReconciler
	source *v1alpha1.GitSource
	key    types.NamespacedName

	tree     *tree
	problems []v1alpha1.FileProblem // what could not be applied
	warnings []v1alpha1.FileProblem
	applied  []string // KIND/NAME of what was created or updated
	pruned   []string
	blocked  []string // what would be pruned if somebody approved it

	needs     []v1alpha1.DeclaredNeed // what Git declares that needs permissions
	oldNeeds  []v1alpha1.DeclaredNeed // what it declared before, and is on the hub yet
	unapplied []string                // KIND/NAME of what could not be applied
}

// tree is what one commit declares.
type tree struct {
	commit, revision string
	spec             string // what the commit was read with: a change of it reads the commit again
	missing          string // why the path cannot be read, or empty
	parsed           parse.Result
	// settled maps hub objects (KIND/NAME) to the resource version at which they were as this tree, with this
	// default placement, wants them.
	settled    map[string]string
	settledFor string
	// needy are the objects that need permissions, once they have been judged.
	needy  []needyObject
	judged bool
}

// settleFor makes every object be looked at anew when the default placement has changed.
func (t *tree) settleFor(placement *v1alpha1.LocalReference) {
	name := ""
	if placement != nil {
		name = placement.Name
	}
	if name != t.settledFor {
		t.settled, t.settledFor = map[string]string{}, name
	}
}

// treeCache remembers the last tree of each source, so that a look which finds the same commit needs no
// more than the list of refs, and can still put back what was deleted on the hub.
type treeCache struct {
	mu    sync.Mutex
	trees map[types.NamespacedName]*tree
}

func (c *treeCache) get(key types.NamespacedName) *tree {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.trees[key]
}

func (c *treeCache) put(key types.NamespacedName, t *tree) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.trees == nil {
		c.trees = map[types.NamespacedName]*tree{}
	}
	c.trees[key] = t
}

func (c *treeCache) forget(key types.NamespacedName) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.trees, key)
}

// run fetches, applies and prunes. After an error, everything that was applied before stays.
func (s *gitSync) run(ctx context.Context) error {
	existing, err := s.existing(ctx)
	if err != nil {
		return err
	}
	if err := s.fetch(ctx, existing); err != nil {
		return err
	}
	if err := s.vouch(ctx, existing); err != nil {
		return err
	}
	if err := s.apply(ctx, existing); err != nil {
		return err
	}
	return s.prune(ctx, existing)
}

func (s *gitSync) fetch(ctx context.Context, have existing) error {
	auth, err := s.auth(ctx)
	if err != nil {
		return err
	}
	spec := s.source.Spec
	before := s.r.trees.get(s.key)
	var ref v1alpha1.GitRef
	if spec.Ref != nil {
		ref = *spec.Ref
	}
	readWith := fmt.Sprintf("%s %v %s", spec.URL, ref, spec.Path)
	req := fetch.Request{URL: spec.URL, Path: spec.Path, Auth: auth, Ref: fetch.Ref(ref)}
	if before != nil && before.spec == readWith {
		req.Known = before.commit
	}
	if spec.Timeout.Duration > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, spec.Timeout.Duration)
		defer cancel()
	}
	result, err := s.r.Fetcher.Fetch(ctx, req)
	if err != nil {
		return err
	}
	if result.Unchanged {
		s.tree = before
		s.tree.settleFor(s.source.Spec.DefaultPlacement)
		return nil
	}
	s.tree = &tree{
		commit: result.Commit, revision: result.Revision, spec: readWith,
		settled: map[string]string{},
		parsed:  parse.Tree(result.Files, parse.Options{Namespace: s.source.Namespace, Owners: s.files(have)}),
	}
	if result.PathMissing {
		s.tree.missing = result.PathProblem
	}
	s.tree.settleFor(s.source.Spec.DefaultPlacement)
	s.r.trees.put(s.key, s.tree)
	return nil
}

// auth reads the credentials of the source; nil without any.
func (s *gitSync) auth(ctx context.Context) (*fetch.Auth, error) {
	if s.source.Spec.SecretRef == nil {
		return nil, nil
	}
	key := types.NamespacedName{Namespace: s.source.Namespace, Name: s.source.Spec.SecretRef.Name}
	var secret corev1.Secret
	if err := s.r.Client.Get(ctx, key, &secret); err != nil {
		if apierrors.IsNotFound(err) {
			return nil, &sourceError{v1alpha1.ReasonSecretInvalid, fmt.Sprintf("spec.secretRef: there is no Secret %s: create it with the keys %s and %s, or %s",
				key, v1alpha1.GitUsernameKey, v1alpha1.GitPasswordKey, v1alpha1.GitBearerTokenKey)}
		}
		return nil, fmt.Errorf("reading Secret %s: %w", key, err)
	}
	return &fetch.Auth{
		Username: string(secret.Data[v1alpha1.GitUsernameKey]), Password: string(secret.Data[v1alpha1.GitPasswordKey]),
		BearerToken: string(secret.Data[v1alpha1.GitBearerTokenKey]), CABundle: secret.Data[v1alpha1.GitCAKey],
	}, nil
}

// sourceError is a failure that is reported in the source's conditions, and tried again at its interval.
type sourceError struct{ reason, message string }

func (e *sourceError) Error() string { return e.message }

// expected says whether an error is one of the source's or its repository's, and not of the hub's.
func (s *gitSync) expected(err error) bool {
	var own *sourceError
	var fetching *fetch.Error
	return errors.As(err, &own) || errors.As(err, &fetching)
}
