package render

import (
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/minifleet/minifleet/api/flux/curve"
)

// curveKey is the Secret's key and the file's name in the pods.
const curveKey = "curve.cert"

// SecretName is that of the Secret with the certificate of a MiniCluster.
func SecretName(miniCluster string) string { return miniCluster + "-curve" }

func (m *miniCluster) secretName() string { return SecretName(m.name) }

// secret holds the certificate that the brokers know each other by: that of the spec, else the one
// given. It returns an error when it is none that Flux could read; the error quotes nothing of it.
func (m *miniCluster) secret() (*corev1.Secret, error) {
	out := &corev1.Secret{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
		ObjectMeta: m.objectMeta(m.secretName(), nil),
		Type:       corev1.SecretTypeOpaque,
	}
	if m.keyless {
		return out, nil
	}
	cert := slices.Clone(m.in.CurveCert)
	if m.spec.Flux.CurveCert != "" {
		cert = []byte(m.spec.Flux.CurveCert)
	}
	if len(cert) == 0 {
		return nil, errors.New("render: a MiniCluster needs a CURVE certificate")
	}
	parsed, err := curve.Parse(cert)
	if err != nil {
		return nil, fmt.Errorf("render: %w", err)
	}
	if parsed.Name == "" {
		// A broker refuses its peers when the certificate that they share has no name.
		parsed.Name = m.name
		cert = parsed.Encode()
	}
	out.Data = map[string][]byte{curveKey: cert}
	return out, nil
}
