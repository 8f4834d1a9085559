package changes

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/minifleet/minifleet/api/v1alpha1"
)

func TestDeletion(t *testing.T) {
	source := newSource()
	source.UID = "u1"
	fleet := func(name, owner, uid string, change func(*v1alpha1.FleetMiniCluster)) *v1alpha1.FleetMiniCluster {
		f := onHub(name, owner, name+".yaml")
		f.Annotations[v1alpha1.AnnotationSourceUID] = uid
		if change != nil {
			change(f)
		}
		return f
	}
	placement := func(name string) *v1alpha1.Placement {
		p := &v1alpha1.Placement{ObjectMeta: onHub(name, "fleet", "p.yaml").ObjectMeta}
		p.Annotations[v1alpha1.AnnotationSourceUID] = "u1"
		return p
	}
	plan := Deletion(source, hubOf(
		fleet("own", "fleet", "u1", nil), fleet("before", "fleet", "", nil), fleet("others", "other", "u2", nil), fleet("persons", "", "", nil),
		fleet("earlier", "fleet", "u0", nil),
		fleet("kept", "fleet", "u1", func(f *v1alpha1.FleetMiniCluster) {
			f.Annotations[v1alpha1.AnnotationPrune] = v1alpha1.PruneDisabled
			f.Spec.PlacementRef = &v1alpha1.LocalReference{Name: "used"}
		}),
		fleet("deleting", "fleet", "u1", func(f *v1alpha1.FleetMiniCluster) { f.DeletionTimestamp = &now }),
		placement("used"), placement("unused"),
	))
	want := map[string][]string{
		"deleted": {"FleetMiniCluster/before", "FleetMiniCluster/own", "Placement/unused"},
		"kept":    {"FleetMiniCluster/earlier", "FleetMiniCluster/kept", "Placement/used"},
		"pending": {"FleetMiniCluster/deleting"},
	}
	got := map[string][]string{"deleted": plan.Keys(v1alpha1.ChangeDelete), "kept": plan.Keys(v1alpha1.ChangeKeep), "pending": plan.Pending}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("deletion (-want +got):\n%s", diff)
	}
}
