package gitsource

import (
	"context"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/gitsource/parse"
	"github.com/minifleet/minifleet/internal/changes"
)

// readHub reads the hub's objects of one namespace. They are the cache's own.
func (r *Reconciler) readHub(ctx context.Context, namespace string) (changes.Hub, error) {
	if r.Fleet == nil {
		return readHub(ctx, r.Client, namespace)
	}
	fleet, err := r.Fleet.List(ctx, namespace)
	if err != nil {
		return nil, err
	}
	return withPlacements(ctx, r.Client, namespace, fleet)
}

// readHub reads them from anywhere.
func readHub(ctx context.Context, reader client.Reader, namespace string) (changes.Hub, error) {
	var list v1alpha1.FleetMiniClusterList
	if err := reader.List(ctx, &list, client.InNamespace(namespace), client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing FleetMiniClusters: %w", err)
	}
	fleet := make([]*v1alpha1.FleetMiniCluster, 0, len(list.Items))
	for i := range list.Items {
		fleet = append(fleet, &list.Items[i])
	}
	return withPlacements(ctx, reader, namespace, fleet)
}

// withPlacements is what is read of a namespace, with its Placements.
func withPlacements(ctx context.Context, reader client.Reader, namespace string, fleet []*v1alpha1.FleetMiniCluster) (changes.Hub, error) {
	var placements v1alpha1.PlacementList
	if err := reader.List(ctx, &placements, client.InNamespace(namespace), client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing Placements: %w", err)
	}
	out := make(changes.Hub, len(fleet)+len(placements.Items))
	for _, f := range fleet {
		out[changes.Key(parse.KindFleetMiniCluster, f.Name)] = f
	}
	for i := range placements.Items {
		out[changes.Key(parse.KindPlacement, placements.Items[i].Name)] = &placements.Items[i]
	}
	return out, nil
}
