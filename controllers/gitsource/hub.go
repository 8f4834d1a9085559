package gitsource

import (
	"context"
	"fmt"
	"strings"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/gitsource/parse"
)

// hubObjects are the hub's objects of one namespace, by KIND/NAME. They are the cache's own: whoever changes one
// copies it first.
type hubObjects map[string]client.Object

func (r *Reconciler) readHub(ctx context.Context, namespace string) (hubObjects, error) {
	out := hubObjects{}
	var fleet v1alpha1.FleetMiniClusterList
	if err := r.Client.List(ctx, &fleet, client.InNamespace(namespace), client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing FleetMiniClusters: %w", err)
	}
	for i := range fleet.Items {
		out[objectKey(parse.KindFleetMiniCluster, fleet.Items[i].Name)] = &fleet.Items[i]
	}
	var placements v1alpha1.PlacementList
	if err := r.Client.List(ctx, &placements, client.InNamespace(namespace), client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing Placements: %w", err)
	}
	for i := range placements.Items {
		out[objectKey(parse.KindPlacement, placements.Items[i].Name)] = &placements.Items[i]
	}
	return out, nil
}

// filesOf maps the objects of a source, by KIND/NAME, to the files that declare them.
func (h hubObjects) filesOf(source string) map[string]string {
	out := map[string]string{}
	for key, obj := range h {
		if belongsTo(obj, source) {
			out[key] = fileOf(obj)
		}
	}
	return out
}

// placementsOf are the Placements, as KIND/NAME, that FleetMiniClusters refer to.
func (h hubObjects) placementsOf(keys []string) map[string]bool {
	out := map[string]bool{}
	for _, key := range keys {
		if f, ok := h[key].(*v1alpha1.FleetMiniCluster); ok && f.Spec.PlacementRef != nil {
			out[objectKey(parse.KindPlacement, f.Spec.PlacementRef.Name)] = true
		}
	}
	return out
}

func belongsTo(obj client.Object, source string) bool {
	return obj.GetLabels()[v1alpha1.LabelSource] == source
}

// objectKey is KIND/NAME on the hub, where a MiniCluster is a FleetMiniCluster.
func objectKey(kind, name string) string {
	if kind == parse.KindMiniCluster {
		kind = parse.KindFleetMiniCluster
	}
	return kind + "/" + name
}

func kindOnHub(obj client.Object) string {
	if _, ok := obj.(*v1alpha1.Placement); ok {
		return parse.KindPlacement
	}
	return parse.KindFleetMiniCluster
}

// fileOf is the file in Git that declares a hub object.
func fileOf(obj client.Object) string {
	file := obj.GetAnnotations()[v1alpha1.AnnotationSourcePath]
	if i := strings.LastIndexByte(file, '#'); i >= 0 {
		file = file[:i]
	}
	return file
}
