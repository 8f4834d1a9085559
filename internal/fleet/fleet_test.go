package fleet_test

import (
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/internal/fleet"
)

func TestOwns(t *testing.T) {
	o := fleet.Origin{FleetID: "f", Owner: "hpc/n", OwnerUID: "u"}
	cases := map[string]struct {
		origin            fleet.Origin
		fleet, owner, uid string // that the object bears
		owns, made        bool
	}{
		"ours":                {o, "f", "hpc/n", "u", true, true},
		"a predecessor's":     {o, "f", "hpc/n", "v", true, false},
		"another's":           {o, "f", "hpc/m", "u", false, false},
		"another fleet's":     {o, "g", "hpc/n", "u", false, false},
		"nobody's":            {o, "", "", "", false, false},
		"no origin at all":    {fleet.Origin{}, "", "", "", false, false},
		"no owner":            {fleet.Origin{FleetID: "f"}, "f", "", "", false, false},
		"no UID, for nothing": {fleet.Origin{FleetID: "f", Owner: "hpc/n"}, "f", "hpc/n", "", true, false},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			obj := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{
				v1alpha1.AnnotationFleetID: c.fleet, v1alpha1.AnnotationOwner: c.owner, v1alpha1.AnnotationOwnerUID: c.uid,
			}}}
			if owns, made := c.origin.Owns(obj), c.origin.Made(obj); owns != c.owns || made != c.made {
				t.Errorf("owns %t, made %t", owns, made)
			}
		})
	}
}

func TestRunOf(t *testing.T) {
	job := &batchv1.Job{}
	job.Labels = map[string]string{v1alpha1.LabelRun: "0123456789"}
	if got := fleet.RunOf(job); got != "0123456789" {
		t.Errorf("got %q", got)
	}
	job.Spec.Template.Labels = map[string]string{v1alpha1.LabelRun: "abcdef0123"}
	if got := fleet.RunOf(job); got != "abcdef0123" {
		t.Errorf("the label was edited: got %q", got)
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
