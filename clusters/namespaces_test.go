package clusters

import (
	"errors"
	"strings"
	"testing"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/internal/fleet"
)

func TestCovers(t *testing.T) {
	origin := fleet.Origin{FleetID: "fleet", Owner: "physics/x"}
	confined := v1alpha1.MemberClusterSpec{TargetNamespaces: &v1alpha1.TargetNamespaces{Only: true, Names: []v1alpha1.TargetNamespace{{Namespace: "climate", Target: "c"}}}}
	cases := map[string]struct {
		spec      v1alpha1.MemberClusterSpec
		namespace string
		want      string // a part of what is said; empty for nothing
	}{
		"anywhere":          {v1alpha1.MemberClusterSpec{}, "x", ""},
		"confined to it":    {confined, "c", ""},
		"confined to none":  {confined, "", "no namespace of the member is for namespace physics of the hub: add it to spec.targetNamespaces.names of MemberCluster alpine"},
		"confined to other": {confined, "old", "namespace old of the member, and spec of MemberCluster alpine confines MiniFleet to others"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			err := (&Member{Name: "alpine", Spec: c.spec}).covers(c.namespace, origin)
			var denied *NamespaceDenied
			if (c.want == "") != (err == nil) || err != nil && (!errors.As(err, &denied) || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("got %v", err)
			}
		})
	}
}
