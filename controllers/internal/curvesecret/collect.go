package curvesecret

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/minifleet/minifleet/api/v1alpha1"
)

// Collect deletes the certificates of FleetMiniClusters that are no more: somebody has taken their finalizer off. An object
// cannot own one in another namespace, so that the hub's garbage collector does not. One whose name another FleetMiniCluster
// has by now stays until that has a run of its own: it is what tells that there may be runs already. So does each while not all
// members can be asked, since only they know what is live there without its FleetMiniCluster. Stay is how many these are.
func (s *Store) Collect(ctx context.Context, allAsked func() bool) (stay int, err error) {
	before := s.namesLeft()
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("SecretList"))
	err = s.Reader.List(ctx, list, client.InNamespace(s.Namespace), client.MatchingFields{"type": string(Type)})
	if err != nil {
		return 0, fmt.Errorf("listing CURVE certificates in namespace %s: %w", s.Namespace, err)
	}
	var unowned []client.Object
	for i := range list.Items {
		secret := &list.Items[i]
		owner := ownerOf(secret)
		if owner.Name == "" {
			continue
		}
		uid, err := bearer(ctx, s.Client, owner)
		if err != nil {
			return 0, err
		}
		if string(uid) == secret.Annotations[v1alpha1.AnnotationOwnerUID] {
			continue
		}
		s.note(owner)
		delete(before, owner)
		if uid == "" {
			unowned = append(unowned, secret)
		}
	}
	s.noteListed(before)
	unowned, err = s.unownedAnywhere(ctx, unowned)
	if err != nil || len(unowned) > 0 && !allAsked() {
		return len(unowned), err
	}
	var errs []error
	for _, secret := range unowned {
		uid, err := bearer(ctx, s.Reader, ownerOf(secret))
		if err == nil && uid == "" {
			err = s.remove(ctx, secret)
		}
		errs = append(errs, err)
	}
	return 0, errors.Join(errs...)
}

// unownedAnywhere are those of some certificates whose names no FleetMiniCluster of another shard has either. These are in no cache, and
// may be many: one list of the hub finds them.
func (s *Store) unownedAnywhere(ctx context.Context, secrets []client.Object) ([]client.Object, error) {
	if len(secrets) == 0 {
		return nil, nil
	}
	all := &metav1.PartialObjectMetadataList{}
	all.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("FleetMiniClusterList"))
	if err := s.Reader.List(ctx, all); err != nil {
		return nil, fmt.Errorf("listing FleetMiniClusters on the hub: %w", err)
	}
	borne := make(map[types.NamespacedName]bool, len(all.Items))
	for i := range all.Items {
		borne[client.ObjectKeyFromObject(&all.Items[i])] = true
	}
	return slices.DeleteFunc(secrets, func(secret client.Object) bool { return borne[ownerOf(secret)] }), nil
}

// makeRoom deletes the certificate of an earlier FleetMiniCluster, if the hub itself says that it is no more.
func (s *Store) makeRoom(ctx context.Context, secret client.Object) (deleted bool, err error) {
	uid, err := bearer(ctx, s.Reader, ownerOf(secret))
	if err != nil || string(uid) == secret.GetAnnotations()[v1alpha1.AnnotationOwnerUID] {
		return false, err
	}
	return true, s.remove(ctx, secret)
}

// ownerOf is the FleetMiniCluster that a Secret says it is for; empty if it says none.
func ownerOf(secret client.Object) types.NamespacedName {
	namespace, name, _ := strings.Cut(secret.GetAnnotations()[v1alpha1.AnnotationOwner], "/")
	return types.NamespacedName{Namespace: namespace, Name: name}
}

// bearer is the UID of the FleetMiniCluster that has a name, empty if none does.
func bearer(ctx context.Context, reader client.Reader, name types.NamespacedName) (types.UID, error) {
	fmc := &v1alpha1.FleetMiniCluster{}
	if err := reader.Get(ctx, name, fmc); client.IgnoreNotFound(err) != nil {
		return "", fmt.Errorf("reading FleetMiniCluster %s: %w", name, err)
	}
	return fmc.UID, nil
}
