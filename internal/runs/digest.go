package runs

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"

	fluxv1alpha2 "github.com/minifleet/minifleet/api/flux/v1alpha2"
)

// Digest is the hash of everything in a defaulted MiniCluster spec that affects a run, in 16 hexadecimal
// digits. The size of an elastic MiniCluster is not in it: it changes while the run is live. So is
// what does not belong to a run: spec.cleanup.
//
// It is a hash of what was asked for and not of what is rendered from it, so that a new version of
// MiniFleet, which may render the same MiniCluster differently, runs nothing a second time. For the
// same reason a field that is added to the spec must be omitted from its JSON where it is unset.
func Digest(name string, spec *fluxv1alpha2.MiniClusterSpec) string {
	return FullDigest(name, spec)[:16]
}

// FullDigest is Digest in all its 64 hexadecimal digits, for where nobody may find another MiniCluster
// with the same one.
func FullDigest(name string, spec *fluxv1alpha2.MiniClusterSpec) string {
	spec = spec.DeepCopy()
	if spec.Elastic() {
		spec.Size = 0
	}
	spec.Cleanup = false // it says what becomes of a run that has ended
	// Maps are marshalled in the order of their keys.
	body, err := json.Marshal(spec)
	if err != nil {
		// Not reachable: the spec holds nothing that JSON cannot express.
		panic(err)
	}
	h := sha256.New()
	h.Write([]byte(name))
	h.Write([]byte{0})
	h.Write(prune(body))
	return hex.EncodeToString(h.Sum(nil))
}

// prune drops nulls, empty objects and empty lists at every depth, which say nothing, and gives the
// canonical form. Scalars stay, since a zero that is there was asked for.
func prune(body []byte) []byte {
	var v any
	if err := json.Unmarshal(body, &v); err != nil {
		panic(err) // not reachable: it was marshalled just now
	}
	v, _ = pruned(v)
	out, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return out
}

func pruned(v any) (kept any, says bool) {
	switch v := v.(type) {
	case map[string]any:
		for k, e := range v {
			if kept, says := pruned(e); says {
				v[k] = kept
			} else {
				delete(v, k)
			}
		}
		return v, len(v) > 0
	case []any:
		for i, e := range v {
			v[i], _ = pruned(e) // an element keeps its place
		}
		return v, len(v) > 0
	default:
		return v, v != nil
	}
}
