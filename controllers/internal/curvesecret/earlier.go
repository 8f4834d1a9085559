package curvesecret

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/minifleet/minifleet/api/flux/curve"
	"github.com/minifleet/minifleet/api/v1alpha1"
)

// An earlier version kept a certificate in Secret NAME.curve of the object's namespace, where it can be read now only with
// the right of a RoleBinding. Which objects may have one there is known by the age of a Secret that the first start in the
// manager's namespace makes: both times are of the hub's clock.

const (
	sinceName = "curve-certificates"
	// suffix follows the name of a FleetMiniCluster in that of its Secret of an earlier version.
	suffix = ".curve"
)

// errUnreadable says that it is not known what an object's namespace holds.
var errUnreadable = errors.New("the Secrets of the namespace cannot be read")

// Begin notes since when certificates are kept in the manager's namespace, unless that is noted already. It is for the
// manager that leads: another one of an earlier version still keeps them elsewhere.
func (s *Store) Begin(ctx context.Context) error {
	_, err := s.began(ctx)
	return err
}

func (s *Store) began(ctx context.Context) (metav1.Time, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.since != nil {
		return *s.since, nil
	}
	note := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: sinceName},
		Type:       Type,
	}
	key := client.ObjectKeyFromObject(note)
	err := s.Client.Get(ctx, key, note)
	if apierrors.IsNotFound(err) {
		if err = s.Client.Create(ctx, note); apierrors.IsAlreadyExists(err) {
			err = s.Client.Get(ctx, key, note)
		}
	}
	if err != nil {
		return metav1.Time{}, fmt.Errorf("noting in Secret %s since when CURVE certificates are kept there: %w", key, err)
	}
	s.since = &note.CreationTimestamp
	return *s.since, nil
}

// precedes says whether an object may have a certificate of an earlier version.
func (s *Store) precedes(ctx context.Context, fmc *v1alpha1.FleetMiniCluster) (bool, error) {
	since, err := s.began(ctx)
	return err == nil && !fmc.CreationTimestamp.After(since.Time), err
}

// earlierSecret is that of an earlier version, or nil; errUnreadable where that cannot be known.
func (s *Store) earlierSecret(ctx context.Context, fmc *v1alpha1.FleetMiniCluster) (*corev1.Secret, error) {
	key := types.NamespacedName{Namespace: fmc.Namespace, Name: fmc.Name + suffix}
	var secret corev1.Secret
	err := s.Client.Get(ctx, key, &secret)
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case apierrors.IsForbidden(err):
		return nil, errUnreadable
	case err != nil:
		return nil, fmt.Errorf("the CURVE certificate in Secret %s: %w", key, err)
	case !metav1.IsControlledBy(&secret, fmc):
		return nil, nil
	}
	return &secret, nil
}

// takeOver finds the certificate that an object's runs have, nil if none is found, and the Secret of an earlier version that
// it is from. What is on members is that one, too.
func (s *Store) takeOver(ctx context.Context, fmc *v1alpha1.FleetMiniCluster, former Former) (old *corev1.Secret, cert []byte, err error) {
	old, err = s.earlierSecret(ctx, fmc)
	if err != nil && !errors.Is(err, errUnreadable) {
		return nil, nil, err
	}
	if old != nil && isCertificate(old.Data[DataKey]) {
		return old, old.Data[DataKey], nil
	}
	if former != nil {
		cert = former(ctx)
	}
	if !isCertificate(cert) {
		cert = nil
	}
	return nil, cert, nil
}

func isCertificate(encoded []byte) bool {
	_, err := curve.Parse(encoded)
	return err == nil
}

// discard deletes the Secret of an earlier version that was taken over. Where there is no right to, the hub deletes it with
// its FleetMiniCluster, to which it belongs.
func (s *Store) discard(ctx context.Context, old *corev1.Secret) {
	if old == nil {
		return
	}
	if err := s.remove(ctx, old); err != nil {
		ctrl.LoggerFrom(ctx).Info("a Secret with a CURVE certificate that was moved to the manager's namespace stays until its FleetMiniCluster is deleted", "reason", err.Error())
	}
}
