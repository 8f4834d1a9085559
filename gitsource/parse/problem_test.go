package parse_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/minifleet/minifleet/gitsource"
	"github.com/minifleet/minifleet/gitsource/parse"
)

func TestProblems(t *testing.T) {
	edit := func(manifest, old, replacement string) string {
		t.Helper()
		if !strings.Contains(manifest, old) {
			t.Fatalf("the manifest has no %q", old)
		}
		return strings.Replace(manifest, old, replacement, 1)
	}
	miniA, fleetA, placementA := named(mini, "a"), named(fleet, "a"), named(placement, "a")
	cases := map[string]struct {
		manifest string
		line     int
		object   string
		field    string
		says     string
	}{
		"syntax":               {"a: 1\nb: [\n", 2, "", "", "is not valid YAML"},
		"template":             {"a: {{ .Values.x }}\n{{ if }}\n", 2, "", "", "template must be rendered"},
		"not UTF-8":            {"a: 1\nb: \xff\n", 2, "", "", "is not valid YAML"},
		"unknown field":        {edit(miniA, "  size: 2", "  sise: 2"), 6, "MiniCluster/a", "spec.sise", "no such field"},
		"unknown nested field": {edit(miniA, "command", "comand"), 9, "MiniCluster/a", "spec.containers[0].comand", "no such field"},
		"wrong letter case":    {edit(miniA, "command", "Command"), 9, "MiniCluster/a", "spec.containers[0].Command", "no such field"},
		"unknown top field":    {miniA + "data: {}\n", 10, "MiniCluster/a", "data", "no such field"},
		"duplicate":            {edit(miniA, "  size: 2\n", "  size: 2\n  size: 3\n"), 7, "MiniCluster/a", "spec.size", "first on line 6"},
		"text for a number":    {edit(miniA, "size: 2", "size: two"), 6, "MiniCluster/a", "spec.size", "must be a whole number, and is a string"},
		"number for text":      {edit(miniA, "command: lmp", "command: 5"), 9, "MiniCluster/a", "spec.containers[0].command", "quotes"},
		"fraction":             {edit(miniA, "size: 2", "size: 1.5"), 6, "MiniCluster/a", "spec.size", "whole number"},
		"not a number":         {edit(miniA, "size: 2", "size: .nan"), 6, "MiniCluster/a", "spec.size", "not a number"},
		"unknown tag":          {edit(miniA, "size: 2", "size: !env SIZE"), 6, "MiniCluster/a", "spec.size", "tag !env"},
		"boolean name":         {edit(miniA, "name: a", "name: yes"), 4, "MiniCluster/yes", "metadata.name", "quotes"},
		"no name":              {edit(miniA, "name: a", "labels: {}"), 3, "MiniCluster", "metadata.name", "set metadata.name"},
		"generated name":       {edit(miniA, "name: a", "generateName: a-"), 4, "MiniCluster", "metadata.generateName", "set metadata.name"},
		"other namespace":      {edit(miniA, "name: a", "name: a\n  namespace: lab"), 5, "MiniCluster/a", "metadata.namespace", `"hpc"`},
		"bad name":             {named(placement, "Big_Name"), 4, "Placement/Big_Name", "metadata.name", "RFC 1123"},
		"bad label":            {edit(miniA, "name: a", "name: a\n  labels:\n    x: 'a b'"), 5, "MiniCluster/a", "metadata.labels", "label"},
		"old version":          {edit(miniA, "v1alpha2", "v1alpha1"), 1, "MiniCluster/a", "apiVersion", "only flux-framework.org/v1alpha2"},
		"future version":       {edit(placementA, "v1alpha1", "v2"), 1, "Placement/a", "apiVersion", "only minifleet.dev/v1alpha1"},
		"group of another":     {edit(miniA, "flux-framework.org/v1alpha2", "minifleet.dev/v1alpha1"), 1, "MiniCluster/a", "apiVersion", "only flux"},
		"kind misspelled":      {edit(fleetA, "FleetMiniCluster", "FleetMinicluster"), 1, "FleetMinicluster/a", "apiVersion", "written FleetMiniCluster"},
		"size above maxSize":   {edit(miniA, "size: 2", "size: 2\n  maxSize: 1"), 6, "MiniCluster/a", "spec.size", "maxSize"},
		"priority":             {edit(miniA, "name: a", "name: a\n  annotations:\n    minifleet.dev/priority: high"), 6, "MiniCluster/a", "metadata.annotations[minifleet.dev/priority]", "must be a whole number"},
		"retries":              {edit(miniA, "name: a", "name: a\n  annotations:\n    minifleet.dev/retries: \"101\""), 6, "MiniCluster/a", "metadata.annotations[minifleet.dev/retries]", "from 0 to 100"},
		"on-change":            {edit(miniA, "name: a", "name: a\n  annotations:\n    minifleet.dev/on-change: Never"), 6, "MiniCluster/a", "metadata.annotations[minifleet.dev/on-change]", "AfterCompletion"},
		"patience":             {edit(placementA, "spec:", "spec:\n  pendingTimeout: 9s"), 6, "Placement/a", "spec.pendingTimeout", "at least 10s"},
		"failover at once":     {edit(placementA, "spec:", "spec:\n  failover: {afterSeconds: 1}"), 6, "Placement/a", "spec.failover.afterSeconds", "from 10 to 604800"},
		"fencing":              {edit(placementA, "spec:", "spec:\n  failover: {afterSeconds: 10, fencing: None}"), 6, "Placement/a", "spec.failover.fencing", "ProvenGone"},
		"size 0":               {edit(miniA, "size: 2", "size: 0"), 6, "MiniCluster/a", "spec.size", "must be at least 1; remove the field"},
		"fleet: size 0":        {edit(fleetA, "size: 2", "size: 0"), 9, "FleetMiniCluster/a", "spec.miniCluster.size", "must be at least 1"},
		"deadline 0":           {edit(miniA, "  size: 2", "  size: 2\n  deadlineSeconds: 0"), 7, "MiniCluster/a", "spec.deadlineSeconds", "at least 1"},
		"a variable's name":    {edit(miniA, "      command", "      environment:\n        A: a\n        2: b\n      command"), 11, "MiniCluster/a", "spec.containers[0].environment[2]", "environment variable"},
		"a hostile key":        {edit(miniA, "command: lmp", "\"c\\e[2J\": lmp"), 9, "MiniCluster/a", "spec.containers[0].c\uFFFD[2J", "no such field"},
		"a hostile value":      {edit(miniA, "registry.example/lammps:1", "\"a\\e[2J\""), 8, "MiniCluster/a", "spec.containers[0].image", "U+001B"},
		"a hostile name":       {edit(miniA, "name: a", "name: \"a\\n\\e[2J\""), 4, "MiniCluster/a \uFFFD[2J", "metadata.name", `"a\n\x1b[2J"`},
		"fleet: nested":        {edit(fleetA, "    size: 2", "    size: 2\n    maxSize: 1"), 9, "FleetMiniCluster/a", "spec.miniCluster.size", "maxSize"},
		"fleet: no placement":  {edit(fleetA, "  placementRef:\n    name: gpu\n", ""), 5, "FleetMiniCluster/a", "spec", "exactly one"},
		"fleet: both":          {edit(fleetA, "spec:\n", "spec:\n  placement: {}\n"), 5, "FleetMiniCluster/a", "spec", "exactly one"},
		"fleet: onChange":      {edit(fleetA, "spec:\n", "spec:\n  onChange: Never\n"), 6, "FleetMiniCluster/a", "spec.onChange", "AfterCompletion"},
		"fleet: obsolete":      {edit(fleetA, "    size: 2", "    size: 2\n    volumes: {}"), 10, "FleetMiniCluster/a", "spec.miniCluster.volumes", "no such field"},
		"placement: none":      {edit(placementA, "Clusters: 1", "Clusters: 0"), 6, "Placement/a", "spec.numberOfClusters", "at least 1"},
		"placement: selector":  {edit(placementA, `"true"`, `"a b"`), 8, "Placement/a", "spec.clusterSelector.matchLabels", "label"},
		"self reference":       {edit(miniA, "spec:", "spec: &s\n  x: *s"), 0, "MiniCluster/a", "", "deep"},
		"deep":                 {edit(miniA, "size: 2", "size: "+strings.Repeat("[", 100)+strings.Repeat("]", 100)), 6, "MiniCluster/a", "", "deep"},
		"list of an alias": {"apiVersion: v1\nkind: List\nitems:\n- &a {apiVersion: v1, kind: Secret}\n- *a\n",
			5, "", "", "alias"},
		"text for a mapping": {"apiVersion: minifleet.dev/v1alpha1\nkind: Placement\nmetadata: {name: a}\nspec: all\n",
			4, "Placement/a", "spec", "must be a mapping"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			res := tree("dir/bad.yaml", tc.manifest, "good.yaml", named(placement, "good"))
			if len(res.Problems) == 0 {
				t.Fatal("no problem")
			}
			got := res.Problems[0]
			if !strings.Contains(got.Message, tc.says) {
				t.Errorf("message %q does not say %q", got.Message, tc.says)
			}
			line := tc.line
			if line == 0 {
				line = got.Line
			}
			want := parse.Problem{Path: "dir/bad.yaml", Line: line, Object: tc.object, Field: tc.field, Message: got.Message}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("problem (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff([]string{"Placement/good good.yaml#0:1"}, objects(res)); diff != "" {
				t.Errorf("objects (-want +got):\n%s", diff)
			}
		})
	}
}

func TestWarnings(t *testing.T) {
	res := tree("a.yaml", strings.Replace(named(mini, "a"), "  size: 2\n", "  size: 2\n  volumes: {}\n  size: 2\n", 1))
	want := []parse.Problem{
		{Path: "a.yaml", Line: 7, Object: "MiniCluster/a", Field: "spec.volumes", Warning: true,
			Message: "is a field of an earlier version of the API and has no effect; remove it"},
		{Path: "a.yaml", Line: 8, Object: "MiniCluster/a", Field: "spec.size", Warning: true,
			Message: "is set twice, first on line 6; keep one"},
	}
	if diff := cmp.Diff(want, res.Problems); diff != "" {
		t.Errorf("problems (-want +got):\n%s", diff)
	}
	if len(res.Objects) != 1 {
		t.Error("an object with warnings only is not used")
	}

	res = tree("a.yaml", strings.Replace(named(fleet, "a"), "      - image", "      - logs: /tmp/logs\n        image", 1))
	want = []parse.Problem{{Path: "a.yaml", Line: 11, Object: "FleetMiniCluster/a", Field: "spec.miniCluster.containers[0].logs", Warning: true,
		Message: "is for the output of batch jobs: set batch: true, or remove it"}}
	if diff := cmp.Diff(want, res.Problems); diff != "" {
		t.Errorf("problems (-want +got):\n%s", diff)
	}
}

func TestSameNameTwice(t *testing.T) {
	cases := map[string]struct {
		files []string
		keeps []string
		line  int
		says  string
	}{
		"two files": {
			files: []string{"b.yaml", named(mini, "x"), "a.yaml", named(mini, "x")},
			keeps: []string{"MiniCluster/x a.yaml#0:1"}, line: 1, says: "a.yaml:1 declares the MiniCluster x already",
		},
		"one file": {
			files: []string{"b.yaml", named(mini, "x") + "---\n" + named(mini, "x")},
			keeps: []string{"MiniCluster/x b.yaml#0:1"}, line: 11, says: "b.yaml:1 declares",
		},
		"two kinds, one object on the hub": {
			files: []string{"b.yaml", named(fleet, "x"), "a.yaml", named(mini, "x")},
			keeps: []string{"MiniCluster/x a.yaml#0:1"}, line: 1, says: "a.yaml:1 declares the MiniCluster x",
		},
		"the first is wrong and keeps its name": {
			files: []string{"b.yaml", named(mini, "x"), "a.yaml", strings.Replace(named(mini, "x"), "size", "sise", 1)},
			line:  1, says: "a.yaml:1 declares",
		},
		"the first is of an old version": {
			files: []string{"b.yaml", named(mini, "x"), "a.yaml", strings.Replace(named(mini, "x"), "v1alpha2", "v1alpha1", 1)},
			line:  1, says: "a.yaml:1 declares",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			res := tree(tc.files...)
			if diff := cmp.Diff(tc.keeps, objects(res)); diff != "" {
				t.Errorf("objects (-want +got):\n%s", diff)
			}
			last := res.Problems[len(res.Problems)-1]
			if last.Path != "b.yaml" || last.Line != tc.line || !strings.Contains(last.Message, tc.says) || !strings.Contains(last.Message, "b.yaml:") {
				t.Errorf("problem %+v, want b.yaml line %d and %q", last, tc.line, tc.says)
			}
		})
	}
}

func TestDocumentsBeforeASyntaxError(t *testing.T) {
	res := tree("a.yaml", named(mini, "a")+"---\nb: [\n")
	if diff := cmp.Diff([]string{"MiniCluster/a a.yaml#0:1"}, objects(res)); diff != "" {
		t.Errorf("objects (-want +got):\n%s", diff)
	}
	if len(res.Problems) != 1 || res.Problems[0].Line < 11 {
		t.Errorf("problems %+v, want one at the second document", res.Problems)
	}
}

func TestFileProblems(t *testing.T) {
	res := parse.Tree([]gitsource.File{
		{Path: "link.yaml", Problem: "is a symbolic link"},
		{Path: "huge.yaml", Data: make([]byte, 3<<20)},
	}, parse.Options{})
	if len(res.Problems) != 2 || res.Problems[1].Message != "is a symbolic link" || !strings.Contains(res.Problems[0].Message, "split it") {
		t.Errorf("problems %+v", res.Problems)
	}
}

func TestManyProblems(t *testing.T) {
	var spec strings.Builder
	for range 500 {
		spec.WriteString("  bogus" + strings.Repeat("x", spec.Len()%7) + ": 1\n")
	}
	res := tree("a.yaml", named(mini, "a")+spec.String())
	last := res.Problems[len(res.Problems)-1]
	if len(res.Problems) > 31 || !strings.Contains(last.Message, "more problems") {
		t.Errorf("%d problems, the last %+v", len(res.Problems), last)
	}
}

// Text that grows when its aliases are expanded is refused, not expanded.
func TestAliasBomb(t *testing.T) {
	var lines strings.Builder
	lines.WriteString("x0: &x0 [a, a, a, a, a, a, a, a, a, a]\n")
	for i := 1; i < 9; i++ {
		n, m := string(rune('0'+i)), string(rune('0'+i-1))
		lines.WriteString("x" + n + ": &x" + n + " [" + strings.Repeat("*x"+m+", ", 9) + "*x" + m + "]\n")
	}
	long := "x: &x " + strings.Repeat("a", 100_000) + "\ny: [" + strings.Repeat("*x, ", 1000) + "]\n"
	for name, bomb := range map[string]string{"nodes": lines.String(), "text": long} {
		t.Run(name, func(t *testing.T) {
			res := tree("a.yaml", named(mini, "a")+bomb)
			if len(res.Objects) != 0 || len(res.Problems) != 1 || !strings.Contains(res.Problems[0].Message, "expanded") {
				t.Errorf("%d objects, problems %+v", len(res.Objects), res.Problems)
			}
			if other := tree("a.yaml", bomb); other.Ignored != 1 || len(other.Problems) != 0 {
				t.Errorf("a document that is not ours: %+v", other)
			}
		})
	}
}

func TestAllProblemsAtOnce(t *testing.T) {
	manifest := strings.Replace(named(mini, "a"), "  size: 2\n", "  sise: 2\n  size: 0\n  minSize: -1\n  pod: {restartPolicy: Always}\n", 1)
	for range 40 {
		manifest += "---\n" + strings.Replace(named(mini, "b"), "size: 2", "size: -2", 1)
	}
	res := parse.Tree([]gitsource.File{{Path: "a.yaml", Data: []byte(manifest)}}, parse.Options{AllProblems: true})
	var fields []string
	for _, p := range res.Problems[:4] {
		fields = append(fields, p.Field)
	}
	if diff := cmp.Diff([]string{"spec.sise", "spec.size", "spec.minSize", "spec.pod.restartPolicy"}, fields); diff != "" {
		t.Errorf("fields (-want +got):\n%s", diff)
	}
	if len(res.Problems) != 4+40+39 { // the name is taken 39 times
		t.Errorf("%d problems", len(res.Problems))
	}
}
