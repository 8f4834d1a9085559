package gitsource

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kevents "k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/gitsource"
	"github.com/minifleet/minifleet/gitsource/fetch"
	"github.com/minifleet/minifleet/gitsource/parse"
	"github.com/minifleet/minifleet/hack/lab"
)

const benchMiniCluster = `apiVersion: flux-framework.org/v1alpha2
kind: MiniCluster
metadata: {name: m-%05d, labels: {minifleet.dev/placement: p}}
spec:
  size: %d
  tasks: 4
  containers:
  - image: ghcr.io/converged-computing/metric-lammps:latest
    command: lmp -v x 2 -v y 2 -v z 2 -in in.reaxc.hns -nocite
    resources:
      limits: {cpu: "4", memory: 2Gi}
`

// hubInMemory is a hub that answers at once, as a cache does: what is listed is not copied.
type hubInMemory struct {
	client.Client
	mu      sync.Mutex
	version int
	source  *v1alpha1.GitSource
	fleet   map[string]*v1alpha1.FleetMiniCluster
	places  map[string]*v1alpha1.Placement
	writes  int
}

func (h *hubInMemory) Get(_ context.Context, _ client.ObjectKey, obj client.Object, _ ...client.GetOption) error {
	if s, ok := obj.(*v1alpha1.GitSource); ok {
		h.source.DeepCopyInto(s)
	}
	return nil
}

func (h *hubInMemory) List(_ context.Context, list client.ObjectList, _ ...client.ListOption) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch l := list.(type) {
	case *v1alpha1.FleetMiniClusterList:
		l.Items = make([]v1alpha1.FleetMiniCluster, 0, len(h.fleet))
		for _, f := range h.fleet {
			l.Items = append(l.Items, *f)
		}
	case *v1alpha1.PlacementList:
		for _, p := range h.places {
			l.Items = append(l.Items, *p)
		}
	}
	return nil
}

func (h *hubInMemory) put(obj client.Object) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.version++
	h.writes++
	obj.SetResourceVersion(strconv.Itoa(h.version))
	switch o := obj.(type) {
	case *v1alpha1.FleetMiniCluster:
		h.fleet[o.Name] = o.DeepCopy()
	case *v1alpha1.Placement:
		h.places[o.Name] = o.DeepCopy()
	}
	return nil
}

func (h *hubInMemory) Create(_ context.Context, obj client.Object, _ ...client.CreateOption) error {
	return h.put(obj)
}

func (h *hubInMemory) Update(_ context.Context, obj client.Object, _ ...client.UpdateOption) error {
	return h.put(obj)
}

func (h *hubInMemory) Status() client.SubResourceWriter { return statusInMemory{hub: h} }

type statusInMemory struct {
	client.SubResourceWriter
	hub *hubInMemory
}

func (s statusInMemory) Update(_ context.Context, obj client.Object, _ ...client.SubResourceUpdateOption) error {
	if source, ok := obj.(*v1alpha1.GitSource); ok {
		s.hub.source = source.DeepCopy()
		s.hub.writes++
	}
	return nil
}

// repositoryOfMany has ten thousand files, of which four thousand are MiniClusters.
type repositoryOfMany struct {
	tb     testing.TB
	server *lab.GitServer
	clone  string
	n      int
}

func newRepositoryOfMany(tb testing.TB) *repositoryOfMany {
	dir := tb.TempDir()
	server, err := lab.NewGitServer(filepath.Join(dir, "server"))
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = server.Stop() })
	if err := server.CreateRepo("fleet"); err != nil {
		tb.Fatal(err)
	}
	r := &repositoryOfMany{tb: tb, server: server, clone: filepath.Join(dir, "clone")}
	r.git(dir, "clone", "--quiet", server.URL("fleet"), r.clone)
	r.write("p.yaml", "apiVersion: minifleet.dev/v1alpha1\nkind: Placement\nmetadata: {name: p}\nspec: {clusterSelector: {}}\n")
	for i := range 4000 {
		r.write(fmt.Sprintf("fleet/%02d/m-%05d.yaml", i%100, i), fmt.Sprintf(benchMiniCluster, i, 1))
	}
	for i := range 5999 {
		r.write(fmt.Sprintf("other/%02d/c-%05d.yaml", i%100, i), fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c-%05d}\ndata: {a: b}\n", i))
	}
	r.push()
	return r
}

func (r *repositoryOfMany) git(dir string, args ...string) {
	cmd := exec.Command("git", args...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1")
	if out, err := cmd.CombinedOutput(); err != nil {
		r.tb.Fatalf("git %s: %v: %s", strings.Join(args, " "), err, out)
	}
}

func (r *repositoryOfMany) write(path, text string) {
	full := filepath.Join(r.clone, path)
	if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
		r.tb.Fatal(err)
	}
	if err := os.WriteFile(full, []byte(text), 0o600); err != nil {
		r.tb.Fatal(err)
	}
}

func (r *repositoryOfMany) push() {
	r.git(r.clone, "add", "--all")
	r.git(r.clone, "-c", "user.name=bench", "-c", "user.email=bench@minifleet.invalid", "-c", "gc.auto=0", "commit", "--quiet", "--message=change")
	r.git(r.clone, "push", "--quiet", "origin", "HEAD:main")
}

// change pushes a commit that changes one MiniCluster.
func (r *repositoryOfMany) change() {
	r.n++
	r.write("fleet/42/m-00042.yaml", fmt.Sprintf(benchMiniCluster, 42, 1+r.n))
	r.push()
}

// BenchmarkCommit is what one commit takes from the request for references to the status, with a hub that takes no time: one
// that changes one of 10,000 files, one that changes nothing, and one that is read with nothing kept. Beside it is what git
// itself takes to fetch the one that changes one file, and one ls-remote over an open connection.
func BenchmarkCommit(b *testing.B) {
	repo := newRepositoryOfMany(b)
	hub := &hubInMemory{fleet: map[string]*v1alpha1.FleetMiniCluster{}, places: map[string]*v1alpha1.Placement{}}
	hub.source = &v1alpha1.GitSource{ObjectMeta: metav1.ObjectMeta{Namespace: "hpc", Name: "fleet"}}
	hub.source.Spec = v1alpha1.GitSourceSpec{URL: repo.server.URL("fleet"), Ref: &v1alpha1.GitRef{Branch: "main"}, Timeout: metav1.Duration{Duration: time.Minute}}
	r := &Reconciler{Client: hub, Fetcher: &fetch.Fetcher{}, Recorder: &kevents.FakeRecorder{}, Now: time.Now}
	sync := func() {
		b.Helper()
		if _, err := r.Reconcile(b.Context(), reconcile.Request{NamespacedName: client.ObjectKeyFromObject(hub.source)}); err != nil {
			b.Fatal(err)
		}
	}
	for range 2 {
		sync()
	}
	if len(hub.fleet) != 4000 {
		b.Fatalf("%d MiniClusters: %+v", len(hub.fleet), hub.source.Status.Conditions)
	}
	changed := func(b *testing.B, prepare, measured func(), writes int) {
		for b.Loop() {
			b.StopTimer()
			repo.change()
			prepare()
			hub.writes = 0
			b.StartTimer()
			measured()
			if hub.writes != writes {
				b.Fatalf("%d writes, want %d: %+v", hub.writes, writes, hub.source.Status.Conditions)
			}
		}
	}
	nothing := func() {}
	b.Run("one of 10,000 files changed", func(b *testing.B) { changed(b, nothing, sync, 2) })
	b.Run("one of 10,000 files changed, nothing kept", func(b *testing.B) {
		changed(b, func() {
			r.Fetcher = &fetch.Fetcher{}
			r.trees.forget(client.ObjectKeyFromObject(hub.source))
		}, sync, 2)
	})
	b.Run("git fetch and one parse", func(b *testing.B) {
		shallow := filepath.Join(b.TempDir(), "shallow")
		repo.git(repo.clone, "clone", "--quiet", "--bare", "--depth=1", repo.server.URL("fleet"), shallow)
		text := fmt.Appendf(nil, benchMiniCluster, 42, 1)
		changed(b, nothing, func() {
			repo.git(shallow, "fetch", "--quiet", "--depth=1", "origin", "main")
			parse.Tree([]gitsource.File{{Path: "a.yaml", Data: text}}, parse.Options{Namespace: "hpc"})
		}, 0)
	})
	b.Run("nothing changed", func(b *testing.B) {
		sync()
		hub.writes = 0
		for b.Loop() {
			sync()
		}
		if hub.writes != 0 {
			b.Errorf("%d writes", hub.writes)
		}
	})
	b.Run("one ls-remote", func(b *testing.B) {
		req := fetch.Request{URL: repo.server.URL("fleet"), Ref: fetch.Ref{Branch: "main"}, Known: hub.source.Status.Commit}
		for b.Loop() {
			if res, err := r.Fetcher.Fetch(b.Context(), req); err != nil || !res.Unchanged {
				b.Fatal(err)
			}
		}
	})
}
