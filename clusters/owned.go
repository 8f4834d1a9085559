package clusters

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/internal/fleet"
)

// Owned is an object of a FleetMiniCluster on a member.
type Owned struct {
	Kind   string
	Object client.Object
}

// Owned are the objects of an origin that the cache holds under the name of a MiniCluster, but for the record of its runs.
// No request is made.
func (m *Member) Owned(ctx context.Context, key types.NamespacedName, origin fleet.Origin) ([]Owned, error) {
	var out []Owned
	for _, k := range owned {
		list := k.list()
		err := m.GetClient().List(ctx, list, client.InNamespace(key.Namespace), client.MatchingLabels{v1alpha1.LabelOwner: key.Name})
		if err != nil {
			return nil, fmt.Errorf("listing objects of kind %s: %w", k.gvk.Kind, err)
		}
		items, err := meta.ExtractList(list)
		if err != nil {
			return nil, err
		}
		for _, item := range items {
			obj, ok := item.(client.Object)
			if ok && origin.Owns(obj) && obj.GetLabels()[v1alpha1.LabelRecord] == "" {
				out = append(out, Owned{Kind: k.gvk.Kind, Object: obj})
			}
		}
	}
	return out, nil
}

// Holds says whether the cache holds an object of this kind and name that is an origin's. What is read is put into obj.
func (m *Member) Holds(ctx context.Context, key types.NamespacedName, obj client.Object, origin fleet.Origin) bool {
	return m.GetClient().Get(ctx, key, obj) == nil && origin.Owns(obj)
}

// SecretContent is what the annotation SecretContentAnnotation of a Secret says as long as nobody has edited its data.
func SecretContent(s *corev1.Secret) string { return contentDigest(s.Data) }

// SecretEdited says whether somebody has edited the data of a Secret since it was applied.
func SecretEdited(s *corev1.Secret) bool {
	return s.Annotations[SecretContentAnnotation] != SecretContent(s)
}
