// Package workload is the MiniCluster that everything is measured with, MiniFleet, its floors and its peers alike.
package workload

import (
	"crypto/rand"
	"fmt"
	"sync"

	"sigs.k8s.io/yaml"

	"github.com/minifleet/minifleet/api/flux/curve"
	fluxv1alpha2 "github.com/minifleet/minifleet/api/flux/v1alpha2"
	"github.com/minifleet/minifleet/internal/render"
)

// Manifest is a MiniCluster of one pod, which has four objects on a member. It is a format, of the name.
const Manifest = `apiVersion: flux-framework.org/v1alpha2
kind: MiniCluster
metadata:
  name: %s
spec:
  size: 1
  tasks: 4
  containers:
  - image: ghcr.io/converged-computing/metric-lammps:latest
    command: lmp -v x 2 -v y 2 -v z 2 -in in.reaxc.hns -nocite
    resources:
      limits: {cpu: "4", memory: 2Gi}
`

// certificate is one for the brokers of all MiniClusters that no controller renders.
var certificate = sync.OnceValues(func() ([]byte, error) {
	cert, err := curve.New(rand.Reader)
	if err != nil {
		return nil, err
	}
	return cert.Encode(), nil
})

// Render renders the MiniCluster as MiniFleet does. Its spec and its certificate are set here, the rest is the caller's.
func Render(in render.Input) (*render.Bundle, error) {
	var mc fluxv1alpha2.MiniCluster
	if err := yaml.UnmarshalStrict(fmt.Appendf(nil, Manifest, in.Name), &mc); err != nil {
		return nil, err
	}
	cert, err := certificate()
	if err != nil {
		return nil, err
	}
	in.Spec, in.CurveCert = mc.Spec, cert
	return render.Render(in)
}
