package parse

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/minifleet/minifleet/gitsource"
)

// What kustomize made is known by its overlay, and told of by the file that it comes from, without lines that nobody has.
func TestBuilt(t *testing.T) {
	const good = "apiVersion: flux-framework.org/v1alpha2\nkind: MiniCluster\nmetadata: {name: good}\nspec: {size: 1, containers: [{image: x}]}\n"
	bad := strings.NewReplacer("good", "bad", "size: 1", "sise: 1").Replace(good)
	file := gitsource.File{
		Path: "site/kustomization.yaml", Data: []byte("kind: Other\n---\n" + good + "---\n" + bad + "---\n" + good), Origins: []string{"base/o.yaml", "base/a.yaml", "base/b.yaml", ""},
		Findings: []gitsource.Finding{{Warning: true, Message: "generates something"}, {Line: 3, Field: "resources[0]", Message: "is remote"}},
	}
	got := Tree([]gitsource.File{file}, Options{Namespace: "hpc", Lines: true})
	if len(got.Objects) != 1 || got.Ignored != 1 {
		t.Fatalf("%+v", got)
	}
	if o := got.Objects[0]; o.Name != "good" || o.Path != file.Path || o.Origin != "base/a.yaml" || o.Line != 0 || o.LineOf("spec.size") != 0 || o.Index != 1 {
		t.Errorf("%+v", o)
	}
	want := []Problem{
		{Path: file.Path, Message: "generates something", Warning: true},
		{Path: file.Path, Object: "MiniCluster/bad", Field: "spec.sise", Message: "there is no such field; correct its name or its indentation, or remove it (it comes from base/b.yaml)"},
		{Path: file.Path, Object: "MiniCluster/good", Field: "metadata.name", Message: "site/kustomization.yaml declares the MiniCluster good already, and keeps it; rename one of them, or delete this one (site/kustomization.yaml)"},
		{Path: file.Path, Line: 3, Field: "resources[0]", Message: "is remote"},
	}
	if diff := cmp.Diff(want, got.Problems); diff != "" {
		t.Errorf("problems (-want +got):\n%s", diff)
	}
}
