package membercluster

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/minifleet/minifleet/api/v1alpha1"
)

func TestWhatADeletedOneHasLeft(t *testing.T) {
	cases := map[string]struct {
		fleet, owner, uid string // that the object bears
		successor         types.UID
		want              bool
	}{
		"its own":                         {"f", "hpc/run", "old", "", true},
		"taken over from a predecessor":   {"f", "hpc/run", "older", "", true},
		"its own, and there is another":   {"f", "hpc/run", "old", "new", true},
		"that other one's":                {"f", "hpc/run", "new", "new", false},
		"a predecessor's, beside another": {"f", "hpc/run", "older", "new", true},
		"of another name":                 {"f", "hpc/other", "old", "", false},
		"of another fleet":                {"g", "hpc/run", "old", "", false},
	}
	for name, c := range cases {
		obj := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{
			v1alpha1.AnnotationFleetID: c.fleet, v1alpha1.AnnotationOwner: c.owner, v1alpha1.AnnotationOwnerUID: c.uid,
		}}}
		if got := ownedBy("f", v1alpha1.Orphan{UID: "old", Owner: "hpc/run"}, c.successor)(obj); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}
