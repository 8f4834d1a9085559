package clusters

import (
	"bytes"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
)

// leastCredential is how long a credential is at least, in bytes, to be told from what is in a Secret by chance.
const leastCredential = 16

// credentialsOf are what whoever has one of them is MiniFleet on a member.
func credentialsOf(cfg *rest.Config) [][]byte {
	var out [][]byte
	for _, c := range [][]byte{[]byte(cfg.BearerToken), bytes.TrimSpace(cfg.KeyData)} {
		if len(c) >= leastCredential {
			out = append(out, c)
		}
	}
	return out
}

// HoldsToken says whether a Secret of the member, whatever its name, has a token for the API server in it: by its type, or
// since it is one of those that MiniFleet itself uses there. What it is, is not told.
func (m *Member) HoldsToken(secret *corev1.Secret) bool {
	if secret.Type == corev1.SecretTypeServiceAccountToken || secret.Type == corev1.SecretTypeBootstrapToken {
		return true
	}
	for _, credential := range slices.Concat(m.credentials, m.issued.all()) {
		for _, value := range secret.Data {
			if bytes.Contains(value, credential) {
				return true
			}
		}
	}
	return false
}
