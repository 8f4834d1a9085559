package dashboard

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/internal/view"
)

func (s *Server) manifest(_ context.Context, r *reader, _ string, in *MiniClusterPath) (*view.Manifest, error) {
	e, err := s.entry(r, *in)
	if err != nil {
		return nil, err
	}
	f := view.Redacted(e.Object, r.sees())
	f.TypeMeta = metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "FleetMiniCluster"}
	f.ManagedFields = nil
	raw, err := yaml.Marshal(f)
	if err != nil {
		return nil, err
	}
	return &view.Manifest{YAML: string(raw)}, nil
}
