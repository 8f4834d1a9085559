package gitsource

import (
	"container/list"
	"context"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/controllers/internal/hubobjects"
	"github.com/minifleet/minifleet/gitsource/budget"
	"github.com/minifleet/minifleet/gitsource/fetch"
	"github.com/minifleet/minifleet/gitsource/parse"
)

// tree is what one commit declares.
type tree struct {
	commit, revision string
	readWith         string // what the commit was read with: a change of it reads the commit again
	about            fetch.About
	pathProblem      string // why the path cannot be read, or empty
	parsed           parse.Result
	needs            []treeNeed // the objects that need permissions, in the order of their files; nil before they were found
	needing          needing    // what they were found for
	inSync           inSync
	size             int64 // about what it takes in memory
}

// inSync has the hub objects (KIND/NAME) that were as a tree wants them, with the resource versions at which they
// were, for one default placement.
type inSync struct {
	placement string
	versions  map[string]string
}

// forPlacement forgets what was in sync with another default placement.
func (s inSync) forPlacement(placement *v1alpha1.LocalReference) inSync {
	name := ""
	if placement != nil {
		name = placement.Name
	}
	if s.versions != nil && s.placement == name {
		return s
	}
	return inSync{placement: name, versions: map[string]string{}}
}

// newTree parses what was fetched. owners maps the source's hub objects to their files.
func newTree(b *budget.Budget, namespace string, fetched *fetch.Result, readWith string, owners map[string]string) (*tree, error) {
	parsed, err := parse.Within(b, fetched.Files, parse.Options{Namespace: namespace, Owners: owners})
	if err != nil {
		return nil, err
	}
	t := &tree{
		commit: fetched.Commit, revision: fetched.Revision, about: fetched.About, readWith: readWith, parsed: parsed,
		size: b.Spent(budget.TextBytes) + bytesOfValue*b.Spent(budget.Values),
	}
	if fetched.PathMissing {
		t.pathProblem = fetched.PathProblem
	}
	return t, nil
}

// fetch reads the commit that a source names, or returns the tree of the time before if that is the same commit.
func (r *Reconciler) fetch(ctx context.Context, source *v1alpha1.GitSource, owners map[string]string) (*tree, error) {
	auth, err := r.auth(ctx, source)
	if err != nil {
		return nil, err
	}
	key := client.ObjectKeyFromObject(source)
	before := r.trees.get(key)
	req, readWith := fetchRequest(&source.Spec, before)
	req.Auth = auth
	req.Budget = budget.New(ctx, r.Settings.Limits, func(ctx context.Context) (func(), error) {
		return r.reservations.take(ctx, source.Namespace)
	})
	defer req.Budget.Close()
	result, err := r.Fetcher.Fetch(ctx, req)
	if err != nil {
		return nil, err
	}
	now := before
	if !result.Unchanged {
		if now, err = newTree(req.Budget, source.Namespace, result, readWith, owners); err != nil {
			return nil, err
		}
		r.trees.put(key, now)
	}
	now.inSync = now.inSync.forPlacement(source.Spec.DefaultPlacement)
	return now, nil
}

// fetchRequest is the request for what a source names, without credentials, and what a tree is read with. The
// commit of the tree before need not be read again if that was read with the same.
func fetchRequest(spec *v1alpha1.GitSourceSpec, before *tree) (req fetch.Request, readWith string) {
	var ref v1alpha1.GitRef
	if spec.Ref != nil {
		ref = *spec.Ref
	}
	readWith = fmt.Sprintf("%s %v %s", spec.URL, ref, spec.Path)
	req = fetch.Request{URL: spec.URL, Path: spec.Path, Ref: fetch.Ref(ref)}
	if before != nil && before.readWith == readWith {
		req.Known = before.commit
	}
	return req, readWith
}

// auth reads the credentials of a source; nil without any.
func (r *Reconciler) auth(ctx context.Context, source *v1alpha1.GitSource) (*fetch.Auth, error) {
	if source.Spec.SecretRef == nil {
		return nil, nil
	}
	key := types.NamespacedName{Namespace: source.Namespace, Name: source.Spec.SecretRef.Name}
	var secret corev1.Secret
	if err := r.Client.Get(ctx, key, &secret); err != nil {
		if apierrors.IsNotFound(err) {
			return nil, &sourceError{v1alpha1.ReasonSecretInvalid, fmt.Sprintf("spec.secretRef: there is no Secret %s: create it with the keys %s and %s, or %s",
				key, v1alpha1.GitUsernameKey, v1alpha1.GitPasswordKey, v1alpha1.GitBearerTokenKey)}
		}
		if apierrors.IsForbidden(err) {
			return nil, &sourceError{v1alpha1.ReasonBindingMissing, fmt.Sprintf(
				"spec.secretRef: MiniFleet may not read Secret %s on the hub; to let it read Secrets and ConfigMaps of this namespace: %s",
				key, hubobjects.BindCommand(source.Namespace, r.Namespace))}
		}
		return nil, fmt.Errorf("reading Secret %s: %w", key, err)
	}
	return &fetch.Auth{
		Username: string(secret.Data[v1alpha1.GitUsernameKey]), Password: string(secret.Data[v1alpha1.GitPasswordKey]),
		BearerToken: string(secret.Data[v1alpha1.GitBearerTokenKey]), CABundle: secret.Data[v1alpha1.GitCAKey],
	}, nil
}

const (
	// largeBytes is what a source may take that has a reservation.
	largeBytes = budget.DefaultMaxMemoryBytes
	// bytesOfValue is about what a value of a tree takes, besides its text.
	bytesOfValue = 64
	// maxTreeBytes is about how much the trees of all sources take that are remembered.
	maxTreeBytes = 128 << 20
)

// treeCache remembers the last tree of each source, so that a reconciliation which finds the same commit needs no
// more than the list of refs, and can still put back what was deleted on the hub. Where all of them would take too much,
// those that were not used for longest are forgotten, and read again when they are needed.
type treeCache struct {
	mu    sync.Mutex
	trees map[types.NamespacedName]*list.Element // of *cachedTree
	order list.List                              // used last first
	size  int64
	most  int64 // 0 is maxTreeBytes
}

type cachedTree struct {
	key  types.NamespacedName
	tree *tree
}

func (c *treeCache) get(key types.NamespacedName) *tree {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.trees[key]
	if e == nil {
		return nil
	}
	c.order.MoveToFront(e)
	return valueOf(e).tree
}

func (c *treeCache) put(key types.NamespacedName, t *tree) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.remove(c.trees[key])
	if c.trees == nil {
		c.trees = map[types.NamespacedName]*list.Element{}
	}
	c.trees[key] = c.order.PushFront(&cachedTree{key, t})
	c.size += t.size
	most := c.most
	if most == 0 {
		most = maxTreeBytes
	}
	for c.size > most && c.order.Len() > 1 {
		c.remove(c.order.Back())
	}
}

func (c *treeCache) forget(key types.NamespacedName) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.remove(c.trees[key])
}

func (c *treeCache) remove(e *list.Element) {
	if e == nil {
		return
	}
	cached := valueOf(e)
	c.order.Remove(e)
	delete(c.trees, cached.key)
	c.size -= cached.tree.size
}

func valueOf(e *list.Element) *cachedTree {
	return e.Value.(*cachedTree) //nolint:forcetypeassert // nothing else is put into the list
}
