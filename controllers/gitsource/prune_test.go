package gitsource

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	fluxv1alpha2 "github.com/minifleet/minifleet/api/flux/v1alpha2"
	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/gitsource/parse"
	"github.com/minifleet/minifleet/internal/changes"
)

func named(names ...string) []parse.Object {
	var out []parse.Object
	for _, name := range names {
		out = append(out, parse.Object{Kind: parse.KindMiniCluster, Name: name, MiniCluster: &fluxv1alpha2.MiniCluster{}})
	}
	return out
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

func planOf(source *v1alpha1.GitSource, t *tree, have changes.Hub) *changes.Plan {
	plan := changes.Compare(input(source, t, have))
	return &plan
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
			got, err := prune(t.Context(), hub, planOf(source, treeOf(named(tc.declared...)...), have), applied{})
			if (err != nil) != tc.fails {
				t.Fatal(err)
			}
			if diff := cmp.Diff([]any{tc.want, tc.deleted}, []any{got, hub.deleted}, cmp.AllowUnexported(pruned{}), cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("pruned (-want +got):\n%s", diff)
			}
		})
	}
}
