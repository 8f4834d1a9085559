package render_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	fluxv1alpha2 "github.com/minifleet/minifleet/api/flux/v1alpha2"
	"github.com/minifleet/minifleet/internal/render"
)

func TestPodsAreThoseOfRender(t *testing.T) {
	in := render.Input{Name: "lammps", Namespace: "hpc"}
	in.Spec.Size = 3
	in.Spec.Containers = []fluxv1alpha2.MiniClusterContainer{{Image: "app", Command: "true"}}
	in.Spec.Services = []fluxv1alpha2.MiniClusterContainer{{Name: "db", Image: "db"}}
	job, services, err := render.Pods(in)
	if err != nil {
		t.Fatal(err)
	}
	in.CurveCert = certificate("test") // which is not needed to know what pods need
	bundle, err := render.Render(in)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(bundle.Job.Spec, job.Spec); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(bundle.ServicesPod.Spec, services.Spec); diff != "" {
		t.Error(diff)
	}
	in.Spec.Containers = nil
	if _, _, err := render.Pods(in); err == nil {
		t.Error("a MiniCluster that is not valid has pods")
	}
}

func TestSupportIsThatOfRender(t *testing.T) {
	in := rich()
	want, err := render.Render(in)
	if err != nil {
		t.Fatal(err)
	}
	got, err := render.Support(in)
	if err != nil {
		t.Fatal(err)
	}
	if got.Job != nil || got.ServicesPod != nil {
		t.Error("it has pods")
	}
	want.Job, want.ServicesPod = nil, nil
	if diff := cmp.Diff(want.Objects(), got.Objects()); diff != "" {
		t.Error(diff)
	}
	in.CurveCert = nil
	if _, err := render.Support(in); err == nil {
		t.Error("a Secret has no certificate, and nobody has said so")
	}
	in.Keyless = true
	keyless, err := render.Support(in)
	if err != nil {
		t.Fatal(err)
	}
	if len(keyless.Secret.Data) != 0 || keyless.Secret.Name != want.Secret.Name {
		t.Errorf("without a certificate: Secret %s has %d entries", keyless.Secret.Name, len(keyless.Secret.Data))
	}
	if _, err := render.Render(in); err == nil {
		t.Error("a Job has no certificate")
	}
	in.Spec.Containers, in.Valid = nil, false
	if _, err := render.Support(in); err == nil {
		t.Error("a MiniCluster that is not valid has a ConfigMap")
	}
}
