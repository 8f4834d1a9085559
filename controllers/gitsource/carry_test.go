package gitsource

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/minifleet/minifleet/gitsource"
	"github.com/minifleet/minifleet/gitsource/budget"
	"github.com/minifleet/minifleet/gitsource/fetch"
	"github.com/minifleet/minifleet/gitsource/parse"
	"github.com/minifleet/minifleet/internal/policy"
)

const carriedPlacement = "apiVersion: minifleet.dev/v1alpha1\nkind: Placement\nmetadata: {name: p}\nspec: {clusterSelector: {}%s}\n"

const carriedMiniCluster = `apiVersion: flux-framework.org/v1alpha2
kind: MiniCluster
metadata: {name: %s, labels: {minifleet.dev/placement: p}}
spec:
  size: %d
  containers:
  - image: ghcr.io/example/app
    securityContext: {privileged: true}
`

// treeOfFiles is the tree of a commit with these files, as it is fetched after another one.
func treeOfFiles(t *testing.T, before *tree, contents map[string]string) *tree {
	t.Helper()
	fetched := &fetch.Result{Commit: fullCommit, Revision: "main@0123456"}
	for path, text := range contents {
		f := gitsource.File{Path: path, Data: []byte(text), Blob: fmt.Sprintf("%x", text)}
		if before.files().Has(f.Path, f.Blob) {
			f.Data = nil
		}
		fetched.Files = append(fetched.Files, f)
	}
	out, err := newTree(budget.New(t.Context(), budget.Limits{}, nil), "hpc", fetched, "", nil, before)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestUnchangedObjectsAreCarriedOver(t *testing.T) {
	files := func() map[string]string {
		return map[string]string{
			"p.yaml": fmt.Sprintf(carriedPlacement, ""), "a.yaml": fmt.Sprintf(carriedMiniCluster, "a", 1), "b.yaml": fmt.Sprintf(carriedMiniCluster, "b", 1),
		}
	}
	versions := map[string]string{"Placement/p": "1", "FleetMiniCluster/a": "2", "FleetMiniCluster/b": "3"}
	for name, tc := range map[string]struct {
		edit func(map[string]string)
		want map[string]string
	}{
		"another file":     {func(f map[string]string) { f["c.yaml"] = fmt.Sprintf(carriedMiniCluster, "c", 1) }, versions},
		"one is changed":   {func(f map[string]string) { f["a.yaml"] = fmt.Sprintf(carriedMiniCluster, "a", 2) }, map[string]string{"Placement/p": "1", "FleetMiniCluster/b": "3"}},
		"one is removed":   {func(f map[string]string) { delete(f, "a.yaml") }, map[string]string{"Placement/p": "1", "FleetMiniCluster/b": "3"}},
		"one has moved":    {func(f map[string]string) { f["x.yaml"] = f["a.yaml"]; delete(f, "a.yaml") }, map[string]string{"Placement/p": "1", "FleetMiniCluster/b": "3"}},
		"two have swapped": {func(f map[string]string) { f["a.yaml"], f["b.yaml"] = f["b.yaml"], f["a.yaml"] }, map[string]string{"Placement/p": "1"}},
	} {
		t.Run(name, func(t *testing.T) {
			before := treeOfFiles(t, nil, files())
			before.inSync = inSync{placement: "p", versions: versions}
			contents := files()
			tc.edit(contents)
			after := treeOfFiles(t, before, contents)
			if diff := cmp.Diff(tc.want, after.inSync.versions); diff != "" || after.inSync.placement != "p" {
				t.Errorf("for %q (-want +got):\n%s", after.inSync.placement, diff)
			}
		})
	}
}

// What was found for objects that are the same is what would be found anew, also where their Placement has changed.
func TestNeedsOfUnchangedObjects(t *testing.T) {
	before := treeOfFiles(t, nil, map[string]string{
		"p.yaml": fmt.Sprintf(carriedPlacement, ""), "a.yaml": fmt.Sprintf(carriedMiniCluster, "a", 1), "b.yaml": fmt.Sprintf(carriedMiniCluster, "b", 1),
	})
	const overrides = ", overrides: [{clusterSelector: {}, patch: {spec: {pod: {nodeSelector: {a: b}}}}}]"
	for name, placement := range map[string]string{"the same": "", "with overrides": overrides} {
		t.Run(name, func(t *testing.T) {
			before.needs = nil
			before.needsOf(policy.Rules{}, needing{})
			contents := map[string]string{
				"p.yaml": fmt.Sprintf(carriedPlacement, placement), "a.yaml": fmt.Sprintf(carriedMiniCluster, "a", 1), "b.yaml": fmt.Sprintf(carriedMiniCluster, "b", 2),
			}
			got, want := treeOfFiles(t, before, contents), treeOfFiles(t, nil, contents)
			for _, n := range []needing{{}, {placement: "q"}, {secrets: true}} {
				if diff := cmp.Diff(entries(want.needsOf(policy.Rules{}, n)), entries(got.needsOf(policy.Rules{}, n))); diff != "" {
					t.Errorf("%+v (-anew +carried):\n%s", n, diff)
				}
			}
			if needs := got.needsOf(policy.Rules{}, needing{}); len(needs) != 2 || needs[0].object != &got.parsed.Objects[0] {
				t.Errorf("%d needs, of objects of another tree", len(needs))
			}
		})
	}
}

func entries(needs []treeNeed) []any {
	var out []any
	for _, n := range needs {
		out = append(out, n.entry)
	}
	return out
}

// needsOf are found with nothing known before.
func needsOf(_ policy.Rules, n needing, objects []parse.Object) []treeNeed {
	out, _ := needsSince(nil, policy.Rules{}, n, objects)
	return out
}
