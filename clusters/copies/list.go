package copies

import (
	"context"
	"errors"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/clusters"
)

// isCopy says whether an object on a member was copied there by this hub.
func isCopy(m *clusters.Member, obj client.Object, fleetID string) bool {
	a := obj.GetAnnotations()
	of := a[v1alpha1.AnnotationCopyOf]
	original := m.UID == fleetID && of == obj.GetNamespace()+"/"+obj.GetName() || a[v1alpha1.AnnotationCopyOfUID] == string(obj.GetUID())
	return fleetID != "" && a[v1alpha1.AnnotationFleetID] == fleetID && of != "" && !original
}

// isCopyOf says whether an object is the copy of this one.
func isCopyOf(m *clusters.Member, obj, source client.Object, fleetID string) bool {
	return isCopy(m, obj, fleetID) && obj.GetAnnotations()[v1alpha1.AnnotationCopyOf] == source.GetNamespace()+"/"+source.GetName()
}

// Find returns the Secret or ConfigMap that a member has, or nil where it has none.
func Find(ctx context.Context, m *clusters.Member, kind string, key types.NamespacedName) (client.Object, error) {
	obj := Empty(kind)
	err := m.GetLive(ctx, key, obj)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return obj, nil
}

// cached returns what the cache has under the name of an object, or nil.
func cached(ctx context.Context, m *clusters.Member, want client.Object) (client.Object, error) {
	have := Empty(Kind(want))
	err := m.GetClient().Get(ctx, client.ObjectKeyFromObject(want), have)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return have, nil
}

// usersIndex is the index of copies by their users' NAMESPACE/NAME.
const usersIndex = "minifleet.copy.users"

// Index makes the caches of members find copies by their users.
func Index(ctx context.Context, members client.FieldIndexer) error {
	byUser := func(obj client.Object) []string {
		var keys []string
		for _, user := range Users(obj) {
			keys = append(keys, user.Owner)
		}
		slices.Sort(keys)
		return slices.Compact(keys)
	}
	return errors.Join(members.IndexField(ctx, &corev1.Secret{}, usersIndex, byUser), members.IndexField(ctx, &corev1.ConfigMap{}, usersIndex, byUser))
}

// UsedBy returns the copies of this hub that the cache shows to be used by a FleetMiniCluster, NAMESPACE/NAME,
// or by one of that name before it. No namespace stands for all.
func UsedBy(ctx context.Context, m *clusters.Member, namespace, owner, fleetID string) ([]client.Object, error) {
	return list(ctx, m, m.GetClient(), fleetID, client.InNamespace(namespace), client.MatchingFields{usersIndex: owner})
}

// Live returns all copies of this hub in a namespace, as the member itself has them.
func Live(ctx context.Context, m *clusters.Member, namespace, fleetID string) ([]client.Object, error) {
	if err := m.Verify(ctx); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, clusters.ReadTimeout)
	defer cancel()
	return list(ctx, m, m.GetAPIReader(), fleetID, client.InNamespace(namespace),
		client.MatchingLabels{v1alpha1.LabelManagedBy: v1alpha1.ManagedBy, v1alpha1.LabelCopy: "true"})
}

func list(ctx context.Context, m *clusters.Member, from client.Reader, fleetID string, options ...client.ListOption) ([]client.Object, error) {
	var out []client.Object
	for _, all := range []client.ObjectList{&corev1.SecretList{}, &corev1.ConfigMapList{}} {
		if err := from.List(ctx, all, options...); err != nil {
			return nil, err
		}
		_ = meta.EachListItem(all, func(o runtime.Object) error {
			if obj, ok := o.(client.Object); ok && isCopy(m, obj, fleetID) {
				out = append(out, obj)
			}
			return nil
		})
	}
	return out, nil
}
