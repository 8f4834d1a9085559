package cli

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/gitsource"
	"github.com/minifleet/minifleet/gitsource/parse"
	"github.com/minifleet/minifleet/internal/changes"
	"github.com/minifleet/minifleet/internal/plan"
	"github.com/minifleet/minifleet/internal/runs"
)

// manifest is that of a MiniCluster.
func manifest(name string) string {
	return "apiVersion: flux-framework.org/v1alpha2\nkind: MiniCluster\nmetadata:\n  name: " + name + "\n  labels: {minifleet.dev/placement: north}\n" +
		"spec:\n  size: 2\n  containers:\n  - image: ghcr.io/example/" + name + "\n    command: \"true\"\n    resources: {requests: {cpu: \"2\"}}\n"
}

func placementManifest(name, site string) string {
	return "apiVersion: minifleet.dev/v1alpha1\nkind: Placement\nmetadata: {name: " + name + "}\nspec:\n  clusterSelector: {matchLabels: {site: " + site + "}}\n  numberOfClusters: 1\n"
}

// folder is a working tree.
func folder(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range files {
		at := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(at), 0o750); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(at, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func gitIn(t *testing.T, dir string, args ...string) string {
	t.Helper()
	cmd := exec.Command("git", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1", "GIT_AUTHOR_NAME=Ada", "GIT_AUTHOR_EMAIL=a@b", "GIT_AUTHOR_DATE=2026-01-01T00:00:00Z",
		"GIT_COMMITTER_NAME=Ada", "GIT_COMMITTER_EMAIL=a@b", "GIT_COMMITTER_DATE=2026-01-01T00:00:00Z")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("git %s: %v: %s", strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(string(out))
}

// applied are the objects of a commit as the hub has them.
func applied(t *testing.T, source *v1alpha1.GitSource, files map[string]string, edit func(*v1alpha1.FleetMiniCluster)) []client.Object {
	t.Helper()
	var list []gitsource.File
	for name, content := range files {
		list = append(list, gitsource.File{Path: name, Data: []byte(content)})
	}
	p := changes.Compare(changes.Input{
		Source: source, Parsed: parse.Tree(list, parse.Options{Namespace: source.Namespace}), Commit: v1alpha1.Commit{Hash: fleetCommit, Revision: "main@1a2b3c4"}, Hub: changes.Hub{},
	})
	var out []client.Object
	for i := range p.Changes {
		obj, ok := p.Changes[i].Want.(client.Object)
		if !ok {
			t.Fatal(p.Changes[i].Message)
		}
		if f, ok := obj.(*v1alpha1.FleetMiniCluster); ok {
			f.UID = types.UID(f.Name)
			f.CreationTimestamp = *ago(1e12)
			edit(f)
		}
		out = append(out, obj)
	}
	return out
}

// ran has a FleetMiniCluster have run on alpine.
func ran(state v1alpha1.RunState) func(*v1alpha1.FleetMiniCluster) {
	return func(f *v1alpha1.FleetMiniCluster) {
		spec := f.Spec.MiniCluster.DeepCopy()
		spec.Default()
		digest := runs.Digest(f.Name, spec)
		f.Status.Placement = &v1alpha1.PlacementDecision{Digest: digest, Clusters: []string{"alpine"}, Wanted: 1}
		f.Status.Runs = []v1alpha1.Run{{ID: "9c1d000000", Cluster: "alpine", State: state, Digest: digest, StartTime: ago(1e12)}}
	}
}

func site(name, free string) func(*v1alpha1.MemberCluster) {
	return func(m *v1alpha1.MemberCluster) {
		m.Labels = map[string]string{"site": name}
		m.Status.Capacity = &v1alpha1.MemberCapacity{Nodes: 4, CPU: free + "/64", Memory: "200Gi/256Gi"}
	}
}

// base is what is applied, and what is on the hub for that.
var base = map[string]string{
	"production/placements.yaml": placementManifest("north", "north"),
	"production/lammps.yaml":     manifest("lammps"), "production/relax.yaml": manifest("relax"), "production/md.yaml": manifest("md"), "production/fold.yaml": manifest("fold"),
}

func applying(t *testing.T, more ...client.Object) scene {
	source := source()
	source.Status.Conditions = nil
	objects := append(applied(t, source, base, ran(v1alpha1.RunSucceeded)), source, member("alpine", site("north", "32")), member("basalt", site("south", "32")), member("cinder", site("south", "3")),
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "hpc"}})
	return scene{objects: append(objects, more...)}
}

// with are the files of a commit: those that are applied, with others in their places; an empty one is removed.
func with(edits map[string]string) map[string]string {
	out := map[string]string{}
	for name, content := range base {
		out[name] = content
	}
	for name, content := range edits {
		if out[name] = content; content == "" {
			delete(out, name)
		}
	}
	return out
}

func TestDiffOfACommit(t *testing.T) {
	steered := manifest("lammps") + "---\napiVersion: minifleet.dev/v1alpha1\nkind: \"Placement" + `\e[2J@everyone` + "\"\nmetadata: {name: x}\n"
	cases := map[string]struct {
		files map[string]string
		args  []string
	}{
		"nothing":       {base, nil},
		"a new one":     {with(map[string]string{"production/new.yaml": manifest("new")}), nil},
		"a new run":     {with(map[string]string{"production/lammps.yaml": strings.Replace(base["production/lammps.yaml"], `"true"`, `"false"`, 1)}), nil},
		"a move":        {with(map[string]string{"production/placements.yaml": placementManifest("north", "south")}), nil},
		"one goes away": {with(map[string]string{"production/md.yaml": ""}), nil},
		"approval":      {map[string]string{"production/placements.yaml": base["production/placements.yaml"], "production/lammps.yaml": base["production/lammps.yaml"]}, nil},
		"a problem":     {with(map[string]string{"production/lammps.yaml": strings.Replace(base["production/lammps.yaml"], "size: 2", "size: -2", 1), "production/md.yaml": steered}), nil},
		"a permission":  {with(map[string]string{"production/new.yaml": strings.Replace(manifest("new"), "spec:\n", "spec:\n  pod: {hostIPC: true}\n", 1)}), nil},
		"too large":     {with(map[string]string{"production/new.yaml": strings.Replace(manifest("new"), "size: 2", "size: 20", 1)}), nil},
		"wrong folder":  {map[string]string{"lammps.yaml": base["production/lammps.yaml"]}, nil},
	}
	for name, c := range cases {
		for _, format := range []string{"", "json", "markdown"} {
			t.Run(strings.TrimSpace(name+" "+format), func(t *testing.T) {
				dir := folder(t, c.files)
				args := []string{"diff", "-f", dir}
				if format != "" {
					args = append(args, "-o", format)
				}
				code, stdout, stderr, _ := play(t, applying(t), append(args, c.args...)...)
				got := transcript(args, code, stdout, stderr)
				golden(t, strings.TrimSpace("diff of a commit "+name+" "+format), strings.ReplaceAll(got, dir, "DIR"))
				if format == "json" && !json.Valid([]byte(stdout)) {
					t.Error("no JSON")
				}
			})
		}
	}
}

func TestDiffReadsAClone(t *testing.T) {
	dir := folder(t, base)
	gitIn(t, dir, "init", "--quiet", "--initial-branch=main")
	gitIn(t, dir, "add", "--all")
	gitIn(t, dir, "commit", "--quiet", "--message=Base")
	gitIn(t, dir, "checkout", "--quiet", "-b", "feature")
	if err := os.WriteFile(filepath.Join(dir, "production/new.yaml"), []byte(manifest("new")), 0o600); err != nil {
		t.Fatal(err)
	}
	gitIn(t, dir, "add", "--all")
	gitIn(t, dir, "commit", "--quiet", "--message=Add @everyone `one`")
	gitIn(t, dir, "tag", "-a", "-m", "tag", "v1")
	hash := gitIn(t, dir, "rev-parse", "HEAD")
	gitIn(t, dir, "checkout", "--quiet", "main")
	for args, want := range map[string]string{
		"-f DIR":                                   "nothing changes",
		"-C DIR --revision main":                   "nothing changes",
		"-C DIR --revision feature":                "1 appears",
		"-C DIR --revision v1":                     "1 appears",
		"-C DIR --revision " + hash:                "1 appears",
		"-C DIR --revision feature~1":              "nothing changes",
		"-C DIR/production --revision " + hash[:8]: "1 appears",
	} {
		command := append([]string{"diff", "--source", "fleet"}, strings.Fields(strings.ReplaceAll(args, "DIR", dir))...)
		_, stdout, stderr, _ := play(t, applying(t), command...)
		if headline, _, _ := strings.Cut(stdout, "\n"); headline != want {
			t.Errorf("%s: %s%s", args, stdout, stderr)
		}
	}
	if status := gitIn(t, dir, "status", "--porcelain"); status != "" {
		t.Error(status)
	}
}

func TestDiffOfACommitRefuses(t *testing.T) {
	dir := folder(t, base)
	hub := applying(t)
	two := applying(t, &v1alpha1.GitSource{ObjectMeta: metav1.ObjectMeta{Namespace: "hpc", Name: "other"}})
	cases := map[string]struct {
		scene scene
		args  []string
		err   string
	}{
		"two ways":        {hub, []string{"-f", dir, "--revision", "main"}, "-f, --revision and --ref: give one of them"},
		"a short ref":     {hub, []string{"--ref", "main"}, `--ref: "main" is no full name of a ref`},
		"no clone":        {hub, []string{"--revision", "main", "-C", dir}, "is in no Git repository"},
		"no folder":       {hub, []string{"-f", filepath.Join(dir, "none")}, "is no folder: name the root of the repository's working tree"},
		"no source":       {scene{}, []string{"-f", dir}, "namespace hpc has no GitSource"},
		"the absent":      {hub, []string{"-f", dir, "--source", "none"}, "GitSource hpc/none not found"},
		"several":         {two, []string{"-f", dir}, "namespace hpc has several GitSources, fleet, other: name one with --source"},
		"a name besides":  {hub, []string{"lammps", "--source", "fleet"}, "--source is for the comparison of a commit"},
		"markdown of one": {hub, []string{"lammps", "-o", "markdown"}, "-o: markdown is for the comparison of a commit"},
		"-C alone":        {hub, []string{"-C", dir}, "-C: say with --revision"},
		"forbidden":       {scene{objects: hub.objects, funcs: forbidden()}, []string{"-f", dir}, "ask whoever administers the hub for that right"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			code, stdout, stderr, _ := play(t, c.scene, append([]string{"diff"}, c.args...)...)
			if code != 2 || stdout != "" || !strings.Contains(stderr, c.err) {
				t.Errorf("exit code %d, %s%s", code, stdout, stderr)
			}
		})
	}
}

func TestExitCodeOfDiff(t *testing.T) {
	changed, wrong := folder(t, with(map[string]string{"production/new.yaml": manifest("new")})), folder(t, with(map[string]string{"production/new.yaml": "kind: MiniCluster\napiVersion: flux-framework.org/v1alpha2\n"}))
	for dir, want := range map[string][2]int{folder(t, base): {0, 0}, changed: {1, 0}, wrong: {2, 2}} {
		for i, args := range [][]string{{"diff", "-f", dir}, {"diff", "-f", dir, "--exit-code=false"}} {
			if code, stdout, stderr, _ := play(t, applying(t), args...); code != want[i] {
				t.Errorf("%v: exit code %d, want %d: %s%s", args, code, want[i], stdout, stderr)
			}
		}
	}
}

// dashboardOf answers with forecasts by name. What is asked about alone stays where it is.
func dashboardOf(t *testing.T, forecasts map[string]plan.Forecast) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var in struct {
			Namespace string
			Items     []struct {
				Name  string
				Spec  v1alpha1.FleetMiniClusterSpec
				Alone bool
			}
		}
		if err := json.NewDecoder(r.Body).Decode(&in); err != nil || r.URL.Path != "/api/v1/forecasts" || in.Namespace != "hpc" || r.Header.Get("Authorization") != "Bearer of-kubeconfig" {
			t.Errorf("%s: %+v: %v", r.URL, in, err)
		}
		out := struct {
			Items []plan.Forecast `json:"items"`
		}{}
		for _, item := range in.Items {
			out.Items = append(out.Items, forecasts[item.Name])
		}
		_ = json.NewEncoder(w).Encode(out)
	}))
	t.Cleanup(s.Close)
	return s.URL
}

// The example of the documentation.
func TestDiffAsDocumented(t *testing.T) {
	files := with(map[string]string{
		"production/lammps.yaml": strings.Replace(base["production/lammps.yaml"], "example/lammps", "example/lammps:2", 1), "production/md.yaml": "",
		"production/new.yaml": strings.Replace(manifest("new"), "  size: 2\n", "  size: 4\n", 1), "production/large.yaml": strings.Replace(manifest("large"), "size: 2", "size: 40", 1),
	})
	server := dashboardOf(t, map[string]plan.Forecast{
		"new":    {State: plan.ForecastStarts, Members: []string{"alpine"}, Wanted: 1},
		"lammps": {State: plan.ForecastFollows, Members: []string{"alpine"}, Wanted: 1, Message: "run 9c1d000000 on alpine ends first"},
		"large": {State: plan.ForecastWaits, Wanted: 1, Message: "alpine: 12 of 40 pods fit; 2 CPU short on node-7",
			Waiting: []v1alpha1.RejectedCluster{{Name: "alpine", Reason: "12 of 40 pods fit; 2 CPU short on node-7"}}},
	})
	document, err := os.ReadFile(filepath.Join("..", "..", "docs", "diff.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, format := range []string{"", "json", "markdown"} {
		dir := folder(t, files)
		args := []string{"diff", "-f", dir, "--server", server}
		if format != "" {
			args = append(args, "-o", format)
		}
		code, stdout, stderr, _ := play(t, applying(t), args...)
		got := strings.NewReplacer(dir, "/src/fleet", server, "https://fleet.example.org").Replace(transcript(args, code, stdout, stderr))
		golden(t, strings.TrimSpace("diff as documented "+format), got)
		shown := strings.ReplaceAll(stdout, dir, "/src/fleet")
		if format != "json" && !strings.Contains(string(document), strings.TrimSpace(shown)) {
			t.Errorf("docs/diff.md does not have this:\n%s", shown)
		}
	}
}

func TestDiffAndTheDashboard(t *testing.T) {
	dir := folder(t, with(map[string]string{"production/new.yaml": manifest("new")}))
	for status, want := range map[int]string{
		http.StatusForbidden:          "namespace hpc: you may not ask where MiniClusters would be placed: ask for the right to list memberclusters, or to create fleetminiclusters there",
		http.StatusNotFound:           "or the dashboard is of a version without forecasts",
		http.StatusServiceUnavailable: "the dashboard answers 503",
		http.StatusOK:                 "the dashboard's answer is no forecast",
	} {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(status)
			_, _ = w.Write([]byte(`{"items":[]}`))
		}))
		code, stdout, stderr, _ := play(t, applying(t), "diff", "-f", dir, "--server", s.URL)
		s.Close()
		if code != 2 || stdout != "" || !strings.Contains(stderr, want) {
			t.Errorf("%d: exit code %d: %s%s", status, code, stdout, stderr)
		}
	}
}

// Who may not read members, or the namespace, is told what is not known for that.
func TestDiffWithFewRights(t *testing.T) {
	dir := folder(t, with(map[string]string{"production/new.yaml": strings.Replace(manifest("new"), "spec:\n", "spec:\n  pod: {hostIPC: true}\n", 1)}))
	s := applying(t)
	s.funcs = interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			if _, members := list.(*v1alpha1.MemberClusterList); members {
				return apierrors.NewForbidden(schema.GroupResource{Resource: "memberclusters"}, "", nil)
			}
			return c.List(ctx, list, opts...)
		},
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
			if _, ns := obj.(*corev1.Namespace); ns {
				return apierrors.NewForbidden(schema.GroupResource{Resource: "namespaces"}, key.Name, nil)
			}
			return c.Get(ctx, key, obj, opts...)
		},
	}
	code, stdout, stderr, _ := play(t, s, "diff", "-f", dir)
	for _, want := range []string{
		"1 appears\n", "where it would run is not known: you may not list MemberClusters; with --server",
		"note: MiniClusters need permissions that the GitSource does not allow (HostNamespaces); whether the namespace does, you may not read",
	} {
		if code != 1 || !strings.Contains(stdout, want) {
			t.Errorf("exit code %d, no %q in %s%s", code, want, stdout, stderr)
		}
	}
}

func TestRequestsForForecasts(t *testing.T) {
	var asks []plan.Ask
	for i := range 1200 {
		asks = append(asks, plan.Ask{Object: &v1alpha1.FleetMiniCluster{ObjectMeta: metav1.ObjectMeta{Name: strings.Repeat("a", i%3*10_000)}}, Alone: i%4 > 0})
	}
	requests, err := requestsFor(asks)
	if err != nil {
		t.Fatal(err)
	}
	seen, alone := map[int]bool{}, false
	for _, r := range requests {
		if len(r.items) != len(r.of) || len(r.items) > maxAsks || r.size > maxAskBytes {
			t.Errorf("%d items of %d bytes", len(r.items), r.size)
		}
		for _, i := range r.of {
			if seen[i] || alone && !asks[i].Alone {
				t.Errorf("%d is asked for twice, or after those for comparison", i)
			}
			seen[i], alone = true, asks[i].Alone
		}
	}
	if len(seen) != maxForecasts {
		t.Errorf("%d are asked for", len(seen))
	}
}

// Overlays are built as the hub builds them, from a working tree and from a commit.
func TestDiffBuildsOverlays(t *testing.T) {
	dir := folder(t, map[string]string{
		"base/kustomization.yaml": "resources: [new.yaml]\n", "base/new.yaml": manifest("new"),
		"production/kustomization.yaml": "resources: [../base]\nnamePrefix: big-\npatches:\n- target: {kind: MiniCluster}\n  patch: |\n    - {op: replace, path: /spec/size, value: 8}\n",
	})
	gitIn(t, dir, "init", "--quiet", "--initial-branch=main")
	gitIn(t, dir, "add", "--all")
	gitIn(t, dir, "commit", "--quiet", "--message=Overlay")
	for _, args := range [][]string{{"-f", dir}, {"-C", dir, "--revision", "main"}} {
		_, stdout, stderr, _ := play(t, applying(t), append([]string{"diff"}, args...)...)
		for _, want := range []string{"+ FleetMiniCluster/big-new appears", "    +  size: 8\n"} {
			if !strings.Contains(stdout, want) {
				t.Errorf("%v: no %q in %s%s", args, want, stdout, stderr)
			}
		}
	}
}
