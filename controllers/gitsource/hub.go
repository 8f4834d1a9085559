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
	return readHub(ctx, r.Client, namespace)
}

func readHub(ctx context.Context, reader client.Reader, namespace string) (changes.Hub, error) {
	var fleet v1alpha1.FleetMiniClusterList
	if err := reader.List(ctx, &fleet, client.InNamespace(namespace), client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing FleetMiniClusters: %w", err)
	}
	var placements v1alpha1.PlacementList
	if err := reader.List(ctx, &placements, client.InNamespace(namespace), client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing Placements: %w", err)
	}
	out := make(changes.Hub, len(fleet.Items)+len(placements.Items))
	for i := range fleet.Items {
		out[changes.Key(parse.KindFleetMiniCluster, fleet.Items[i].Name)] = &fleet.Items[i]
	}
	for i := range placements.Items {
		out[changes.Key(parse.KindPlacement, placements.Items[i].Name)] = &placements.Items[i]
	}
	return out, nil
}
