package gitsource

import (
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/gitsource/budget"
	"github.com/minifleet/minifleet/gitsource/fetch"
)

// Rules that suddenly hide everything have nothing deleted, however few objects that is: a person is asked.
func TestIgnoringEverythingPrunesNothing(t *testing.T) {
	source := &v1alpha1.GitSource{}
	source.Name, source.Spec.Ignore = "fleet", "*"
	b := budget.New(t.Context(), budget.Limits{}, nil)
	nothing, err := newTree(b, "hpc", &fetch.Result{Commit: fullCommit, Revision: "main@0123456"}, "", nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	have := hubOf(onHub("a", "fleet", "a.yaml"))
	var none client.Writer // is not to be used
	out, err := prune(t.Context(), none, planOf(source, nothing, have), applied{})
	if err != nil || len(out.blocked) != 1 || len(out.deleted) != 0 {
		t.Errorf("%+v, %v", out, err)
	}
}

// What a source reads is not taken for the same when other paths or rules are named.
func TestPathsAndRulesAreReadAnew(t *testing.T) {
	spec := v1alpha1.GitSourceSpec{URL: "https://git.example.org/a", Paths: []string{"a", "b"}, Ignore: "x"}
	req, with := fetchRequest(&spec, nil)
	if len(req.Paths) != 2 || req.Ignore != "x" {
		t.Errorf("request %+v", req)
	}
	before := &tree{commit: fullCommit, readWith: with}
	for name, tc := range map[string]struct {
		edit  func(*v1alpha1.GitSourceSpec)
		known string
	}{
		"the same":     {func(*v1alpha1.GitSourceSpec) {}, fullCommit},
		"other paths":  {func(s *v1alpha1.GitSourceSpec) { s.Paths = []string{"a b"} }, ""},
		"other rules":  {func(s *v1alpha1.GitSourceSpec) { s.Ignore = "y" }, ""},
		"rules moved":  {func(s *v1alpha1.GitSourceSpec) { s.Ignore, s.Path, s.Paths = "", "x", nil }, ""},
		"another path": {func(s *v1alpha1.GitSourceSpec) { s.Path, s.Paths = "a", nil }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := *spec.DeepCopy()
			tc.edit(&s)
			if req, _ := fetchRequest(&s, before); req.Known != tc.known {
				t.Errorf("known %q", req.Known)
			}
		})
	}
}
