package v1alpha1_test

import (
	"testing"

	"github.com/minifleet/minifleet/api/v1alpha1"
)

func TestSuspended(t *testing.T) {
	for name, tc := range map[string]struct {
		suspend bool
		hold    string
		want    bool
	}{
		"neither":                            {},
		"the field":                          {suspend: true, want: true},
		"the annotation":                     {hold: "true", want: true},
		"both":                               {suspend: true, hold: "true", want: true},
		"an annotation of no":                {hold: "false"},
		"the field, and an annotation of no": {suspend: true, hold: "false", want: true},
		"a value of another kind":            {hold: "yes, please", want: true},
	} {
		f := &v1alpha1.FleetMiniCluster{}
		f.Spec.Suspend = tc.suspend
		if tc.hold != "" {
			f.Annotations = map[string]string{v1alpha1.AnnotationHold: tc.hold}
		}
		if got := f.Suspended(); got != tc.want {
			t.Errorf("%s: suspended is %t, want %t", name, got, tc.want)
		}
	}
}
