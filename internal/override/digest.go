package override

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"

	utiljson "k8s.io/apimachinery/pkg/util/json"

	"github.com/minifleet/minifleet/api/v1alpha1"
)

// Digest is the hash of all that overrides say, in 64 hexadecimal digits; empty for none. It is the same for overrides in
// Git and for what an API server has made of them.
func Digest(overrides []v1alpha1.ClusterOverride) string {
	if len(overrides) == 0 {
		return ""
	}
	all := make([]v1alpha1.ClusterOverride, len(overrides))
	for i := range overrides {
		overrides[i].DeepCopyInto(&all[i])
		for j := range all[i].Patches {
			if value := all[i].Patches[j].Value; value != nil {
				value.Raw = canonical(value.Raw)
			}
		}
	}
	body, err := json.Marshal(all)
	if err != nil {
		body = []byte(err.Error()) // a value that is no JSON, which no override can be applied with
	}
	sum := sha256.Sum256(body)
	return hex.EncodeToString(sum[:])
}

// canonical is a value as an API server writes it: keys in order, and numbers in one notation.
func canonical(raw []byte) []byte {
	var value any
	if err := utiljson.Unmarshal(raw, &value); err != nil {
		return raw
	}
	out, err := utiljson.Marshal(value)
	if err != nil {
		return raw
	}
	return out
}
