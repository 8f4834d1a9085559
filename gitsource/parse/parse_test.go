package parse_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/minifleet/minifleet/gitsource"
	"github.com/minifleet/minifleet/gitsource/parse"
)

const (
	mini = `apiVersion: flux-framework.org/v1alpha2
kind: MiniCluster
metadata:
  name: NAME
spec:
  size: 2
  containers:
    - image: registry.example/lammps:1
      command: lmp
`
	fleet = `apiVersion: minifleet.dev/v1alpha1
kind: FleetMiniCluster
metadata:
  name: NAME
spec:
  placementRef:
    name: gpu
  miniCluster:
    size: 2
    containers:
      - image: registry.example/lammps:1
`
	placement = `apiVersion: minifleet.dev/v1alpha1
kind: Placement
metadata:
  name: NAME
spec:
  numberOfClusters: 1
  clusterSelector:
    matchLabels:
      gpu: "true"
`
)

func named(manifest, name string) string { return strings.ReplaceAll(manifest, "NAME", name) }

// tree parses files given as pairs of path and content, in namespace hpc.
func tree(pairs ...string) parse.Result {
	var files []gitsource.File
	for i := 0; i+1 < len(pairs); i += 2 {
		files = append(files, gitsource.File{Path: pairs[i], Data: []byte(pairs[i+1])})
	}
	return parse.Tree(files, parse.Options{Namespace: "hpc"})
}

// objects lists KIND/NAME PATH#INDEX:LINE.
func objects(res parse.Result) []string {
	var list []string
	for _, o := range res.Objects {
		list = append(list, fmt.Sprintf("%s/%s %s#%d:%d", o.Kind, o.Name, o.Path, o.Index, o.Line))
	}
	return list
}

func TestObjects(t *testing.T) {
	indent := func(manifest string) string {
		return "- " + strings.TrimSuffix(strings.ReplaceAll(manifest, "\n", "\n  "), "  ")
	}
	cases := map[string]struct {
		files   []string
		want    []string
		ignored int
	}{
		"nothing": {},
		"each kind": {
			files: []string{"a.yaml", named(mini, "a"), "b.yaml", named(fleet, "b"), "c.yaml", named(placement, "c")},
			want:  []string{"MiniCluster/a a.yaml#0:1", "FleetMiniCluster/b b.yaml#0:1", "Placement/c c.yaml#0:1"},
		},
		"documents of one file": {
			files:   []string{"a.yaml", "# first\n---\n" + named(mini, "a") + "---\n---\nkind: Other\n---\n" + named(placement, "b")},
			want:    []string{"MiniCluster/a a.yaml#0:3", "Placement/b a.yaml#2:16"},
			ignored: 1,
		},
		"order of paths, not of files": {
			files: []string{"b.yaml", named(mini, "b"), "a.yaml", named(mini, "z")},
			want:  []string{"MiniCluster/z a.yaml#0:1", "MiniCluster/b b.yaml#0:1"},
		},
		"a list": {
			files: []string{"l.yaml", "apiVersion: v1\nkind: List\nitems:\n" + indent(named(mini, "a")) +
				"- {apiVersion: v1, kind: Secret}\n" + indent(named(placement, "p"))},
			want:    []string{"MiniCluster/a l.yaml#0:4", "Placement/p l.yaml#2:14"},
			ignored: 1,
		},
		"a list of the kind": {
			files: []string{"l.yaml", "apiVersion: flux-framework.org/v1alpha2\nkind: MiniClusterList\nitems:\n" + indent(named(mini, "a"))},
			want:  []string{"MiniCluster/a l.yaml#0:4"},
		},
		"other documents": {
			files: []string{"values.yaml", "image: x\nreplicas: 2\n", "list.yaml", "- 1\n- 2\n", "text.yaml", "just text\n",
				"kustomization.yaml", "resources: [a.yaml]\n", "deploy.yaml", "apiVersion: apps/v1\nkind: Deployment\nkind: twice\n",
				"other.yaml", "apiVersion: flux-framework.org/v1alpha2\nkind: MetricSet\n",
				"source.yaml", "apiVersion: minifleet.dev/v1alpha1\nkind: GitSource\n",
				"stranger.yaml", "apiVersion: example.org/v1\nkind: MiniCluster\nmetadata: {name: a}\n",
				"empty.yaml", "", "comment.yaml", "# nothing\n"},
			ignored: 8,
		},
		"JSON with tabs": {
			files: []string{"a.json", "{\n\t\"apiVersion\": \"minifleet.dev/v1alpha1\",\n\t\"kind\": \"Placement\",\n\t\"metadata\": {\"name\": \"p\"},\n\t\"spec\": {}\n}\n"},
			want:  []string{"Placement/p a.json#0:1"},
		},
		"own namespace": {
			files: []string{"a.yaml", strings.Replace(named(mini, "a"), "  name: a\n", "  name: a\n  namespace: hpc\n", 1)},
			want:  []string{"MiniCluster/a a.yaml#0:1"},
		},
		"anchors, aliases and merges": {
			files: []string{"a.yaml", `apiVersion: flux-framework.org/v1alpha2
kind: MiniCluster
metadata: {name: a}
spec:
  size: 1
  containers:
    - &base {name: one, image: registry.example/x:1, runFlux: true}
    - <<: *base
      name: two
      runFlux: false
      command: sleep 1
`},
			want: []string{"MiniCluster/a a.yaml#0:1"},
		},
		"what a cluster printed": {
			files: []string{"a.yaml", named(mini, "a") + "status:\n  jobid: x\n"},
			want:  []string{"MiniCluster/a a.yaml#0:1"},
		},
		"windows line ends and a byte order mark": {
			files: []string{"a.yaml", "\xEF\xBB\xBF" + strings.ReplaceAll(named(mini, "a"), "\n", "\r\n")},
			want:  []string{"MiniCluster/a a.yaml#0:1"},
		},
		"same name, other kind": {
			files: []string{"a.yaml", named(mini, "a"), "b.yaml", named(placement, "a")},
			want:  []string{"MiniCluster/a a.yaml#0:1", "Placement/a b.yaml#0:1"},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			res := tree(tc.files...)
			if len(res.Problems) != 0 {
				t.Errorf("problems: %+v", res.Problems)
			}
			if diff := cmp.Diff(tc.want, objects(res)); diff != "" {
				t.Errorf("objects (-want +got):\n%s", diff)
			}
			if res.Ignored != tc.ignored {
				t.Errorf("%d documents ignored, want %d", res.Ignored, tc.ignored)
			}
		})
	}
}

func TestObjectIsAsInGit(t *testing.T) {
	manifest := strings.Replace(named(mini, "a"), "  name: a\n",
		"  name: a\n  labels: {minifleet.dev/placement: gpu, on: \"off\"}\n  annotations: {note: \"7\"}\n", 1)
	res := tree("a.yaml", strings.Replace(manifest, "  size: 2\n", "  size: 2\n  interactive: yes\n", 1))
	if len(res.Objects) != 1 {
		t.Fatalf("problems: %+v", res.Problems)
	}
	got := res.Objects[0].MiniCluster
	if diff := cmp.Diff(map[string]string{"minifleet.dev/placement": "gpu", "on": "off"}, got.Labels); diff != "" {
		t.Errorf("labels (-want +got):\n%s", diff)
	}
	if got.Annotations["note"] != "7" || !got.Spec.Interactive || got.Spec.Tasks != nil || got.Spec.Containers[0].Command != "lmp" {
		t.Errorf("object %+v, want what Git says and no defaults", got)
	}
	if res.Objects[0].FleetMiniCluster != nil || res.Objects[0].Placement != nil {
		t.Error("more than one object is set")
	}
}

func TestDeclaresSuspend(t *testing.T) {
	for name, tc := range map[string]struct {
		line     string
		declared bool
	}{
		"true":    {"  suspend: true\n", true},
		"false":   {"  suspend: false\n", true},
		"null":    {"  suspend:\n", false},
		"nothing": {"", false},
	} {
		got := tree("a.yaml", named(fleet, "a")+tc.line)
		if len(got.Objects) != 1 || got.Objects[0].DeclaresSuspend != tc.declared {
			t.Errorf("%s: %+v", name, got)
		}
	}
	if got := tree("a.yaml", named(mini, "a")); got.Objects[0].DeclaresSuspend {
		t.Error("a MiniCluster declares it")
	}
}

func TestMergeKeepsWhatIsSet(t *testing.T) {
	res := tree("a.yaml", `apiVersion: flux-framework.org/v1alpha2
kind: MiniCluster
metadata: {name: a}
spec:
  size: 1
  containers:
    - &base {name: one, image: "registry.example/x:1", runFlux: true}
    - <<: [{command: run}, *base]
      name: two
      runFlux: false
`)
	if len(res.Objects) != 1 {
		t.Fatalf("problems: %+v", res.Problems)
	}
	c := res.Objects[0].MiniCluster.Spec.Containers[1]
	if c.Name != "two" || c.Image != "registry.example/x:1" || c.Command != "run" || c.RunFlux {
		t.Errorf("container %+v", c)
	}
}

func TestResultDoesNotDependOnOrder(t *testing.T) {
	files := []gitsource.File{
		{Path: "a.yaml", Data: []byte(named(mini, "a"))},
		{Path: "b.yaml", Data: []byte(named(mini, "a") + "---\n" + named(placement, "p"))},
		{Path: "c.yaml", Data: []byte("a: [")},
		{Path: "d.yaml", Problem: "is a symbolic link"},
	}
	want := parse.Tree(files, parse.Options{})
	slices.Reverse(files)
	if diff := cmp.Diff(want, parse.Tree(files, parse.Options{})); diff != "" {
		t.Errorf("reversed (-want +got):\n%s", diff)
	}
	if files[0].Path != "d.yaml" {
		t.Error("Tree sorted its caller's files")
	}
}

func TestLineOf(t *testing.T) {
	files := []gitsource.File{{Path: "a.yaml", Data: []byte("# first\n" + named(mini, "a"))}}
	for lines, want := range map[bool][]int{true: {7, 9, 9, 2}, false: {2, 2, 2, 2}} {
		res := parse.Tree(files, parse.Options{Lines: lines})
		var got []int
		for _, field := range []string{"spec.size", "spec.containers[0].image", "spec.containers[0].securityContext.privileged", "status"} {
			got = append(got, res.Objects[0].LineOf(field))
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("lines, with Lines: %v (-want +got):\n%s", lines, diff)
		}
	}
}

func TestAnyNamespace(t *testing.T) {
	in := func(namespace string) string {
		return strings.Replace(named(mini, "a"), "  name: a\n", "  name: a\n  namespace: "+namespace+"\n", 1)
	}
	res := parse.Tree([]gitsource.File{{Path: "a.yaml", Data: []byte(in("one") + "---\n" + in("two") + "---\n" + in("one"))}}, parse.Options{AnyNamespace: true})
	if diff := cmp.Diff([]string{"MiniCluster/a a.yaml#0:1", "MiniCluster/a a.yaml#1:12"}, objects(res)); diff != "" {
		t.Errorf("objects (-want +got):\n%s", diff)
	}
	if len(res.Problems) != 1 || res.Problems[0].Line != 23 {
		t.Errorf("problems %+v, want one of the third document", res.Problems)
	}
}
