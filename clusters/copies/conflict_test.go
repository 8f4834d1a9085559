package copies

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/internal/fleet"
)

func TestConflictsNameNothingOfOtherNamespaces(t *testing.T) {
	user := fleet.Origin{FleetID: "h", Owner: "hpc/n", OwnerUID: "u"}
	for name, tc := range map[string]struct {
		annotations map[string]string
		says        string
	}{
		"a stranger's":                {nil, "is not MiniFleet's"},
		"of another fleet":            {map[string]string{v1alpha1.AnnotationFleetID: "i", v1alpha1.AnnotationOwner: "physics/x"}, "is not MiniFleet's"},
		"part of a run":               {map[string]string{v1alpha1.AnnotationFleetID: "h", v1alpha1.AnnotationOwner: "hpc/x"}, "is part of FleetMiniCluster hpc/x"},
		"part of another's run":       {map[string]string{v1alpha1.AnnotationFleetID: "h", v1alpha1.AnnotationOwner: "physics/x"}, "is what another namespace of the hub has there"},
		"a copy":                      {map[string]string{v1alpha1.AnnotationFleetID: "h", v1alpha1.AnnotationCopyOf: "hpc/x"}, "is the copy of hpc/x of the hub"},
		"a copy of another namespace": {map[string]string{v1alpha1.AnnotationFleetID: "h", v1alpha1.AnnotationCopyOf: "physics/x"}, "is what another namespace of the hub has there"},
	} {
		t.Run(name, func(t *testing.T) {
			have := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "site", Name: "s", Annotations: tc.annotations}}
			got := conflictOf(have, have, user).Error()
			if !strings.HasPrefix(got, "Secret site/s on the member "+tc.says) || strings.Contains(got, "physics") {
				t.Errorf("got %s", got)
			}
		})
	}
}
