package cli_test

import (
	"strings"
	"testing"
)

func TestReceiverFlags(t *testing.T) {
	cases := map[string]struct {
		args []string
		err  string
	}{
		"no port":                      {[]string{"--receiver-bind-address", "localhost"}, "is not HOST:PORT"},
		"without TLS":                  {[]string{"--receiver-bind-address", ":9292"}, "the tokens of GitLab would cross the network unencrypted"},
		"half a certificate":           {[]string{"--receiver-bind-address", ":9292", "--receiver-tls-key-file", "k"}, "give both or neither"},
		"no address to publish":        {[]string{"--receiver-bind-address", "127.0.0.1:9292", "--receiver-endpoint-slice", "r", "--receiver-pod-ip", "x"}, `"x" is no IP address`},
		"off, with half a certificate": {[]string{"--receiver-tls-key-file", "k"}, "no connection to a hub"},
		"a proxy ends TLS":             {[]string{"--receiver-bind-address", ":9292", "--receiver-plain-http"}, "no connection to a hub"},
		"on a loopback address":        {[]string{"--receiver-bind-address", "[::1]:9292"}, "no connection to a hub"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			code, _, errs := run("", append([]string{"controller", "--kubeconfig", "testdata/none"}, c.args...)...)
			if code != 2 || !strings.Contains(errs, c.err) {
				t.Errorf("exit code %d: %s", code, errs)
			}
		})
	}
}
