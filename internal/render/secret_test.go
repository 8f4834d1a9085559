package render_test

import (
	"testing"

	"github.com/minifleet/minifleet/api/flux/curve"
)

// A broker with peers does not start when its certificate has no name (zmqutil_zap_authorize in flux-core).
func TestCertificateHasAName(t *testing.T) {
	unnamed := certificate("")
	tests := map[string]struct {
		given []byte
		spec  string
		want  string
	}{
		"given without a name":    {given: unnamed, want: "lammps"},
		"of the spec without":     {given: certificate("given"), spec: string(unnamed), want: "lammps"},
		"given with a name":       {given: certificate("given"), want: "given"},
		"of the spec with a name": {given: unnamed, spec: string(certificate("own")), want: "own"},
	}
	for title, test := range tests {
		t.Run(title, func(t *testing.T) {
			in := minimal("true")
			in.CurveCert, in.Spec.Flux.CurveCert = test.given, test.spec
			cert, err := curve.Parse(mustRender(t, in).Secret.Data["curve.cert"])
			if err != nil || cert.Name != test.want {
				t.Errorf("the certificate is called %q (%v), want %q", cert.Name, err, test.want)
			}
		})
	}
}
