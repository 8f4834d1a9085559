package clusters

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
)

func TestSecretsThatHoldTokens(t *testing.T) {
	const token = "eyJhbGciOi.own-token"
	m := &Member{credentials: credentialsOf(&rest.Config{
		BearerToken: token, TLSClientConfig: rest.TLSClientConfig{KeyData: []byte("-----BEGIN KEY-----\nabc\n-----END KEY-----\n")},
	})}
	with := func(value string) map[string][]byte { return map[string][]byte{"x": []byte(value)} }
	cases := map[string]struct {
		secret corev1.Secret
		want   bool
	}{
		"of a service account":       {corev1.Secret{Type: corev1.SecretTypeServiceAccountToken}, true},
		"to join nodes":              {corev1.Secret{Type: corev1.SecretTypeBootstrapToken}, true},
		"opaque":                     {corev1.Secret{Type: corev1.SecretTypeOpaque, Data: with("password")}, false},
		"to pull images":             {corev1.Secret{Type: corev1.SecretTypeDockerConfigJson, Data: with("{}")}, false},
		"MiniFleet's own":            {corev1.Secret{Data: with(token)}, true},
		"MiniFleet's own kubeconfig": {corev1.Secret{Data: with("users: [{user: {token: " + token + "}}]")}, true},
		"MiniFleet's own key":        {corev1.Secret{Data: with("-----BEGIN KEY-----\nabc\n-----END KEY-----")}, true},
		"another token":              {corev1.Secret{Data: with("eyJhbGciOi.another")}, false},
	}
	for name, c := range cases {
		if got := m.HoldsToken(&c.secret); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
	}
	if short := (&Member{credentials: credentialsOf(&rest.Config{BearerToken: "a"})}); short.HoldsToken(&corev1.Secret{Data: with("abc")}) {
		t.Error("a short token is found in whatever there is")
	}
}
