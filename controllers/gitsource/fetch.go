package gitsource

import (
	"context"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/controllers/internal/hubobjects"
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
	needs            []treeNeed // the objects that need permissions, in the order of their files
	inSync           inSync
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
func newTree(namespace string, fetched *fetch.Result, readWith string, owners map[string]string) *tree {
	t := &tree{
		commit: fetched.Commit, revision: fetched.Revision, about: fetched.About, readWith: readWith,
		parsed: parse.Tree(fetched.Files, parse.Options{Namespace: namespace, Owners: owners}),
	}
	if fetched.PathMissing {
		t.pathProblem = fetched.PathProblem
	}
	t.needs = needsOf(t.parsed.Objects)
	return t
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
	if timeout := source.Spec.Timeout.Duration; timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, timeout)
		defer cancel()
	}
	result, err := r.Fetcher.Fetch(ctx, req)
	if err != nil {
		return nil, err
	}
	now := before
	if !result.Unchanged {
		now = newTree(source.Namespace, result, readWith, owners)
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

// treeCache remembers the last tree of each source, so that a reconciliation which finds the same commit needs no
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
