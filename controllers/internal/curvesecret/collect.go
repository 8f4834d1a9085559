package curvesecret

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/minifleet/minifleet/api/v1alpha1"
)

// Collect deletes the certificates of FleetMiniClusters that are no more: whose finalizer somebody has taken off, or that
// were created anew. An object cannot own one in another namespace, so that the hub's garbage collector does not.
func (s *Store) Collect(ctx context.Context) error {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("SecretList"))
	err := s.Reader.List(ctx, list, client.InNamespace(s.Namespace), client.MatchingFields{"type": string(Type)})
	if err != nil {
		return fmt.Errorf("listing CURVE certificates in namespace %s: %w", s.Namespace, err)
	}
	var errs []error
	var unowned []client.Object
	for i := range list.Items {
		secret := &list.Items[i]
		is, err := isOwner(ctx, s.Client, secret)
		errs = append(errs, err)
		if err == nil && !is && ownerOf(secret).Name != "" {
			unowned = append(unowned, secret)
		}
	}
	unowned, err = s.unownedAnywhere(ctx, unowned)
	errs = append(errs, err)
	for _, secret := range unowned {
		_, err := s.collectOne(ctx, secret)
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// unownedAnywhere are those of some certificates whose FleetMiniClusters are of no other shard either. These are in no cache, and may be
// many: one list of the hub finds them.
func (s *Store) unownedAnywhere(ctx context.Context, secrets []client.Object) ([]client.Object, error) {
	if len(secrets) == 0 {
		return nil, nil
	}
	all := &metav1.PartialObjectMetadataList{}
	all.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("FleetMiniClusterList"))
	if err := s.Reader.List(ctx, all); err != nil {
		return nil, fmt.Errorf("listing FleetMiniClusters on the hub: %w", err)
	}
	uids := make(map[types.NamespacedName]string, len(all.Items))
	for i := range all.Items {
		uids[client.ObjectKeyFromObject(&all.Items[i])] = string(all.Items[i].UID)
	}
	return slices.DeleteFunc(secrets, func(secret client.Object) bool {
		uid, is := uids[ownerOf(secret)]
		return is && uid == secret.GetAnnotations()[v1alpha1.AnnotationOwnerUID]
	}), nil
}

// collectOne deletes a certificate if the hub itself says that its FleetMiniCluster is no more.
func (s *Store) collectOne(ctx context.Context, secret client.Object) (deleted bool, err error) {
	if is, err := isOwner(ctx, s.Reader, secret); err != nil || is {
		return false, err
	}
	return true, s.remove(ctx, secret)
}

// ownerOf is the FleetMiniCluster that a Secret says it is for; empty if it says none.
func ownerOf(secret client.Object) types.NamespacedName {
	namespace, name, _ := strings.Cut(secret.GetAnnotations()[v1alpha1.AnnotationOwner], "/")
	return types.NamespacedName{Namespace: namespace, Name: name}
}

// isOwner says whether the FleetMiniCluster that a Secret is for is there.
func isOwner(ctx context.Context, reader client.Reader, secret client.Object) (bool, error) {
	owner := ownerOf(secret)
	fmc := &v1alpha1.FleetMiniCluster{}
	err := reader.Get(ctx, owner, fmc)
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("reading FleetMiniCluster %s: %w", owner, err)
	}
	return string(fmc.UID) == secret.GetAnnotations()[v1alpha1.AnnotationOwnerUID], nil
}
