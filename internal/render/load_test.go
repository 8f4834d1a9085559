package render_test

import (
	"bytes"
	"testing"

	"github.com/minifleet/minifleet/api/flux/curve"
	fluxv1alpha2 "github.com/minifleet/minifleet/api/flux/v1alpha2"
	"github.com/minifleet/minifleet/internal/fleet"
	"github.com/minifleet/minifleet/internal/miniclustertest"
	"github.com/minifleet/minifleet/internal/render"
)

// load is a MiniCluster manifest as the Input of a run.
func load(t *testing.T, m miniclustertest.Manifest) render.Input {
	t.Helper()
	manifest, err := m.MiniCluster()
	if err != nil {
		t.Fatal(err)
	}
	return input(manifest)
}

func input(manifest fluxv1alpha2.MiniCluster) render.Input {
	return render.Input{
		Name:      manifest.Name,
		Namespace: "default",
		Spec:      manifest.Spec,
		CurveCert: certificate("test"),
		RunID:     "run-1",
		Origin:    fleet.Origin{FleetID: "hub", Owner: "default/" + manifest.Name, OwnerUID: "owner"},
	}
}

// certificate is a valid certificate that anybody can make again, for tests only.
func certificate(name string) []byte {
	cert, err := curve.New(bytes.NewReader(bytes.Repeat([]byte(name+"-------"), 8)))
	if err != nil {
		panic(err)
	}
	cert.Name = name
	return cert.Encode()
}

// mustRender renders an input that is known to be valid.
func mustRender(t *testing.T, in render.Input) *render.Bundle {
	t.Helper()
	bundle, err := render.Render(in)
	if err != nil {
		t.Fatal(err)
	}
	return bundle
}

// minimal is the smallest MiniCluster that runs a command.
func minimal(command string) render.Input {
	manifest := fluxv1alpha2.MiniCluster{Spec: fluxv1alpha2.MiniClusterSpec{
		Size:       2,
		Containers: []fluxv1alpha2.MiniClusterContainer{{Image: "ubuntu", Command: command}},
	}}
	manifest.Name = "lammps"
	return input(manifest)
}
