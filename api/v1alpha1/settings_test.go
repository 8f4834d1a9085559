package v1alpha1_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/minifleet/minifleet/api/v1alpha1"
)

func TestSet(t *testing.T) {
	before := v1alpha1.FleetMiniClusterSpec{OnChange: v1alpha1.AfterCompletion}
	cases := map[string]struct {
		annotations map[string]string
		want        v1alpha1.FleetMiniClusterSpec
		errs        []string
	}{
		"nothing": {want: before},
		"all": {
			annotations: map[string]string{"minifleet.dev/priority": "-5", "minifleet.dev/retries": "3", "minifleet.dev/on-change": "Replace", "other": "x"},
			want:        v1alpha1.FleetMiniClusterSpec{Priority: -5, Retries: 3, OnChange: v1alpha1.Replace},
		},
		"nonsense": {
			annotations: map[string]string{"minifleet.dev/priority": "2147483648", "minifleet.dev/retries": "-1", "minifleet.dev/on-change": ""},
			want:        before,
			errs:        []string{"metadata.annotations[minifleet.dev/priority]", "metadata.annotations[minifleet.dev/retries]", "metadata.annotations[minifleet.dev/on-change]"},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got := *before.DeepCopy()
			var errs []string
			for _, e := range got.Set(c.annotations, field.NewPath("metadata", "annotations")) {
				errs = append(errs, e.Field)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff(c.errs, errs); diff != "" {
				t.Error(diff)
			}
		})
	}
}
