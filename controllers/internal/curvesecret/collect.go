package curvesecret

import (
	"context"
	"errors"
	"fmt"
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
	for i := range list.Items {
		secret := &list.Items[i]
		if is, err := isOwner(ctx, s.Client, secret); err != nil || is || ownerOf(secret).Name == "" {
			errs = append(errs, err)
			continue
		}
		_, err := s.collectOne(ctx, secret)
		errs = append(errs, err)
	}
	return errors.Join(errs...)
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
