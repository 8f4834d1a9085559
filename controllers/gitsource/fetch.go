package gitsource

import (
	"container/list"
	"context"
	"fmt"
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/gitsource/budget"
	"github.com/minifleet/minifleet/gitsource/fetch"
	"github.com/minifleet/minifleet/gitsource/parse"
	"github.com/minifleet/minifleet/gitsource/verify"
	"github.com/minifleet/minifleet/internal/changes"
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
	// found is what each object needs, by identity, and foundBefore that of the tree before until needs were found.
	found, foundBefore map[any]foundNeed
	inSync             inSync
	signed             fetch.Signed   // what may be signed, which is verified each time
	verified           *verify.Result // by whom it is; nil where spec.verify does not ask
	changed            []string       // what it has changed on the hub, as +KEY, ~KEY and -KEY, until a status tells it
	size               int64          // about what it takes in memory
	read               reading        // when it was read, until a trace tells it
	// inventory is what a status lists while everything is in sync; nil before that was so.
	inventory []v1alpha1.InventoryEntry
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

// newTree parses what was fetched. owners maps the source's hub objects to their files. What has not changed since the
// tree before, which may be nil, is taken from there.
func newTree(b *budget.Budget, namespace string, fetched *fetch.Result, readWith string, owners map[string]string, before *tree) (*tree, error) {
	parsed, err := parse.Within(b, fetched.Files, parse.Options{Namespace: namespace, Owners: owners, Before: before.files()})
	if err != nil {
		return nil, err
	}
	t := &tree{
		commit: fetched.Commit, revision: fetched.Revision, about: fetched.About, readWith: readWith, parsed: parsed,
		signed: fetched.Signed,
		size:   b.Spent(budget.TextBytes) + bytesOfValue*b.Spent(budget.Values) + bytesOfFile*int64(len(fetched.Files)) + fetched.Signed.Bytes(),
	}
	t.carry(before)
	if fetched.PathMissing {
		t.pathProblem = fetched.PathProblem
	}
	return t, nil
}

// files are the results of single files.
func (t *tree) files() *parse.Parsed {
	if t == nil {
		return nil
	}
	return t.parsed.Parsed
}

// carry takes over what was found for objects that have not changed.
func (t *tree) carry(before *tree) {
	if before == nil {
		return
	}
	t.foundBefore = before.found
	if before.inSync.versions == nil {
		return
	}
	was := make(map[string]any, len(before.parsed.Objects))
	for i := range before.parsed.Objects {
		o := &before.parsed.Objects[i]
		was[changes.Key(o.Kind, o.Name)] = identity(o)
	}
	t.inSync = inSync{placement: before.inSync.placement, versions: make(map[string]string, len(before.inSync.versions))}
	for i := range t.parsed.Objects {
		o := &t.parsed.Objects[i]
		key := changes.Key(o.Kind, o.Name)
		if version := before.inSync.versions[key]; version != "" && was[key] == identity(o) {
			t.inSync.versions[key] = version
		}
	}
}

// identity is the same for two objects that were parsed once: then they come from the same place of a file with the same
// path and content.
func identity(o *parse.Object) any {
	switch {
	case o.MiniCluster != nil:
		return o.MiniCluster
	case o.FleetMiniCluster != nil:
		return o.FleetMiniCluster
	default:
		return o.Placement
	}
}

// fetch reads the commit that a source names, or returns the tree of the time before if that is the same commit. It is
// verified before any manifest of it is parsed; of one that is not verified, the tree says no more than which it is. What is
// on the hub says which file every object has come from.
func (r *Reconciler) fetch(ctx context.Context, source *v1alpha1.GitSource, have changes.Hub) (*tree, error) {
	auth, err := r.auth(ctx, source)
	if err != nil {
		return nil, err
	}
	trusted, err := r.trust(ctx, source)
	if err != nil {
		return nil, err
	}
	key := client.ObjectKeyFromObject(source)
	before := r.trees.get(key)
	req, readWith := fetchRequest(&source.Spec, before)
	req.Auth, req.Have = auth, before.files().Has
	req.Budget = budget.New(ctx, r.Settings.Limits, func(ctx context.Context) (func(), error) {
		return r.reservations.take(ctx, source.Namespace)
	})
	defer req.Budget.Close()
	times := reading{began: r.Now()}
	result, err := r.Fetcher.Fetch(ctx, req)
	if err != nil {
		return nil, err
	}
	times.fetched = r.Now()
	signed := result.Signed
	if result.Unchanged {
		signed = before.signed
	}
	verified, err := trusted.check(result.Revision, result.RefName, signed, r.Now())
	if err != nil {
		return rejected(result, before), err
	}
	now := before
	if result.Unchanged {
		now.revision = result.Revision // another tag, say, leads to the same commit
	} else {
		again, err := buildOverlays(ctx, r.Overlays, req.Budget, result)
		if err != nil {
			return attempted(result, verified, err)
		}
		if again {
			readWith = "" // the commit is read again at the next interval
		}
		if now, err = newTree(req.Budget, source.Namespace, result, readWith, have.FilesOf(source.Name), before); err != nil {
			return attempted(result, verified, err)
		}
		times.parsed = r.Now()
		now.read = times
		r.trees.put(key, now)
	}
	now.verified = verified
	now.inSync = now.inSync.forPlacement(source.Spec.DefaultPlacement)
	return now, nil
}

// attempted is what is known of a commit that cannot be read to its end, where that is for the source to say.
func attempted(fetched *fetch.Result, verified *verify.Result, err error) (*tree, error) {
	if !isSourceError(err) {
		return nil, err
	}
	t := rejected(fetched, nil)
	t.verified = verified
	return t, err
}

// fetchRequest is the request for what a source names, without credentials, and what a tree is read with. The
// commit of the tree before need not be read again if that was read with the same.
func fetchRequest(spec *v1alpha1.GitSourceSpec, before *tree) (req fetch.Request, readWith string) {
	var ref v1alpha1.GitRef
	if spec.Ref != nil {
		ref = *spec.Ref
	}
	readWith = fmt.Sprintf("%s %v %q %q %q", spec.URL, ref, spec.Path, spec.Paths, spec.Ignore)
	req = fetch.Request{URL: spec.URL, Path: spec.Path, Paths: spec.Paths, Ignore: spec.Ignore, Ref: fetch.Ref{
		Branch: ref.Branch, Tag: ref.Tag, SemVer: ref.SemVer, Name: ref.Name, Commit: ref.Commit,
	}}
	if before != nil && before.readWith == readWith {
		req.Known = before.commit
	}
	wantTags(&req, spec, before)
	return req, readWith
}

const (
	// largeBytes is what a source may take that has a reservation.
	largeBytes = budget.DefaultMaxMemoryBytes
	// bytesOfValue is about what a value of a tree takes, besides its text.
	bytesOfValue = 64
	// bytesOfFile is about what a file of a tree takes, besides its objects.
	bytesOfFile = 1024
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
