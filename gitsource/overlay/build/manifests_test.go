package build

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/minifleet/minifleet/gitsource"
	"github.com/minifleet/minifleet/gitsource/overlay"
	"github.com/minifleet/minifleet/gitsource/parse"
	"github.com/minifleet/minifleet/internal/miniclustertest"
)

// Real MiniClusters are the same behind an overlay, but for what that changes: kustomize drops, rounds and quotes nothing.
func TestManifestsBehindOverlays(t *testing.T) {
	manifests := miniclustertest.Own()
	if shared, err := miniclustertest.Shared(); err != nil {
		t.Log(err)
	} else {
		manifests = append(manifests, shared...)
	}
	files, want := map[string]string{}, map[string]parse.Object{}
	all := ""
	for i, m := range manifests {
		plain := parse.Tree([]gitsource.File{{Path: m.Path, Data: m.Text}}, parse.Options{AnyNamespace: true})
		twice := slices.ContainsFunc(plain.Problems, func(p parse.Problem) bool { return strings.Contains(p.Message, "is set twice") })
		if len(plain.Objects) == 0 || twice {
			continue // kustomize refuses what sets a field twice
		}
		for _, o := range plain.Objects {
			o.Name += fmt.Sprintf("-%d", i)
			want[o.Name] = o
		}
		dir := fmt.Sprintf("m%d", i)
		files[dir+"/minicluster.yaml"] = string(m.Text)
		files[dir+"/kustomization.yaml"] = fmt.Sprintf("resources: [minicluster.yaml]\nnameSuffix: \"-%d\"\nlabels: [{pairs: {site: east}}]\n", i)
		all += "- ../" + dir + "\n"
	}
	files["site/kustomization.yaml"] = "resources:\n" + all
	built, _, err := (&Builder{Command: self(t, beChild)}).Files(t.Context(), nil, []*overlay.Closure{closure(t, files, "site")})
	if err != nil {
		t.Fatal(err)
	}
	got := parse.Tree(built, parse.Options{AnyNamespace: true})
	for _, p := range got.Problems {
		if !p.Warning {
			t.Errorf("%s: %s: %s", p.Object, p.Field, p.Message)
		}
	}
	seen := 0
	for _, o := range got.Objects {
		before, ok := want[o.Name]
		if !ok || o.MiniCluster == nil {
			t.Errorf("%s is not known", o.Name)
			continue
		}
		seen++
		if diff := cmp.Diff(before.MiniCluster.Spec, o.MiniCluster.Spec); diff != "" {
			t.Errorf("%s (-plain +built):\n%s", o.Name, diff)
		}
		if o.MiniCluster.Labels["site"] != "east" || !strings.HasSuffix(o.Origin, "/minicluster.yaml") {
			t.Errorf("%s has labels %v and comes from %q", o.Name, o.MiniCluster.Labels, o.Origin)
		}
	}
	if seen != len(want) || seen == 0 {
		t.Errorf("%d of %d were built", seen, len(want))
	}
}
