package copies

import (
	"maps"
	"slices"
	"strings"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/internal/fleet"
)

// Users returns the FleetMiniClusters that a copy is used by, sorted by UID; nothing else of a hub.
func Users(obj client.Object) []fleet.Origin {
	annotations := obj.GetAnnotations()
	if annotations[v1alpha1.AnnotationCopyOf] == "" {
		return nil
	}
	var users []fleet.Origin
	for key, owner := range annotations {
		if uid, ok := strings.CutPrefix(key, v1alpha1.AnnotationUserPrefix); ok {
			users = append(users, fleet.Origin{FleetID: annotations[v1alpha1.AnnotationFleetID], Owner: owner, OwnerUID: uid})
		}
	}
	slices.SortFunc(users, func(a, b fleet.Origin) int { return strings.Compare(a.OwnerUID, b.OwnerUID) })
	return users
}

// OnlyUsersChanged says whether a copy is as it was, but for its users, to whom that does not matter.
func OnlyUsersChanged(before, after client.Object) bool {
	if len(Users(before)) == 0 || len(Users(after)) == 0 {
		return false
	}
	rest := func(obj client.Object) map[string]string {
		annotations := maps.Clone(obj.GetAnnotations())
		maps.DeleteFunc(annotations, func(key, _ string) bool { return strings.HasPrefix(key, v1alpha1.AnnotationUserPrefix) })
		return annotations
	}
	return sameContent(before, after) && maps.Equal(before.GetLabels(), after.GetLabels()) && maps.Equal(rest(before), rest(after))
}

func isUser(obj client.Object, user fleet.Origin) bool {
	return obj.GetAnnotations()[v1alpha1.AnnotationUserPrefix+user.OwnerUID] == user.Owner
}
