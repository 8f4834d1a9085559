package fleet_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/internal/fleet"
)

func TestOwns(t *testing.T) {
	o := fleet.Origin{FleetID: "h", Owner: "hpc/n", OwnerUID: "u"}
	cases := map[string]struct {
		origin     fleet.Origin
		hub, owner string // UIDs that the object bears
		want       bool
	}{
		"ours":             {o, "h", "u", true},
		"another's":        {o, "h", "v", false},
		"another hub's":    {o, "i", "u", false},
		"nobody's":         {o, "", "", false},
		"no origin at all": {fleet.Origin{}, "", "", false},
		"no owner":         {fleet.Origin{FleetID: "h"}, "h", "", false},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			obj := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{
				v1alpha1.AnnotationFleetID: c.hub, v1alpha1.AnnotationOwnerUID: c.owner,
			}}}
			if got := c.origin.Owns(obj); got != c.want {
				t.Errorf("got %t", got)
			}
		})
	}
}

func TestRunID(t *testing.T) {
	cases := map[string]string{
		"0123456789": "0123456789", "abcdef0123": "abcdef0123", "": "", "012345678": "", "01234567890": "", "ABCDEF0123": "", "hostile lab": "",
	}
	for label, want := range cases {
		if got := fleet.RunID(map[string]string{v1alpha1.LabelRun: label}); got != want {
			t.Errorf("%q: got %q", label, got)
		}
	}
	if got := fleet.RunID(nil); got != "" {
		t.Errorf("no labels: got %q", got)
	}
}
