package build

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"

	"github.com/minifleet/minifleet/gitsource"
	"github.com/minifleet/minifleet/gitsource/budget"
	"github.com/minifleet/minifleet/gitsource/overlay"
)

// beMute is a child that does not do what it should.
const beMute = "be-mute"

func mute(args []string) {
	switch args[0] {
	case "garbage":
		fmt.Print("no JSON")
	case "flood":
		for {
			if _, err := fmt.Println(strings.Repeat("x", 1<<16)); err != nil {
				return
			}
		}
	case "hang":
		_, _ = io.Copy(io.Discard, os.Stdin)
		time.Sleep(time.Hour) // an empty select would be found to be a deadlock
	case "fail":
		fmt.Fprint(os.Stderr, "something\x1b[31m is wrong\nwith it")
		os.Exit(3)
	}
}

const miniCluster = `
apiVersion: flux-framework.org/v1alpha2
kind: MiniCluster
metadata: {name: lammps}
spec:
  size: 1
  containers: [{image: lammps:v1, command: run}]
`

// sites is one base with two sites.
func sites() map[string]string {
	return map[string]string{
		"base/kustomization.yaml": "resources: [lammps.yaml]\n",
		"base/lammps.yaml":        miniCluster,
		"east/kustomization.yaml": `
resources: [../base, placement.yaml]
nameSuffix: -east
images: [{name: lammps, newTag: v2}]
labels: [{pairs: {minifleet.dev/placement: east}}]
patches:
- target: {kind: MiniCluster}
  patch: |
    - {op: replace, path: /spec/size, value: 4}
configMapGenerator: [{name: input, files: [in.lj]}]
`,
		"east/in.lj":          "units lj\n",
		"east/placement.yaml": "apiVersion: minifleet.dev/v1alpha1\nkind: Placement\nmetadata: {name: p}\nspec: {}\n",
	}
}

func closure(t testing.TB, files map[string]string, dir string) *overlay.Closure {
	t.Helper()
	tree := fstest.MapFS{}
	for name, text := range files {
		tree[name] = &fstest.MapFile{Data: []byte(text), Mode: 0o644}
	}
	c, err := overlay.Follow(tree, dir, overlay.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// unchecked hands all files over, also what a closure refuses.
func unchecked(files map[string]string, dir string) *overlay.Closure {
	c := &overlay.Closure{Dir: dir, File: dir + "/kustomization.yaml", Files: map[string][]byte{}}
	for name, text := range files {
		c.Files[name] = []byte(text)
	}
	return c
}

func TestFiles(t *testing.T) {
	b := &Builder{Command: self(t, beChild)}
	refused := &overlay.Closure{File: "west/kustomization.yaml", Problems: []overlay.Problem{
		{File: "west/kustomization.yaml", Line: 3, Field: "resources[0]", Message: "is remote"}, {File: "base/kustomization.yaml", Line: 1, Field: "crds[0]", Message: "is a link"},
	}}
	files, again, err := b.Files(t.Context(), nil, []*overlay.Closure{closure(t, sites(), "east"), refused})
	if err != nil || again {
		t.Fatal(again, err)
	}
	want := []gitsource.File{
		{
			Path: "east/kustomization.yaml", Origins: []string{"base/lammps.yaml", "east/placement.yaml", "east/kustomization.yaml"},
			Findings: []gitsource.Finding{{Warning: true, Message: "generates ConfigMap input-east-"}},
		},
		{Path: "west/kustomization.yaml", Findings: []gitsource.Finding{
			{Line: 3, Field: "resources[0]", Message: "is remote"}, {Message: "base/kustomization.yaml:1: crds[0]: is a link"},
		}},
	}
	begins := cmp.Comparer(func(a, b string) bool {
		return a == b || a != "" && b != "" && (strings.HasPrefix(a, b) || strings.HasPrefix(b, a))
	})
	// kustomize puts ConfigMaps first.
	slices.Sort(files[0].Origins)
	slices.Sort(want[0].Origins)
	if diff := cmp.Diff(want, files, begins, cmpopts.IgnoreFields(gitsource.File{}, "Data", "Blob")); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
	for _, text := range []string{"name: lammps-east", "image: lammps:v2", "size: 4", "minifleet.dev/placement: east"} {
		if !strings.Contains(string(files[0].Data), text) {
			t.Errorf("there is no %q in:\n%s", text, files[0].Data)
		}
	}
	if strings.Contains(string(files[0].Data), "annotations") {
		t.Errorf("origins are left in:\n%s", files[0].Data)
	}
}

// What a child makes is what kustomize build makes.
func TestSameAsKustomize(t *testing.T) {
	for name, edit := range map[string]func(map[string]string){
		"one base and a site": func(map[string]string) {},
		"origins are wanted": func(f map[string]string) {
			f["east/kustomization.yaml"] += "buildMetadata: [originAnnotations, managedByLabel]\n"
		},
		"a component": func(f map[string]string) {
			f["east/kustomization.yaml"] += "components: [../gpu]\n"
			f["gpu/kustomization.yaml"] = "apiVersion: kustomize.config.k8s.io/v1alpha1\nkind: Component\ncommonAnnotations: {minifleet.dev/priority: '5'}\n"
		},
		"replacements": func(f map[string]string) {
			f["east/kustomization.yaml"] += "replacements: [{path: r.yaml}]\nsortOptions: {order: fifo}\n"
			f["east/r.yaml"] = "source: {kind: Placement, fieldPath: metadata.name}\ntargets: [{select: {kind: MiniCluster}, fieldPaths: [metadata.labels.x], options: {create: true}}]\n"
		},
		"transformers": func(f map[string]string) {
			f["east/kustomization.yaml"] += "transformers: [t.yaml]\n"
			f["east/t.yaml"] = "apiVersion: builtin\nkind: PrefixTransformer\nmetadata: {name: x}\nprefix: pre-\nfieldSpecs: [{path: metadata/name}]\n"
		},
		"a merge": func(f map[string]string) {
			f["east/kustomization.yaml"] += "patchesStrategicMerge:\n- |\n  apiVersion: flux-framework.org/v1alpha2\n  kind: MiniCluster\n  metadata: {name: lammps}\n  spec: {size: 9}\n"
		},
		"an annotation on an object without any fails": func(f map[string]string) {
			f["east/kustomization.yaml"] += "- target: {kind: MiniCluster}\n  patch: '[{\"op\": \"add\", \"path\": \"/metadata/annotations/x\", \"value\": \"y\"}]'\n"
			f["east/kustomization.yaml"] = strings.Replace(f["east/kustomization.yaml"], "configMapGenerator: [{name: input, files: [in.lj]}]\n", "", 1)
		},
	} {
		t.Run(name, func(t *testing.T) {
			files := sites()
			edit(files)
			memory := filesys.MakeFsInMemory()
			for name, text := range files {
				if err := memory.WriteFile("/x/"+name, []byte(text)); err != nil {
					t.Fatal(err)
				}
			}
			options := krusty.MakeDefaultOptions()
			options.Reorder = krusty.ReorderOptionUnspecified // as the command does
			m, wrong := krusty.MakeKustomizer(options).Run(memory, "/x/east")
			out, err := run(t.Context(), self(t, beChild), Limits{}.WithDefaults(), closure(t, files, "east"))
			if err != nil {
				t.Fatal(err)
			}
			if wrong != nil || out.problem != "" {
				if wrong == nil || out.problem == "" {
					t.Fatalf("%q, and kustomize says: %v", out.problem, wrong)
				}
				return
			}
			want, err := m.AsYaml()
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), string(out.yaml)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func repeated(n int, format string) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, format, i)
	}
	return b.String()
}

// hostile are kustomizations that ask for more than they should, with what is said of them. What a closure refuses is
// handed over nevertheless.
var hostile = map[string]struct {
	files map[string]string
	want  string
}{
	"an alias bomb": {map[string]string{"s/kustomization.yaml": "resources: [a.yaml]", "s/a.yaml": "a0: &a0 [x,x,x,x,x,x,x,x,x]\n" +
		repeated(12, "a%[1]db: 1\n") + func() string {
		out := ""
		for i := range 12 {
			out += fmt.Sprintf("a%d: &a%d [*a%d,*a%d,*a%d,*a%d,*a%d,*a%d,*a%d,*a%d]\n", i+1, i+1, i, i, i, i, i, i, i, i)
		}
		return out
	}() + "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n"}, ""},
	"an alias bomb in the kustomization": {map[string]string{"s/kustomization.yaml": func() string {
		out := "a0: &a0 [x,x,x,x,x,x,x,x,x]\n"
		for i := range 12 {
			out += fmt.Sprintf("a%d: &a%d [*a%d,*a%d,*a%d,*a%d,*a%d,*a%d,*a%d,*a%d]\n", i+1, i+1, i, i, i, i, i, i, i, i)
		}
		return out
	}()}, ""},
	"a huge generator": {map[string]string{"s/kustomization.yaml": "configMapGenerator:\n- name: a\n  files:\n" + repeated(200, "  - k%d=big.txt\n"), "s/big.txt": strings.Repeat("x", 1<<20)}, "memory|bytes"},
	"many generators":  {map[string]string{"s/kustomization.yaml": "configMapGenerator:\n" + repeated(6000, "- {name: c%d, literals: [a=b]}\n")}, "objects|processor|memory"},
	"a patch that copies again and again": {map[string]string{"s/kustomization.yaml": "resources: [a.yaml]\npatches:\n- target: {kind: ConfigMap}\n  path: p.yaml\n",
		"s/a.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {a: {b: " + strings.Repeat("x", 1000) + "}}\n",
		"s/p.yaml": repeated(60, "- {op: copy, from: /data, path: /data/k%d}\n")}, ""},
	"a patch that appends a copy": {map[string]string{"s/kustomization.yaml": "resources: [a.yaml]\npatches:\n- target: {kind: ConfigMap}\n  path: p.yaml\n",
		"s/a.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: [[" + strings.Repeat("x", 1000) + "]]\n",
		"s/p.yaml": repeated(60, "- {op: copy, from: /data, path: /data/%d}\n")}, ""},
	"a name that is an expression": {map[string]string{"s/kustomization.yaml": "resources: [a.yaml]\npatches:\n- target: {kind: ConfigMap, name: '" + strings.Repeat("(a*)*", 200) + "$'}\n  patch: '[]'\n",
		"s/a.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: " + strings.Repeat("a", 250) + "b}\n"}, ""},
	"an expression that is huge": {map[string]string{"s/kustomization.yaml": "resources: [a.yaml]\npatches:\n- target: {kind: ConfigMap, name: '((((a{100}){100}){100}){100})'}\n  patch: '[]'\n",
		"s/a.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n"}, ""},
	"replacements that double": {map[string]string{"s/kustomization.yaml": "resources: [a.yaml]\nreplacements:\n" + repeated(60,
		"- {source: {kind: ConfigMap, fieldPath: data}, targets: [{select: {kind: ConfigMap}, fieldPaths: [data.k%d], options: {create: true}}]}\n"),
		"s/a.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {a: " + strings.Repeat("x", 1000) + "}\n"}, ""},
	"an index that is huge": {map[string]string{"s/kustomization.yaml": "resources: [a.yaml]\nreplacements:\n- {source: {kind: ConfigMap, fieldPath: metadata.name}, targets: [{select: {kind: ConfigMap}, fieldPaths: [x.999999999.y], options: {create: true}}]}\n",
		"s/a.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\nx: []\n"}, ""},
	"vars that name each other": {map[string]string{"s/kustomization.yaml": "resources: [a.yaml]\nvars:\n- {name: A, objref: {apiVersion: v1, kind: ConfigMap, name: a}, fieldref: {fieldpath: data.a}}\nconfigurations: [c.yaml]\n",
		"s/a.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {a: '$(A)$(A)'}\n", "s/c.yaml": "varReference: [{path: data, kind: ConfigMap}]\n"}, ""},
	"a schema that refers to itself": {map[string]string{"s/kustomization.yaml": "resources: [a.yaml]\nopenapi: {path: o.json}\npatches: [{path: p.yaml}]\n",
		"s/a.yaml": "apiVersion: x/v1\nkind: X\nmetadata: {name: a}\nspec: {a: {a: {a: 1}}}\n", "s/p.yaml": "apiVersion: x/v1\nkind: X\nmetadata: {name: a}\nspec: {a: {a: {b: 1}}}\n",
		"s/o.json": `{"definitions": {"x": {"$ref": "#/definitions/x", "x-kubernetes-group-version-kind": [{"group": "x", "version": "v1", "kind": "X"}]}}}`}, ""},
	"a schema that is nonsense": {map[string]string{"s/kustomization.yaml": "resources: [a.yaml]\nopenapi: {path: o.json}\n", "s/a.yaml": "apiVersion: x/v1\nkind: X\nmetadata: {name: a}\n", "s/o.json": `{"definitions": 5}`}, "cannot unmarshal|invalid|json"},
	"a schema of no version":    {map[string]string{"s/kustomization.yaml": "openapi: {version: v9.9.9}\nresources: [a.yaml]", "s/a.yaml": "a: b"}, ".+"},
	"YAML that lies deep":       {map[string]string{"s/kustomization.yaml": "resources: [a.yaml]", "s/a.yaml": "a: " + strings.Repeat("[", 9000)}, ".+"},
	"JSON that lies deep":       {map[string]string{"s/kustomization.yaml": "resources: [a.yaml]", "s/a.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\nx: " + strings.Repeat("[", 9000) + strings.Repeat("]", 9000)}, ""},
	"a field that is set twice": {map[string]string{"s/kustomization.yaml": "resources: [a.yaml]\nnamePrefix: x-", "s/a.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\nx:\n  y: 1\n  y: 2\n"}, "^s/a.yaml: .*line 6"},
	"no object":                 {map[string]string{"s/kustomization.yaml": "resources: [a.yaml]", "s/a.yaml": "- 1\n- 2"}, ".+"},
	"an object without a name":  {map[string]string{"s/kustomization.yaml": "resources: [a.yaml]", "s/a.yaml": "apiVersion: v1\nkind: ConfigMap"}, "name"},
	"an empty kustomization":    {map[string]string{"s/kustomization.yaml": ""}, "empty"},
	"a field that there is not": {map[string]string{"s/kustomization.yaml": "resource: [a.yaml]"}, `unknown field "resource"`},
	"a file that is missing":    {map[string]string{"s/kustomization.yaml": "resources: [a.yaml]"}, "a.yaml.*(not|no such)"},
	"a remote base":             {map[string]string{"s/kustomization.yaml": "resources: ['https://example.org/org/repo?ref=x']"}, ".+"},
	"a remote base over SSH":    {map[string]string{"s/kustomization.yaml": "resources: ['git@example.org:org/repo.git']"}, ".+"},
	"a remote file":             {map[string]string{"s/kustomization.yaml": "crds: ['https://example.org/x.yaml']"}, "nothing is fetched"},
	"a file of the machine":     {map[string]string{"s/kustomization.yaml": "configMapGenerator: [{name: a, files: [/etc/passwd]}]"}, ".+"},
	"a chart":                   {map[string]string{"s/kustomization.yaml": "helmCharts: [{name: a, repo: 'https://example.org'}]"}, ".+"},
	"a function": {map[string]string{"s/kustomization.yaml": "transformers: [f.yaml]",
		"s/f.yaml": "apiVersion: x/v1\nkind: F\nmetadata:\n  name: f\n  annotations: {config.kubernetes.io/function: 'exec: {path: /bin/true}'}\n"}, ".+"},
	"a cycle": {map[string]string{"s/kustomization.yaml": "resources: [../s]"}, ".+"},
	"a base that has no end": {func() map[string]string {
		out := map[string]string{}
		for i := range 24 {
			next := fmt.Sprintf("resources: [../a%d, ../b%d]", i+1, i+1)
			out[fmt.Sprintf("a%d/kustomization.yaml", i)], out[fmt.Sprintf("b%d/kustomization.yaml", i)] = next, next
		}
		last := "configMapGenerator: [{name: x}]"
		out["a24/kustomization.yaml"], out["b24/kustomization.yaml"] = last, "commonLabels: {a: b}"
		out["s/kustomization.yaml"] = "resources: [../a0, ../b0]"
		return out
	}(), "processor|memory|conflict|already"},
}

// Whatever an overlay does, this process goes on, and says what is wrong.
func TestHostile(t *testing.T) {
	limits := Limits{CPU: 2 * time.Second, Wall: time.Minute, Memory: 256 << 20}.WithDefaults()
	for _, name := range slices.Sorted(maps.Keys(hostile)) {
		t.Run(name, func(t *testing.T) {
			out, err := run(t.Context(), self(t, beChild), limits, unchecked(hostile[name].files, "s"))
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("%d bytes, %s", len(out.yaml), out.problem)
			want := hostile[name].want
			if want != "" && !matches(want, out.problem) {
				t.Errorf("%q does not match %s", out.problem, want)
			}
			if strings.Contains(out.problem, root) || len(out.problem) > 2000 || strings.ContainsAny(out.problem, "\n\x1b") {
				t.Errorf("not fit to be shown: %q", out.problem)
			}
		})
	}
}

func TestEndsOfProcesses(t *testing.T) {
	for name, tc := range map[string]struct {
		as     string
		limits Limits
		want   string
		again  bool
	}{
		"no answer":       {"garbage", Limits{}, "nothing that can be read", false},
		"too much answer": {"flood", Limits{}, "more than 2097152 bytes", false},
		"a hang":          {"hang", Limits{Wall: 100 * time.Millisecond}, "has not ended within 100ms", true},
		"a failure":       {"fail", Limits{}, "kustomize fails: something\uFFFD[31m is wrong with it", false},
	} {
		t.Run(name, func(t *testing.T) {
			out, err := run(t.Context(), self(t, beMute, tc.as), tc.limits.WithDefaults(), unchecked(sites(), "east"))
			if err != nil || !strings.Contains(out.problem, tc.want) || out.again != tc.again {
				t.Errorf("%+v %v", out, err)
			}
		})
	}
	t.Run("a context that ends", func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		if _, err := run(ctx, self(t, beMute, "hang"), Limits{}.WithDefaults(), unchecked(sites(), "east")); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
	})
	t.Run("no such program", func(t *testing.T) {
		var missing *os.PathError
		if _, err := run(t.Context(), []string{"/does/not/exist"}, Limits{}.WithDefaults(), unchecked(sites(), "east")); !errors.As(err, &missing) {
			t.Error(err)
		}
	})
	t.Run("too many objects", func(t *testing.T) {
		out, err := run(t.Context(), self(t, beChild), Limits{Documents: 2}.WithDefaults(), unchecked(sites(), "east"))
		if err != nil || !strings.Contains(out.problem, "3 objects") {
			t.Error(out, err)
		}
	})
}

// An overlay that has not changed is not built again, and one that may end otherwise another time is.
func TestRemembered(t *testing.T) {
	b := &Builder{Command: self(t, beChild)}
	c := closure(t, sites(), "east")
	first, _, err := b.Files(t.Context(), nil, []*overlay.Closure{c})
	if err != nil {
		t.Fatal(err)
	}
	b.Command = []string{"/does/not/exist"}
	again, _, err := b.Files(t.Context(), nil, []*overlay.Closure{c})
	if diff := cmp.Diff(first, again); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	files := sites()
	files["east/in.lj"] = "units real\n"
	if _, _, err := b.Files(t.Context(), nil, []*overlay.Closure{closure(t, files, "east")}); err == nil {
		t.Error("an overlay that has changed was not built")
	}
	b.Command, b.Limits.Wall = self(t, beMute, "hang"), 50*time.Millisecond
	if _, again, err := b.Files(t.Context(), nil, []*overlay.Closure{closure(t, files, "east")}); !again || err != nil {
		t.Error(again, err)
	}
	b.Command, b.Limits.Wall = self(t, beChild), 0
	if got, again, err := b.Files(t.Context(), nil, []*overlay.Closure{closure(t, files, "east")}); again || err != nil || len(got[0].Data) == 0 {
		t.Error(again, err)
	}
}

func TestForgotten(t *testing.T) {
	b := &Builder{}
	for i := range 5 {
		b.remember([32]byte{byte(i)}, &output{yaml: make([]byte, 5<<20)})
	}
	if len(b.order) != 3 || b.remembered([32]byte{0}) != nil || b.remembered([32]byte{4}) == nil {
		t.Errorf("%d are remembered", len(b.order))
	}
}

// Memory is reserved before a process starts, and what was built counts.
func TestBudget(t *testing.T) {
	b := &Builder{Command: self(t, beChild)}
	c := closure(t, sites(), "east")
	down := errors.New("no memory")
	spend := budget.New(t.Context(), budget.Limits{}, func(context.Context) (func(), error) { return nil, down })
	if _, _, err := b.Files(t.Context(), spend, []*overlay.Closure{c}); !errors.Is(err, down) {
		t.Error(err)
	}
	var exceeded *budget.Exceeded
	spend = budget.New(t.Context(), budget.Limits{MaxTotalBytes: 10}, nil)
	if _, _, err := b.Files(t.Context(), spend, []*overlay.Closure{c}); !errors.As(err, &exceeded) {
		t.Error(err)
	}
}

func matches(pattern, text string) bool {
	return regexp.MustCompile("(?i)" + pattern).MatchString(text)
}
