// Package curvesecret keeps the CURVE certificate of each FleetMiniCluster in a Secret of the manager's own namespace, where
// nobody may read it who may not use every member. In comes the object; out comes its certificate.
//
//	curvesecret.go  the certificate of an object: made once, kept, deleted
//	earlier.go      certificates that an earlier version kept in the namespaces of the objects
//	collect.go      certificates of objects that are no more
//	left.go         whose certificates may still be there, for those who take their names
package curvesecret

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/minifleet/minifleet/api/flux/curve"
	"github.com/minifleet/minifleet/api/v1alpha1"
)

// +kubebuilder:rbac:groups="",namespace=system,resources=secrets,verbs=get;list;create;delete

const (
	// Type is that of the Secrets with certificates, which tells them from the kubeconfigs beside them.
	Type corev1.SecretType = "minifleet.dev/curve-certificate"
	// DataKey is the key of a Secret that holds the CURVE certificate, on the hub and on members.
	DataKey = "curve.cert"

	prefix = "curve-"
	// digits is how much of a SHA-256 names a Secret: 160 bits, of which nobody finds two alike.
	digits = 40
)

// Store is the certificates of a hub.
type Store struct {
	// Client reads FleetMiniClusters from a cache and Secrets from the hub itself; Reader reads everything from the hub itself.
	Client client.Client
	Reader client.Reader
	// Namespace is the manager's own.
	Namespace string

	mu    sync.Mutex
	since *metav1.Time // of the first start, once it is known
	// left are names whose certificates earlier FleetMiniClusters may have left, as far as hasListed or a deletion has told.
	left      map[types.NamespacedName]bool
	hasListed bool
	// deleted are those whose certificates were deleted with them, until that is told.
	deleted map[types.UID]bool
}

// Former returns the certificate that an object's runs have, as far as it can be found on members; nil for none.
type Former func(ctx context.Context) []byte

// Name is that of the Secret with the certificate of an object. It is derived from both of its names by a hash, since those
// together may be longer than a name.
func Name(object types.NamespacedName) string {
	sum := sha256.Sum256([]byte(object.String()))
	return prefix + hex.EncodeToString(sum[:])[:digits]
}

func (s *Store) key(fmc *v1alpha1.FleetMiniCluster) types.NamespacedName {
	return types.NamespacedName{Namespace: s.Namespace, Name: Name(client.ObjectKeyFromObject(fmc))}
}

// Ensure returns a FleetMiniCluster's CURVE certificate, encoded. It is made once and kept until the object is deleted.
// Where it is likely to be missing, it is not asked for first. An object that is older than this Store may have one
// elsewhere, which is kept: in its own namespace, or where its runs are, which former finds.
func (s *Store) Ensure(ctx context.Context, fmc *v1alpha1.FleetMiniCluster, missing bool, former Former) ([]byte, error) {
	key := s.key(fmc)
	earlier, err := s.precedes(ctx, fmc)
	if err != nil {
		return nil, err
	}
	if !missing || earlier {
		secret, err := s.get(ctx, fmc)
		if err != nil || secret != nil {
			return certificateOf(secret, err)
		}
	}
	var old *corev1.Secret
	var cert []byte
	if earlier {
		if old, cert, err = s.takeOver(ctx, fmc, former); err != nil {
			return nil, err
		}
	}
	made, err := newSecret(key, fmc, cert)
	if err != nil {
		return nil, err
	}
	err = s.Client.Create(ctx, made)
	switch {
	case apierrors.IsAlreadyExists(err):
		return s.existing(ctx, fmc, made)
	case err != nil:
		return nil, fmt.Errorf("keeping the CURVE certificate in Secret %s: %w", key, err)
	}
	s.discard(ctx, old)
	return made.Data[DataKey], nil
}

// existing is the certificate in a Secret that was there when one was to be made. That of an earlier FleetMiniCluster of the
// name makes room.
func (s *Store) existing(ctx context.Context, fmc *v1alpha1.FleetMiniCluster, made *corev1.Secret) ([]byte, error) {
	secret, err := s.get(ctx, fmc)
	if err != nil || secret != nil {
		return certificateOf(secret, err)
	}
	made.ResourceVersion, made.UID = "", ""
	if err := s.Client.Create(ctx, made); err != nil {
		return nil, fmt.Errorf("keeping the CURVE certificate in Secret %s: %w", client.ObjectKeyFromObject(made), err)
	}
	return made.Data[DataKey], nil
}

// certificateOf is the certificate in a Secret that was read.
func certificateOf(secret *corev1.Secret, err error) ([]byte, error) {
	if err != nil {
		return nil, err
	}
	if _, err := curve.Parse(secret.Data[DataKey]); err != nil {
		return nil, fmt.Errorf("the Secret %s holds no CURVE certificate any more: delete it to have a new one made, when no run is live: %w",
			client.ObjectKeyFromObject(secret), err)
	}
	return secret.Data[DataKey], nil
}

// get returns the Secret of a FleetMiniCluster, or nil where there is none. One that an earlier FleetMiniCluster of the name
// has left is deleted: nobody else uses it, and a new one is made.
func (s *Store) get(ctx context.Context, fmc *v1alpha1.FleetMiniCluster) (*corev1.Secret, error) {
	secret, err := s.find(ctx, fmc)
	if err != nil || secret == nil || belongsTo(secret, fmc) {
		return secret, err
	}
	deleted, err := s.makeRoom(ctx, secret)
	if err == nil && !deleted {
		err = fmt.Errorf("the Secret %s is that of another FleetMiniCluster of this name: the cache is behind the hub", client.ObjectKeyFromObject(secret))
	}
	return nil, err
}

// find returns the Secret under the name of a FleetMiniCluster's, or nil. It is an error if that is none of ours.
func (s *Store) find(ctx context.Context, fmc *v1alpha1.FleetMiniCluster) (*corev1.Secret, error) {
	key := s.key(fmc)
	var secret corev1.Secret
	err := s.Client.Get(ctx, key, &secret)
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("the CURVE certificate in Secret %s: %w", key, err)
	case secret.Type != Type || secret.Annotations[v1alpha1.AnnotationOwner] != fmc.Namespace+"/"+fmc.Name:
		return nil, fmt.Errorf("the Secret %s is needed for the CURVE certificate of a FleetMiniCluster, but it is not MiniFleet's: remove it", key)
	}
	return &secret, nil
}

func belongsTo(secret *corev1.Secret, fmc *v1alpha1.FleetMiniCluster) bool {
	return secret.Annotations[v1alpha1.AnnotationOwnerUID] == string(fmc.UID)
}

// Exists says whether there is a certificate of a FleetMiniCluster: it is made for the first run. One of an earlier object of
// its name counts, too: a deletion that was not cut short would have deleted it, and what it was made for may be live. Of an
// object that is older than this Store it says so where it cannot know: who asks whether a ledger was lost asks the members then.
func (s *Store) Exists(ctx context.Context, fmc *v1alpha1.FleetMiniCluster) (bool, error) {
	secret, err := s.find(ctx, fmc)
	if err != nil || secret != nil {
		return err == nil, err
	}
	earlier, err := s.precedes(ctx, fmc)
	if err != nil || !earlier {
		return false, err
	}
	old, err := s.earlierSecret(ctx, fmc)
	if errors.Is(err, errUnreadable) {
		return true, nil
	}
	return old != nil, err
}

// Delete deletes the certificate of a FleetMiniCluster that is being deleted, when nothing is left that needs it, or the one that an
// earlier one of the name has left.
func (s *Store) Delete(ctx context.Context, fmc *v1alpha1.FleetMiniCluster) error {
	secret, err := s.find(ctx, fmc)
	if err != nil || secret == nil {
		return err
	}
	if !belongsTo(secret, fmc) { // one that an earlier FleetMiniCluster has left; not that of a successor, for which it is too late
		if uid, err := bearer(ctx, s.Reader, ownerOf(secret)); err != nil || uid != fmc.UID {
			return err
		}
	}
	if err := s.remove(ctx, secret); err != nil {
		return err
	}
	s.noteDeleted(fmc.UID)
	return nil
}

// Kept says whether there is a certificate under the name of a FleetMiniCluster, be it that of an earlier one.
func (s *Store) Kept(ctx context.Context, fmc *v1alpha1.FleetMiniCluster) (bool, error) {
	secret, err := s.find(ctx, fmc)
	return secret != nil, err
}

// remove deletes a Secret, as it was read.
func (s *Store) remove(ctx context.Context, secret client.Object) error {
	err := s.Client.Delete(ctx, secret, client.Preconditions{UID: ptr.To(secret.GetUID())})
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("deleting the CURVE certificate in Secret %s: %w", client.ObjectKeyFromObject(secret), err)
	}
	return nil
}

// newSecret is one with a certificate, or with a new one where that is nil.
func newSecret(key types.NamespacedName, fmc *v1alpha1.FleetMiniCluster, encoded []byte) (*corev1.Secret, error) {
	if encoded == nil {
		cert, err := curve.New(rand.Reader)
		if err != nil {
			return nil, fmt.Errorf("making a CURVE certificate: %w", err)
		}
		cert.Name = fmc.Name // brokers refuse a certificate without a name
		encoded = cert.Encode()
	}
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: key.Namespace, Name: key.Name, // and not the label of what is on members: the hub may be one of these
			Annotations: map[string]string{
				v1alpha1.AnnotationOwner: fmc.Namespace + "/" + fmc.Name, v1alpha1.AnnotationOwnerUID: string(fmc.UID),
			},
		},
		Type:      Type,
		Immutable: ptr.To(true),
		Data:      map[string][]byte{DataKey: encoded},
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
