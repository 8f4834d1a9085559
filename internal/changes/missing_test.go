package changes

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/gitsource/parse"
)

func TestMissing(t *testing.T) {
	deleting := onHub("c", "fleet", "c.yaml")
	deleting.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
	have := hubOf(onHub("a", "fleet", "a.yaml"), onHub("b", "fleet", "b.yaml"), deleting, onHub("d", "other", "a.yaml"), onHub("e", "", ""))
	have["Placement/p"] = &v1alpha1.Placement{ObjectMeta: onHub("p", "fleet", "p.yaml").ObjectMeta}
	for name, tc := range map[string]struct {
		parsed     parse.Result
		undeclared []string
		pending    []string
		declared   int
	}{
		"nothing is declared":           {parse.Result{}, []string{"FleetMiniCluster/a", "FleetMiniCluster/b", "Placement/p"}, []string{"FleetMiniCluster/c"}, 0},
		"one is declared":               {parse.Result{Objects: named("a")}, []string{"FleetMiniCluster/b", "Placement/p"}, []string{"FleetMiniCluster/c"}, 1},
		"a deleted one is declared":     {parse.Result{Objects: named("c")}, []string{"FleetMiniCluster/a", "FleetMiniCluster/b", "Placement/p"}, nil, 0},
		"a new one is declared":         {parse.Result{Objects: named("z")}, []string{"FleetMiniCluster/a", "FleetMiniCluster/b", "Placement/p"}, []string{"FleetMiniCluster/c"}, 0},
		"a file cannot be read":         {parse.Result{Problems: []parse.Problem{{Path: "b.yaml"}}}, nil, nil, 3},
		"a file has a warning":          {parse.Result{Problems: []parse.Problem{{Path: "b.yaml", Warning: true}}}, []string{"FleetMiniCluster/a", "FleetMiniCluster/b", "Placement/p"}, []string{"FleetMiniCluster/c"}, 0},
		"a new file cannot be read":     {parse.Result{Problems: []parse.Problem{{Path: "new.yaml"}}}, nil, nil, 3},
		"one has moved, with a mistake": {parse.Result{Problems: []parse.Problem{{Path: "b.yaml", Object: "MiniCluster/a"}}}, []string{"Placement/p"}, []string{"FleetMiniCluster/c"}, 2},
		"the path itself has a problem": {parse.Result{Problems: []parse.Problem{{Path: ""}}}, nil, nil, 3},
	} {
		t.Run(name, func(t *testing.T) {
			m := missingOf(&Input{Source: newSource(), Hub: have, Parsed: tc.parsed})
			if diff := cmp.Diff([][]string{tc.undeclared, tc.pending}, [][]string{m.undeclared, m.pending}, cmpopts.EquateEmpty()); diff != "" || m.declared != tc.declared {
				t.Errorf("%d are declared, want %d (-want +got):\n%s", m.declared, tc.declared, diff)
			}
		})
	}
}

// What is no longer in its own file may be in an overlay by now. One that cannot be built tells of none of its objects.
func TestMissingWithOverlays(t *testing.T) {
	const file = "o/kustomization.yaml"
	have := hubOf(onHub("a", "fleet", "a.yaml"), onHub("o", "fleet", file))
	for name, tc := range map[string]struct {
		problem parse.Problem
		want    []string
	}{
		"it cannot be built":      {parse.Problem{Path: file, Message: "cannot be built"}, nil},
		"it makes a bad one":      {parse.Problem{Path: file, Object: "MiniCluster/o"}, []string{"FleetMiniCluster/a"}},
		"it has a warning":        {parse.Problem{Path: file, Warning: true}, []string{"FleetMiniCluster/a", "FleetMiniCluster/o"}},
		"it makes a as a bad one": {parse.Problem{Path: file, Object: "MiniCluster/a"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			m := missingOf(&Input{Source: newSource(), Hub: have, Parsed: parse.Result{Problems: []parse.Problem{tc.problem}}})
			if diff := cmp.Diff(tc.want, m.undeclared, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("undeclared (-want +got):\n%s", diff)
			}
		})
	}
}

// What waits for approval to run anew refers to its Placement as it was, which a commit may have removed or renamed.
func TestPlacementsOfWhatWaitsAreKept(t *testing.T) {
	placement := func(name string) *v1alpha1.Placement {
		return &v1alpha1.Placement{ObjectMeta: onHub(name, "fleet", "p.yaml").ObjectMeta}
	}
	hub := hubOf(placement("used"), placement("unused"))
	var objects []parse.Object
	for _, name := range []string{"a", "b"} {
		f := applyRunning(name, "one")
		ranFor(f, "one", "", v1alpha1.RunSucceeded)
		f.Spec.PlacementRef = &v1alpha1.LocalReference{Name: "used"}
		hub["FleetMiniCluster/"+name] = f
		objects = append(objects, running(name, "two"))
	}
	plan := Compare(inputOf(newSource(), hub, objects...))
	if diff := cmp.Diff([]string{"FleetMiniCluster/a", "FleetMiniCluster/b"}, plan.Runs.Keys); diff != "" {
		t.Errorf("waiting (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"Placement/unused"}, plan.Keys(v1alpha1.ChangeDelete)); diff != "" {
		t.Errorf("deleted (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"Placement/used"}, plan.Keys(v1alpha1.ChangeKeep)); diff != "" {
		t.Errorf("kept (-want +got):\n%s", diff)
	}
}

// Objects that were in sync are compared again as soon as the resource version of one is another.
func TestCompareTellsOneResourceVersion(t *testing.T) {
	source := newSource()
	declared := []parse.Object{running("a", "one"), running("b", "one")}
	for name, tc := range map[string]struct {
		edit func(*v1alpha1.FleetMiniCluster)
		want []string
	}{
		"nothing":                     {func(*v1alpha1.FleetMiniCluster) {}, nil},
		"a resource version":          {func(f *v1alpha1.FleetMiniCluster) { f.ResourceVersion = "8" }, nil},
		"a spec":                      {func(f *v1alpha1.FleetMiniCluster) { f.ResourceVersion, f.Spec.Priority = "8", 5 }, []string{"FleetMiniCluster/b"}},
		"a label, to another source":  {func(f *v1alpha1.FleetMiniCluster) { f.ResourceVersion, f.Labels[v1alpha1.LabelSource] = "8", "x" }, []string{"FleetMiniCluster/b"}},
		"no annotation of the source": {func(f *v1alpha1.FleetMiniCluster) { f.ResourceVersion, f.Annotations = "8", nil }, []string{"FleetMiniCluster/b"}},
	} {
		t.Run(name, func(t *testing.T) {
			b := applyRunning("b", "one")
			in := inputOf(source, hubOf(applyRunning("a", "one"), b), declared...)
			before := Compare(in)
			if !before.IsEmpty() || len(before.InSync) != 2 {
				t.Fatalf("not in sync at first: %+v", before)
			}
			tc.edit(b)
			in.InSync = before.InSync
			plan := Compare(in)
			var got []string
			for i := range plan.Changes {
				got = append(got, plan.Changes[i].Key)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" || plan.IsEmpty() != (tc.want == nil) {
				t.Errorf("empty: %t (-want +got):\n%s", plan.IsEmpty(), diff)
			}
		})
	}
}
