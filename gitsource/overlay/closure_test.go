package overlay

import (
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// tree makes a tree of files.
func tree(files map[string]string) fstest.MapFS {
	out := fstest.MapFS{}
	for name, content := range files {
		switch {
		case strings.HasPrefix(content, "-> "):
			out[name] = &fstest.MapFile{Data: []byte(content[3:]), Mode: fs.ModeSymlink}
		case content == "submodule":
			out[name] = &fstest.MapFile{Mode: fs.ModeIrregular}
		default:
			out[name] = &fstest.MapFile{Data: []byte(content), Mode: 0o644}
		}
	}
	return out
}

func told(problems []Problem) []string {
	var out []string
	for _, p := range problems {
		out = append(out, fmt.Sprintf("%s:%d: %s: %s", p.File, p.Line, p.Field, p.Message))
	}
	return out
}

func TestFollow(t *testing.T) {
	for name, tc := range map[string]struct {
		dir   string
		files map[string]string
		want  []string
	}{
		"every kind of file": {"site", map[string]string{
			"site/kustomization.yaml": `
resources: [a.yaml, ../base]
bases: [../other]
components: [../component]
crds: [crd.json]
configurations: [config.yaml]
patches: [{path: patch.yaml}, {patch: "[]"}]
patchesStrategicMerge:
- merge.yaml
- |
  apiVersion: v1
  kind: ConfigMap
patchesJson6902: [{path: json.yaml, target: {kind: X}}]
replacements: [{path: replacement.yaml}, {source: {kind: X}}]
configMapGenerator: [{name: c, files: [one.txt, key=two.txt], envs: [three.env], env: four.env, literals: [a=b]}]
secretGenerator: [{name: s, files: [five.txt]}]
openapi: {path: schema.json}
generators: [generator.yaml]
transformers:
- |
  apiVersion: builtin
  kind: PatchTransformer
  metadata: {name: p}
  path: of-transformer.yaml
validators: [validator.yaml]
labels: [{pairs: {a: b}}]
`,
			"site/a.yaml": "", "base/kustomization.yml": "Resources: [b.yaml]", "base/b.yaml": "", "other/Kustomization": "{}",
			"component/kustomization.yaml": "kind: Component\napiVersion: kustomize.config.k8s.io/v1alpha1",
			"site/crd.json":                "{}", "site/config.yaml": "", "site/patch.yaml": "", "site/merge.yaml": "", "site/json.yaml": "",
			"site/replacement.yaml": "", "site/one.txt": "", "site/two.txt": "", "site/three.env": "", "site/four.env": "", "site/five.txt": "",
			"site/schema.json": "{}", "site/of-transformer.yaml": "", "site/of-generator.txt": "", "site/replacements.yaml": "", "site/unused.yaml": "",
			"site/generator.yaml": "apiVersion: builtin\nkind: ConfigMapGenerator\nmetadata: {name: g}\nfiles: [of-generator.txt]",
			"site/validator.yaml": "apiVersion: v1\nkind: List\nitems: [{apiVersion: builtin, kind: ReplacementTransformer, replacements: [{path: replacements.yaml}]}]",
		}, []string{
			"base/b.yaml", "base/kustomization.yml", "component/kustomization.yaml", "other/Kustomization", "site/a.yaml",
			"site/config.yaml", "site/crd.json", "site/five.txt", "site/four.env", "site/generator.yaml", "site/json.yaml", "site/kustomization.yaml",
			"site/merge.yaml", "site/of-generator.txt", "site/of-transformer.yaml", "site/one.txt", "site/patch.yaml", "site/replacement.yaml",
			"site/replacements.yaml", "site/schema.json", "site/three.env", "site/two.txt", "site/validator.yaml",
		}},
		"the root": {"", map[string]string{
			"kustomization.yaml": "resources: [./a.yaml, b]", "a.yaml": "", "b/kustomization.yaml": "resources: [../a.yaml]",
		}, []string{"a.yaml", "b/kustomization.yaml", "kustomization.yaml"}},
		"aliases and merges": {"s", map[string]string{
			"s/kustomization.yaml": "x: &x {path: p.yaml}\npatches:\n- <<: *x\n- *x\nresources: &r [a.yaml]\ncrds: *r", "s/p.yaml": "", "s/a.yaml": "",
		}, []string{"s/a.yaml", "s/kustomization.yaml", "s/p.yaml"}},
		"a base twice": {"s", map[string]string{
			"s/kustomization.yaml": "resources: [../a, ../b]", "a/kustomization.yaml": "resources: [../c]", "b/kustomization.yaml": "resources: [../c]", "c/kustomization.yaml": "{}",
		}, []string{"a/kustomization.yaml", "b/kustomization.yaml", "c/kustomization.yaml", "s/kustomization.yaml"}},
		"configurations in a folder": {"s", map[string]string{
			"s/kustomization.yaml": "transformers: [../t]", "t/kustomization.yaml": "resources: [p.yaml]",
			"t/p.yaml": "apiVersion: builtin\nkind: PatchTransformer\npath: patch.yaml", "s/patch.yaml": "",
		}, []string{"s/kustomization.yaml", "s/patch.yaml", "t/kustomization.yaml", "t/p.yaml"}},
		"a file with the name of a repository": {"s", map[string]string{
			"s/kustomization.yaml": "resources: [github.com/a/b.yaml, me@there/x.yaml]", "s/github.com/a/b.yaml": "", "s/me@there/x.yaml": "",
		}, []string{"s/github.com/a/b.yaml", "s/kustomization.yaml", "s/me@there/x.yaml"}},
	} {
		t.Run(name, func(t *testing.T) {
			c, err := Follow(tree(tc.files), tc.dir, Limits{})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, slices.Sorted(maps.Keys(c.Files))); diff != "" || len(c.Problems) > 0 {
				t.Errorf("%s\n(-want +got):\n%s", strings.Join(told(c.Problems), "\n"), diff)
			}
		})
	}
}

// remotes are entries that kustomize fetches, or would if it knew them; all of them are refused.
var remotes = []string{
	"https://github.com/org/repo", "https://github.com/org/repo//base?ref=v1", "http://example.org/x.yaml", "HTTPS://example.org/x.yaml",
	"git::https://example.org/org/repo.git", "GIT::https://example.org/a/b", "git::git@github.com:org/repo", "github.com/org/repo?ref=main", "GitHub.com/org/repo",
	"github.com:org/repo", "git@github.com:org/repo.git", "git@gitlab.example.org:org/repo.git//path?ref=v1", "ssh://git@example.org/org/repo",
	"ssh://git@example.org:2222/org/repo.git", "org-1234@github.com:org/repo", "file:///etc", "file://localhost/repo", "git://example.org/org/repo",
	"s3://bucket/key", "oci://example.org/x", "gitlab.com/org/repo", "gitlab.com/org/repo/path?ref=v1", "bitbucket.org/org/repo.git//x", "example.org:8080/a/b",
	"https://dev.azure.com/org/project/_git/repo?version=GBmain", "dev.azure.com/org/project/_git/repo", "example.org:org/repo.git", "user@host/org/repo",
	"https:example.org/x.yaml", "http:x", "../repo.git//base", "base?ref=main",
}

func TestRemotesAreRefused(t *testing.T) {
	for _, entry := range remotes {
		for field, format := range map[string]string{
			"resources[0]": "resources: [%q]", "bases[0]": "bases: [%q]", "components[0]": "components: [%q]", "crds[0]": "crds: [%q]",
			"patches[0].path": "patches: [{path: %q}]", "generators[0]": "generators: [%q]", "openapi.path": "openapi: {path: %q}",
			"configMapGenerator[0].files[0]": "configMapGenerator: [{name: a, files: [%q]}]",
		} {
			files := map[string]string{"s/kustomization.yaml": fmt.Sprintf("# one\n"+format, entry)}
			c, err := Follow(tree(files), "s", Limits{})
			if err != nil {
				t.Fatal(err)
			}
			if got := told(c.Problems); len(got) != 1 || c.Files != nil || !strings.HasPrefix(got[0], "s/kustomization.yaml:2: "+field+": ") ||
				!strings.Contains(got[0], "remote") && !strings.Contains(entry, "=") || !strings.Contains(got[0], "commit it") {
				t.Errorf("%s: %s: %q", field, entry, got)
			}
		}
	}
}

func TestRefused(t *testing.T) {
	for name, tc := range map[string]struct {
		files map[string]string
		want  []string
	}{
		"what is outside": {map[string]string{"s/kustomization.yaml": "resources:\n- ../../x\n- /etc/passwd\n- C:\\x\n- \"\""}, []string{
			`s/kustomization.yaml:2: resources[0]: "../../x" lies outside of the repository`, `s/kustomization.yaml:3: resources[1]: "/etc/passwd" is an absolute path`,
			`s/kustomization.yaml:4: resources[2]: "C:\\x" is an absolute path`, `s/kustomization.yaml:5: resources[3]: is empty`,
		}},
		"links and submodules": {map[string]string{
			"s/kustomization.yaml": "resources: [link.yaml, linked/x.yaml, ../module, ../module/x.yaml]", "s/link.yaml": "-> /etc/passwd", "s/linked": "-> ..", "module": "submodule",
		}, []string{
			`s/kustomization.yaml:1: resources[0]: "s/link.yaml" is a symbolic link`, `s/kustomization.yaml:1: resources[1]: "s/linked" is a symbolic link`,
			`s/kustomization.yaml:1: resources[2]: "module" is a submodule`, `s/kustomization.yaml:1: resources[3]: "module" is a submodule`,
		}},
		"the kustomization is a link": {map[string]string{"s/kustomization.yaml": "-> ../x.yaml", "x.yaml": ""}, []string{
			`s/kustomization.yaml:0: : "s/kustomization.yaml" is a symbolic link`,
		}},
		"what is not there": {map[string]string{
			"s/kustomization.yaml": "resources: [a.yaml, ../b, kustomization.yaml/x]\ncomponents: [c.yaml]\npatches: [{path: ../d}]", "s/c.yaml": "", "d/x": "", "b/x": "",
		}, []string{
			`s/kustomization.yaml:1: resources[0]: "a.yaml" is not in the repository ("s/a.yaml")`, `s/kustomization.yaml:1: resources[1]: folder "b" holds no kustomization.yaml`,
			`s/kustomization.yaml:1: resources[2]: "kustomization.yaml/x" is not in the repository`,
			`s/kustomization.yaml:2: components[0]: "c.yaml" is a file, and a component`, `s/kustomization.yaml:3: patches[0].path: "../d" is a folder`,
		}},
		"a cycle": {map[string]string{"s/kustomization.yaml": "resources: [../a]", "a/kustomization.yaml": "resources: [../b]", "b/kustomization.yaml": "resources: [../a]"}, []string{
			`b/kustomization.yaml:1: resources[0]: folder "a" is included by itself or by a folder in it (a → b → a)`,
		}},
		"itself, and what is above": {map[string]string{"s/kustomization.yaml": "resources: [., ..]\ncomponents: [../s]", "kustomization.yaml": "{}"}, []string{
			`s/kustomization.yaml:1: resources[0]: folder "s" is included by itself`, `s/kustomization.yaml:1: resources[1]: folder of the root is included by itself`,
			`s/kustomization.yaml:2: components[0]: folder "s" is included by itself`,
		}},
		"Helm": {map[string]string{"s/kustomization.yaml": "helmGlobals: {chartHome: x}\nhelmcharts: [{name: x}]\nhelmChartInflationGenerator: [{}]"}, []string{
			"s/kustomization.yaml:1: helmGlobals: Helm charts are not inflated", "s/kustomization.yaml:2: helmcharts: Helm charts", "s/kustomization.yaml:3: helmChartInflationGenerator: Helm",
		}},
		"plugins": {map[string]string{
			"s/kustomization.yaml": "generators:\n- exec.yaml\n- |\n  apiVersion: example.org/v1\n  kind: Maker\ntransformers: [../t]\nvalidators: [function.yaml]",
			"s/exec.yaml":          "apiVersion: someteam.example.com/v1\nkind: SedTransformer", "s/function.yaml": "apiVersion: v1\nkind: F\nmetadata:\n  annotations:\n    config.kubernetes.io/function: 'exec: {path: x}'",
			"t/kustomization.yaml": "resources: [chart.yaml]", "t/chart.yaml": "apiVersion: builtin\nkind: HelmChartInflationGenerator",
		}, []string{
			`s/exec.yaml:1: apiVersion: "SedTransformer" of apiVersion "someteam.example.com/v1" is a plugin`, `s/kustomization.yaml:3: generators[1]: apiVersion: "Maker" of apiVersion`,
			"t/chart.yaml:1: kind: Helm charts", `s/function.yaml:1: metadata.annotations[config.kubernetes.io/function]: "F" is a function`,
		}},
		"in a base": {map[string]string{"s/kustomization.yaml": "resources: [../b]", "b/kustomization.yaml": "\nresources:\n- https://example.org/x"}, []string{
			`b/kustomization.yaml:3: resources[0]: "https://example.org/x" is remote`,
		}},
		"several kustomizations": {map[string]string{"s/kustomization.yaml": "", "s/Kustomization": ""}, []string{`s/kustomization.yaml:0: : folder "s" holds several kustomizations (s/kustomization.yaml, s/Kustomization)`}},
		"no YAML":                {map[string]string{"s/kustomization.yaml": "a: [b"}, []string{"s/kustomization.yaml:0: : is not valid YAML"}},
		"a tag directive":        {map[string]string{"s/kustomization.yaml": "%TAG ! !a\n---\na: b"}, []string{"s/kustomization.yaml:0: : has a %TAG directive"}},
		"too many problems": {map[string]string{"s/kustomization.yaml": "resources: [" + strings.Repeat("x,", 50) + "]"}, slices.Repeat([]string{
			"s/kustomization.yaml:1: resources[",
		}, maxProblems)},
	} {
		t.Run(name, func(t *testing.T) {
			c, err := Follow(tree(tc.files), "s", Limits{})
			if err != nil {
				t.Fatal(err)
			}
			begins := cmp.Comparer(func(a, b string) bool { return strings.HasPrefix(a, b) || strings.HasPrefix(b, a) })
			if diff := cmp.Diff(tc.want, told(c.Problems), begins, cmpopts.EquateEmpty()); diff != "" || c.Files != nil {
				t.Errorf("problems (-want +got):\n%s", diff)
			}
		})
	}
}

func TestLimitsOfClosures(t *testing.T) {
	deep := map[string]string{"s/kustomization.yaml": "resources: [../d0]"}
	wide := map[string]string{"s/kustomization.yaml": "resources: [../w0a, ../w0b]"}
	for i := range 50 {
		deep[fmt.Sprintf("d%d/kustomization.yaml", i)] = fmt.Sprintf("resources: [../d%d]", i+1)
		if i < 12 {
			both := fmt.Sprintf("resources: [../w%da, ../w%db]", i+1, i+1)
			wide[fmt.Sprintf("w%da/kustomization.yaml", i)], wide[fmt.Sprintf("w%db/kustomization.yaml", i)] = both, both
		}
	}
	wide["w12a/kustomization.yaml"], wide["w12b/kustomization.yaml"] = "{}", "{}"
	many := map[string]string{"s/kustomization.yaml": "resources:\n"}
	for i := range 20 {
		many["s/kustomization.yaml"] += fmt.Sprintf("- f%d.yaml\n", i)
		many[fmt.Sprintf("s/f%d.yaml", i)] = strings.Repeat("#", 100)
	}
	bomb := "a: &a {files: [" + strings.Repeat("x,", 900) + "]}\nconfigMapGenerator: [" + strings.Repeat("*a,", 900) + "]"
	for name, tc := range map[string]struct {
		files  map[string]string
		limits Limits
		want   string
	}{
		"depth":   {deep, Limits{}, "more than 32 deep"},
		"builds":  {wide, Limits{}, "more than 500 times"},
		"files":   {many, Limits{Files: 10}, "more than 10 files"},
		"bytes":   {many, Limits{Bytes: 1500}, "larger than 1500 bytes together"},
		"a file":  {many, Limits{FileBytes: 90}, "larger than the limit of 90 bytes"},
		"values":  {map[string]string{"s/kustomization.yaml": "x: [" + strings.Repeat("1,", 20_000) + "]"}, Limits{}, "more than 20000 values"},
		"entries": {map[string]string{"s/kustomization.yaml": bomb}, Limits{}, "more than 5000 entries"},
	} {
		c, err := Follow(tree(tc.files), "s", tc.limits)
		if err != nil || len(c.Problems) == 0 || !strings.Contains(strings.Join(told(c.Problems), "\n"), tc.want) {
			t.Errorf("%s: %v %v", name, err, told(c.Problems))
		}
	}
}

func TestFind(t *testing.T) {
	files := tree(map[string]string{"a/kustomization.yml": "", "b/x.yaml": "", "Kustomization": "", "c/kustomization.yaml/x": ""})
	for dir, want := range map[string]string{"a": "a/kustomization.yml", "b": "", "": "Kustomization", "c": "", "d": ""} {
		if got, err := Find(files, dir); err != nil || got != want {
			t.Errorf("%q: %q %v, want %q", dir, got, err, want)
		}
	}
}

func TestKey(t *testing.T) {
	a := Closure{Dir: "s", Files: map[string][]byte{"a": []byte("bc"), "d": nil}}
	for name, other := range map[string]Closure{
		"another folder":  {Dir: "t", Files: a.Files},
		"another split":   {Dir: "s", Files: map[string][]byte{"ab": []byte("c"), "d": nil}},
		"another content": {Dir: "s", Files: map[string][]byte{"a": []byte("bd"), "d": nil}},
		"one fewer":       {Dir: "s", Files: map[string][]byte{"a": []byte("bc")}},
	} {
		if a.Key() == other.Key() {
			t.Errorf("%s: the same key", name)
		}
	}
}

// FuzzFollow wants an end, an answer within the limits, and nothing from outside of the tree.
func FuzzFollow(f *testing.F) {
	f.Add("resources: [../b]", "resources: [a.yaml]", "a: b")
	f.Add("transformers: [t.yaml]\npatches: [{path: ../b/a.yaml}]", "kind: Component", "apiVersion: builtin\nkind: PatchTransformer\npath: ../s/t.yaml")
	f.Add("a: &a [*a]\nresources: *a", "<<: *x", "items: [{kind: List, items: []}]")
	for _, entry := range remotes[:4] {
		f.Add(fmt.Sprintf("resources: [%q]", entry), "", "")
	}
	f.Fuzz(func(t *testing.T, site, base, file string) {
		files := tree(map[string]string{"s/kustomization.yaml": site, "b/kustomization.yaml": base, "b/a.yaml": file, "s/t.yaml": file})
		c, err := Follow(files, "s", Limits{Files: 3})
		if err != nil {
			t.Fatal(err)
		}
		if (len(c.Problems) > 0) == (c.Files != nil) || len(c.Problems) > maxProblems || len(c.Files) > 3 {
			t.Errorf("%d files and %d problems", len(c.Files), len(c.Problems))
		}
		for name := range c.Files {
			if files[name] == nil {
				t.Errorf("%q is in no tree", name)
			}
		}
	})
}
