package fetch_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/minifleet/minifleet/gitsource/budget"
	"github.com/minifleet/minifleet/gitsource/fetch"
)

func TestOverlaysOfCommits(t *testing.T) {
	repo := newRepository(t)
	repo.commit(map[string]string{
		"base/kustomization.yaml": "resources: [a.yaml]", "base/a.yaml": "kind: A",
		"sites/east/kustomization.yaml": "resources: [../../base]\npatches: [{path: p.yaml}]", "sites/east/p.yaml": "kind: P", "sites/east/unused.yaml": "kind: U",
		"sites/west/Kustomization": "resources: [../../base]", "plain/x.yaml": "kind: X", "plain/sub/kustomization.yaml": "resources: [y.yaml]", "plain/sub/y.yaml": "kind: Y",
		"plain/other/Kustomization": "a: [b", "broken/kustomization.yml": "resources:\n- https://example.org/x\n- ../module\n- large.yaml", "broken/large.yaml": strings.Repeat("#", 2000),
	})
	repo.git("update-index", "--add", "--cacheinfo", "160000,1234567890123456789012345678901234567890,module")
	repo.git("commit", "--quiet", "--message=module")
	url := serve(t, repo, nil).URL
	east, west := []string{"base/a.yaml", "base/kustomization.yaml", "sites/east/kustomization.yaml", "sites/east/p.yaml"}, []string{"base/a.yaml", "base/kustomization.yaml", "sites/west/Kustomization"}
	for name, tc := range map[string]struct {
		paths    []string
		ignore   string
		files    []string
		overlays map[string][]string // the files of each
		warned   []string
		problems []string
	}{
		"an overlay": {paths: []string{"sites/east"}, overlays: map[string][]string{"sites/east": east}},
		"two sites":  {paths: []string{"sites/west", "sites/east"}, overlays: map[string][]string{"sites/east": east, "sites/west": west}},
		"folders below are read as they are": {paths: []string{"plain"}, files: []string{"plain/other/Kustomization", "plain/sub/kustomization.yaml", "plain/sub/y.yaml", "plain/x.yaml"},
			warned: []string{"plain/other/Kustomization", "plain/sub/kustomization.yaml"}},
		"a folder below that is named": {paths: []string{"sites", "sites/east"}, overlays: map[string][]string{"sites/east": east}, files: []string{"sites/west/Kustomization"},
			warned: []string{"sites/west/Kustomization"}},
		"a file of an overlay that is named": {paths: []string{"sites/east", "sites/east/unused.yaml"}, overlays: map[string][]string{"sites/east": east}, files: []string{"sites/east/unused.yaml"}},
		"an overlay that is ignored":         {paths: []string{"sites/east", "plain/x.yaml"}, ignore: "sites", files: []string{"plain/x.yaml"}},
		"a base that is ignored is built":    {paths: []string{"sites/east"}, ignore: "base", overlays: map[string][]string{"sites/east": east}},
		"what is refused": {paths: []string{"broken"}, overlays: map[string][]string{"broken": nil}, problems: []string{
			`"https://example.org/x" is remote`, `"module" is a submodule`, `"broken/large.yaml" is larger than the limit of 1000 bytes`,
		}},
	} {
		t.Run(name, func(t *testing.T) {
			spend := budget.New(t.Context(), budget.Limits{MaxFileBytes: 1000}, nil)
			res := mustFetch(t, fetch.Request{URL: url, Paths: tc.paths, Ignore: tc.ignore, Budget: spend})
			if diff := cmp.Diff(tc.files, paths(res), cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("files (-want +got):\n%s", diff)
			}
			overlays, problems := map[string][]string{}, []string(nil)
			for _, c := range res.Overlays {
				overlays[c.Dir] = slices.Sorted(maps.Keys(c.Files))
				for _, p := range c.Problems {
					problems = append(problems, p.Message)
				}
			}
			if diff := cmp.Diff(tc.overlays, overlays, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("overlays (-want +got):\n%s", diff)
			}
			begins := cmp.Comparer(func(a, b string) bool { return strings.HasPrefix(a, b) || strings.HasPrefix(b, a) })
			if diff := cmp.Diff(tc.problems, problems, begins); diff != "" {
				t.Errorf("problems (-want +got):\n%s", diff)
			}
			var warned []string
			for _, f := range res.Files {
				if len(f.Findings) > 0 {
					warned = append(warned, f.Path)
				}
			}
			if diff := cmp.Diff(tc.warned, warned); diff != "" {
				t.Errorf("warned (-want +got):\n%s", diff)
			}
		})
	}
	t.Run("the budget counts what overlays read", func(t *testing.T) {
		spend := budget.New(t.Context(), budget.Limits{MaxFiles: 3}, nil)
		_, err := (&fetch.Fetcher{}).Fetch(t.Context(), fetch.Request{URL: url, Paths: []string{"sites/east"}, Budget: spend})
		if says := wantReason(t, err, fetch.ReasonLimitExceeded); !strings.Contains(says, "more than 3 manifests") {
			t.Error(says)
		}
	})
}
