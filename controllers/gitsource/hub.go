package gitsource

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/gitsource/parse"
	"github.com/minifleet/minifleet/internal/changes"
)

// Fleet finds FleetMiniClusters of the cache, which are its own and not to be changed.
type Fleet interface {
	// List returns those of a namespace that have the label of a source, in no order.
	List(ctx context.Context, namespace, source string) ([]*v1alpha1.FleetMiniCluster, error)
	// Get returns the one of a name, and whether there is one.
	Get(ctx context.Context, key types.NamespacedName) (*v1alpha1.FleetMiniCluster, bool, error)
}

// readOwn reads what the hub has of a source, and the Placements of its namespace. They are the cache's own. Of others, which may be
// thousands, addNamed reads what a commit names.
func (r *Reconciler) readOwn(ctx context.Context, source *v1alpha1.GitSource) (changes.Hub, error) {
	if r.Fleet == nil {
		return readHub(ctx, r.Client, source.Namespace)
	}
	own, err := r.Fleet.List(ctx, source.Namespace, source.Name)
	if err != nil {
		return nil, err
	}
	return withPlacements(ctx, r.Client, source.Namespace, own)
}

// addNamed adds the FleetMiniClusters of others that have the names of objects.
func (r *Reconciler) addNamed(ctx context.Context, to changes.Hub, namespace string, objects []parse.Object) error {
	if r.Fleet == nil {
		return nil // all were read
	}
	for i := range objects {
		o := &objects[i]
		key := changes.Key(o.Kind, o.Name)
		if o.Kind == parse.KindPlacement || to[key] != nil {
			continue
		}
		f, found, err := r.Fleet.Get(ctx, types.NamespacedName{Namespace: namespace, Name: o.Name})
		if err != nil {
			return err
		}
		if found {
			to[key] = f
		}
	}
	return nil
}

// readHub reads the FleetMiniClusters and Placements of a namespace from anywhere.
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

// withPlacements are FleetMiniClusters of a namespace, with its Placements.
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
