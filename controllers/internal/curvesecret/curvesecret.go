// Package curvesecret keeps the CURVE certificate of each FleetMiniCluster in a Secret on the hub. In comes the object;
// out comes its certificate.
package curvesecret

import (
	"context"
	"crypto/rand"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/minifleet/minifleet/api/flux/curve"
	"github.com/minifleet/minifleet/api/v1alpha1"
)

// +kubebuilder:rbac:groups="",resources=secrets,verbs=get;create

// dataKey is the key of the hub's Secret that holds the CURVE certificate.
const dataKey = "curve.cert"

// suffix follows the name of a FleetMiniCluster in that of its Secret on the hub. No object of a run
// has a dot in its name, so that the hub can be a member of itself.
const suffix = ".curve"

// Ensure returns a FleetMiniCluster's CURVE certificate, encoded. It is made once and kept in a Secret on the hub, which
// belongs to the object and is deleted with it. Where it is likely to be missing, it is not asked for first.
func Ensure(ctx context.Context, c client.Client, fmc *v1alpha1.FleetMiniCluster, missing bool) ([]byte, error) {
	key := types.NamespacedName{Namespace: fmc.Namespace, Name: fmc.Name + suffix}
	var secret corev1.Secret
	err := error(apierrors.NewNotFound(corev1.Resource("secrets"), key.Name))
	if !missing {
		err = c.Get(ctx, key, &secret)
	}
	if apierrors.IsNotFound(err) {
		made, makeErr := newSecret(key, fmc)
		if makeErr != nil {
			return nil, makeErr
		}
		err = c.Create(ctx, made)
		if err == nil {
			return made.Data[dataKey], nil
		}
		if apierrors.IsAlreadyExists(err) {
			err = c.Get(ctx, key, &secret)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("the CURVE certificate in Secret %s: %w", key, err)
	}
	if !metav1.IsControlledBy(&secret, fmc) {
		return nil, foreign(key, &secret)
	}
	if _, err := curve.Parse(secret.Data[dataKey]); err != nil {
		return nil, fmt.Errorf("the Secret %s holds no CURVE certificate any more: delete it to have a new one made, when no run is live: %w", key, err)
	}
	return secret.Data[dataKey], nil
}

// foreign says whose a Secret is that has the name of the one with the certificate.
func foreign(key types.NamespacedName, secret *corev1.Secret) error {
	if owner := metav1.GetControllerOf(secret); owner != nil && owner.Kind == "FleetMiniCluster" && owner.Name+suffix == secret.Name {
		return fmt.Errorf("the Secret %s is that of an earlier FleetMiniCluster of this name: waiting until it is garbage-collected", key)
	}
	return fmt.Errorf("the Secret %s is needed for the CURVE certificate, but it is not MiniFleet's: rename the FleetMiniCluster, or remove the Secret", key)
}

// Exists says whether there is a certificate of a FleetMiniCluster: it is made for the first run.
func Exists(ctx context.Context, c client.Client, fmc *v1alpha1.FleetMiniCluster) (bool, error) {
	key := types.NamespacedName{Namespace: fmc.Namespace, Name: fmc.Name + suffix}
	var secret corev1.Secret
	if err := c.Get(ctx, key, &secret); err != nil {
		if apierrors.IsNotFound(err) {
			return false, nil
		}
		return false, fmt.Errorf("the CURVE certificate in Secret %s: %w", key, err)
	}
	return metav1.IsControlledBy(&secret, fmc), nil
}

func newSecret(key types.NamespacedName, fmc *v1alpha1.FleetMiniCluster) (*corev1.Secret, error) {
	cert, err := curve.New(rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("making a CURVE certificate: %w", err)
	}
	cert.Name = fmc.Name // brokers refuse a certificate without a name
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: key.Namespace, Name: key.Name,
			Labels:          map[string]string{v1alpha1.LabelManagedBy: v1alpha1.ManagedBy},
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(fmc, v1alpha1.GroupVersion.WithKind("FleetMiniCluster"))},
		},
		Immutable: ptr.To(true),
		Data:      map[string][]byte{dataKey: cert.Encode()},
	}, nil
}

// Placeholder is a certificate for renderings that are only compared: a Secret's content is compared by the hash that it
// carries.
func Placeholder() []byte {
	cert, err := curve.New(rand.Reader)
	if err != nil {
		return nil
	}
	return cert.Encode()
}
