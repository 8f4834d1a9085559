package clusters

import (
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// SecretContentAnnotation is the hash of a Secret's data. It tells that somebody has edited a Secret on a
// member without the hub reading its own copy of the key for every comparison. The data is a random key of
// 256 bits, which its hash gives no way to guess.
const SecretContentAnnotation = "minifleet.dev/content"

// stamped returns a copy of what is to be written; a Secret's copy carries the hash of its content.
func stamped(obj client.Object) client.Object {
	out := obj.DeepCopyObject().(client.Object) //nolint:forcetypeassert // a copy has the type of its original
	if s, ok := out.(*corev1.Secret); ok {
		if s.Annotations == nil {
			s.Annotations = map[string]string{}
		}
		s.Annotations[SecretContentAnnotation] = contentDigest(s.Data)
	}
	return out
}

func contentDigest(data map[string][]byte) string {
	h := sha256.New()
	for _, k := range slices.Sorted(maps.Keys(data)) {
		h.Write([]byte(k))
		h.Write([]byte{0})
		sum := sha256.Sum256(data[k])
		h.Write(sum[:])
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}
