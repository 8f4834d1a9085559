package fluxtest

import (
	"crypto/rand"
	"strings"
	"testing"

	fluxv1alpha2 "github.com/minifleet/minifleet/api/flux/v1alpha2"
	"github.com/minifleet/minifleet/internal/curve"
	"github.com/minifleet/minifleet/internal/render"
)

// miniCluster is a MiniCluster called sample, of that many brokers.
func miniCluster(t *testing.T, size int32, command string) render.Input {
	t.Helper()
	certificate, err := curve.New(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	nodes := int32(0)
	return render.Input{Name: "sample", Namespace: "default", CurveCert: certificate.Encode(), Spec: fluxv1alpha2.MiniClusterSpec{
		Size: size, Tasks: &nodes,
		Containers: []fluxv1alpha2.MiniClusterContainer{{Image: "machine", Command: command}},
	}}
}

// run runs all pods to their end, and checks that all exit with that code. It returns what the lead wrote.
func (d *deployment) run(size int, code int) string {
	d.t.Helper()
	var pods []*pod
	for index := range size {
		pods = append(pods, d.start(index))
	}
	output, got := pods[0].runner.wait()
	if got != code {
		d.t.Errorf("the lead ended with %d, want %d", got, code)
	}
	for _, p := range pods[1:] {
		if _, got := p.runner.wait(); got != 0 {
			d.t.Errorf("%s ended with %d, want 0", p.name, got)
		}
	}
	for _, line := range strings.Split(string(d.bundle.Secret.Data["curve.cert"]), "\n") {
		if _, key, ok := strings.Cut(line, "secret-key = "); ok && strings.Contains(output, strings.Trim(key, `"`)) {
			d.t.Error("the output has the secret key")
		}
	}
	return output
}

func TestBrokersMeet(t *testing.T) {
	in := miniCluster(t, 2, "hostname")
	output := newNetwork(t).deploy(in).run(2, 0)
	t.Log(output)
}
