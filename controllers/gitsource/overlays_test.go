package gitsource

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/minifleet/minifleet/gitsource"
	"github.com/minifleet/minifleet/gitsource/budget"
	"github.com/minifleet/minifleet/gitsource/fetch"
	"github.com/minifleet/minifleet/gitsource/overlay"
)

// built stands in for kustomize: it makes these files.
type built struct {
	files []gitsource.File
	again bool
	err   error
}

func (b built) Files(context.Context, *budget.Budget, []*overlay.Closure) ([]gitsource.File, bool, error) {
	return b.files, b.again, b.err
}

func overlayOf(names ...string) gitsource.File {
	f := gitsource.File{Path: "east/kustomization.yaml"}
	for _, name := range names {
		f.Data = append(f.Data, strings.ReplaceAll("---\napiVersion: flux-framework.org/v1alpha2\nkind: MiniCluster\nmetadata: {name: NAME}\nspec: {size: 1, containers: [{image: x}]}\n", "NAME", name)...)
		f.Origins = append(f.Origins, "base/"+name+".yaml")
	}
	return f
}

// An overlay that cannot be built declares what is not known: what it declared before stays.
func TestPruneWithOverlays(t *testing.T) {
	const file, refused = "east/kustomization.yaml", "is remote"
	have := hubOf(onHub("a", "fleet", file), onHub("b", "fleet", file), onHub("c", "fleet", file), onHub("plain", "fleet", "plain.yaml"))
	plain := gitsource.File{Path: "plain.yaml", Data: overlayOf("plain").Data}
	broken := gitsource.File{Path: file, Findings: []gitsource.Finding{{Message: refused}}}
	another := gitsource.File{Path: "west/kustomization.yaml", Findings: []gitsource.Finding{{Message: refused}}}
	warned := overlayOf("a", "b")
	warned.Findings = []gitsource.Finding{{Message: "generates something", Warning: true}}
	for name, tc := range map[string]struct {
		files   []gitsource.File
		deleted []string
	}{
		"all of it":                 {[]gitsource.File{overlayOf("a", "b", "c"), plain}, nil},
		"one fewer":                 {[]gitsource.File{overlayOf("a", "b"), plain}, []string{"FleetMiniCluster/c"}},
		"one fewer, with a warning": {[]gitsource.File{warned, plain}, []string{"FleetMiniCluster/c"}},
		"it cannot be built":        {[]gitsource.File{broken, plain}, nil},
		"it cannot be built, and may have a file":  {[]gitsource.File{broken}, nil},
		"a new one cannot be built":                {[]gitsource.File{overlayOf("a", "b"), another, plain}, nil},
		"it cannot be built under a new name":      {[]gitsource.File{{Path: "east/Kustomization", Findings: broken.Findings}, plain}, nil},
		"it is replaced by files, one of them bad": {[]gitsource.File{{Path: "east/a.yaml", Data: []byte("a: [")}, plain}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			fetched := &fetch.Result{Commit: fullCommit, Revision: "main@0123456", Overlays: []*overlay.Closure{{}}}
			if _, err := buildOverlays(t.Context(), built{files: tc.files}, nil, fetched); err != nil {
				t.Fatal(err)
			}
			tr, err := newTree(budget.New(t.Context(), budget.Limits{}, nil), "hpc", fetched, "", nil, nil)
			if err != nil {
				t.Fatal(err)
			}
			got, err := prune(t.Context(), &deletions{}, planOf(newSource(), tr, have), applied{})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.deleted, got.deleted, cmpopts.EquateEmpty()); diff != "" || len(got.blocked) > 0 {
				t.Errorf("%v is blocked, deleted (-want +got):\n%s", got.blocked, diff)
			}
		})
	}
}

func TestBuildOverlays(t *testing.T) {
	fetched := func() *fetch.Result {
		return &fetch.Result{Files: []gitsource.File{{Path: "a.yaml"}}, Overlays: []*overlay.Closure{{}}}
	}
	if again, err := buildOverlays(t.Context(), nil, nil, &fetch.Result{}); again || err != nil {
		t.Error(again, err)
	}
	if _, err := buildOverlays(t.Context(), nil, nil, fetched()); err == nil {
		t.Error("nobody builds, and that is no error")
	}
	down := errors.New("no process")
	if _, err := buildOverlays(t.Context(), built{err: down}, nil, fetched()); !errors.Is(err, down) {
		t.Error(err)
	}
	res := fetched()
	if again, err := buildOverlays(t.Context(), built{files: []gitsource.File{overlayOf("x")}, again: true}, nil, res); !again || err != nil || len(res.Files) != 2 {
		t.Error(again, err, len(res.Files))
	}
}
