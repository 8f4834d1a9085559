package gitsource

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	fluxv1alpha2 "github.com/minifleet/minifleet/api/flux/v1alpha2"
	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/gitsource/parse"
)

func named(names ...string) []parse.Object {
	var out []parse.Object
	for _, name := range names {
		out = append(out, parse.Object{Kind: parse.KindMiniCluster, Name: name, MiniCluster: &fluxv1alpha2.MiniCluster{}})
	}
	return out
}

func TestSplit(t *testing.T) {
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
		"a file cannot be read":         {parse.Result{Problems: []parse.Problem{{Path: "b.yaml"}}}, []string{"FleetMiniCluster/a", "Placement/p"}, []string{"FleetMiniCluster/c"}, 1},
		"a file has a warning":          {parse.Result{Problems: []parse.Problem{{Path: "b.yaml", Warning: true}}}, []string{"FleetMiniCluster/a", "FleetMiniCluster/b", "Placement/p"}, []string{"FleetMiniCluster/c"}, 0},
		"a new file cannot be read":     {parse.Result{Problems: []parse.Problem{{Path: "new.yaml"}}}, nil, nil, 3},
		"the path itself has a problem": {parse.Result{Problems: []parse.Problem{{Path: ""}}}, nil, nil, 3},
	} {
		t.Run(name, func(t *testing.T) {
			undeclared, pending, declared := split(have, "fleet", tc.parsed)
			if diff := cmp.Diff([][]string{tc.undeclared, tc.pending}, [][]string{undeclared, pending}, cmpopts.EquateEmpty()); diff != "" || declared != tc.declared {
				t.Errorf("%d are declared, want %d (-want +got):\n%s", declared, tc.declared, diff)
			}
		})
	}
}

func TestNeedsApproval(t *testing.T) {
	for name, tc := range map[string]struct {
		approved, pathProblem string
		undeclared, declared  int
		want                  bool
	}{
		"one of many":                    {undeclared: 1, declared: 9},
		"one of two":                     {undeclared: 1, declared: 1},
		"less than half":                 {undeclared: 2, declared: 3},
		"half":                           {undeclared: 2, declared: 2, want: true},
		"most":                           {undeclared: 3, declared: 1, want: true},
		"the last one":                   {undeclared: 1, want: true},
		"the path has disappeared":       {undeclared: 1, declared: 9, pathProblem: "there is no directory x", want: true},
		"all, by revision":               {undeclared: 3, approved: "main@0123456", want: true},
		"all, by commit":                 {undeclared: 3, approved: fullCommit},
		"all, by part of the commit":     {undeclared: 3, approved: fullCommit[:39], want: true},
		"all, by the commit in capitals": {undeclared: 3, approved: strings.ToUpper(fullCommit), want: true},
		"all, by another commit":         {undeclared: 3, approved: strings.Repeat("f", 40), want: true},
		"the path, by commit":            {undeclared: 3, approved: fullCommit, pathProblem: "there is no directory x"},
		"all, with an empty approval":    {undeclared: 3, approved: "", want: true},
		"all, with part of the revision": {undeclared: 3, approved: "main", want: true},
	} {
		tr := treeOf()
		tr.pathProblem = tc.pathProblem
		if got := needsApproval(tc.approved, tr, tc.undeclared, tc.declared); got != tc.want {
			t.Errorf("%s: %v, want %v", name, got, tc.want)
		}
	}
	unknown := treeOf()
	unknown.commit, unknown.revision = "", ""
	if !needsApproval("", unknown, 3, 0) {
		t.Error("no approval is taken for one of a revision that is not known")
	}
}

// deletions records what is deleted with which preconditions, and fails for some names.
type deletions struct {
	client.Client
	failing string
	deleted []string
}

func (d *deletions) Delete(_ context.Context, obj client.Object, opts ...client.DeleteOption) error {
	var o client.DeleteOptions
	o.ApplyOptions(opts)
	if obj.GetName() == d.failing {
		return errors.New("down")
	}
	d.deleted = append(d.deleted, obj.GetName()+" "+string(ptr.Deref(o.Preconditions.UID, ""))+" "+ptr.Deref(o.Preconditions.ResourceVersion, ""))
	return nil
}

func TestPrune(t *testing.T) {
	have := hubOf(onHub("a", "fleet", "a.yaml"), onHub("b", "fleet", "b.yaml"), onHub("c", "fleet", "c.yaml"))
	for name, tc := range map[string]struct {
		declared []string
		prune    *bool
		failing  string
		want     pruned
		deleted  []string
		fails    bool
	}{
		"one":               {declared: []string{"a", "b"}, want: pruned{deleted: []string{"FleetMiniCluster/c"}}, deleted: []string{"c uid 7"}},
		"nothing":           {declared: []string{"a", "b", "c"}},
		"most":              {declared: []string{"a"}, want: pruned{blocked: []string{"FleetMiniCluster/b", "FleetMiniCluster/c"}}},
		"turned off":        {declared: []string{"a", "b"}, prune: ptr.To(false)},
		"the hub is down":   {declared: []string{"a", "b"}, failing: "c", fails: true},
		"turned on by hand": {declared: []string{"a", "b"}, prune: ptr.To(true), want: pruned{deleted: []string{"FleetMiniCluster/c"}}, deleted: []string{"c uid 7"}},
	} {
		t.Run(name, func(t *testing.T) {
			hub := &deletions{failing: tc.failing}
			source := newSource()
			source.Spec.Prune = tc.prune
			got, err := prune(t.Context(), hub, source, treeOf(named(tc.declared...)...), have, applied{})
			if (err != nil) != tc.fails {
				t.Fatal(err)
			}
			if diff := cmp.Diff([]any{tc.want, tc.deleted}, []any{got, hub.deleted}, cmp.AllowUnexported(pruned{}), cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("pruned (-want +got):\n%s", diff)
			}
		})
	}
}

// What waits for approval to run anew refers to its Placement as it was, which a commit may have removed or renamed.
func TestPruneKeepsPlacementsOfWhatWaits(t *testing.T) {
	a, b, placement := onHub("a", "fleet", "a.yaml"), onHub("b", "fleet", "b.yaml"), func(name string) *v1alpha1.Placement {
		return &v1alpha1.Placement{ObjectMeta: onHub(name, "fleet", "p.yaml").ObjectMeta}
	}
	a.Spec.PlacementRef, b.Spec.PlacementRef = &v1alpha1.LocalReference{Name: "used"}, &v1alpha1.LocalReference{Name: "unused"}
	have := hubOf(a, b)
	have["Placement/used"], have["Placement/unused"] = placement("used"), placement("unused")
	hub := &deletions{}
	got, err := prune(t.Context(), hub, newSource(), treeOf(named("a", "b")...), have, applied{blocked: []string{"FleetMiniCluster/a"}})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"Placement/unused"}, got.deleted); diff != "" {
		t.Errorf("deleted (-want +got):\n%s", diff)
	}
}
