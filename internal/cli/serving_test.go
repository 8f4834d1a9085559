package cli_test

import (
	"strings"
	"testing"
)

func TestServingFlags(t *testing.T) {
	cases := map[string]struct {
		args []string
		err  string
	}{
		"no port":                    {[]string{"--dashboard-bind-address", "localhost"}, "is not HOST:PORT"},
		"without TLS":                {[]string{"--dashboard-bind-address", ":8443"}, "tokens would cross the network unencrypted"},
		"without TLS, on an address": {[]string{"--dashboard-bind-address", "10.0.0.1:80"}, "can be reached from elsewhere"},
		"half a certificate":         {[]string{"--dashboard-bind-address", ":8443", "--dashboard-tls-cert-file", "c"}, "give both or neither"},
		"no address to publish":      {[]string{"--dashboard-bind-address", "[::1]:80", "--dashboard-endpoint-slice", "d"}, "needs --dashboard-pod-ip"},
		"no client":                  {[]string{"--dashboard-bind-address", "127.0.0.1:80", "--dashboard-oidc-issuer", "https://i"}, "needs --dashboard-oidc-client-id"},
		"no URL to come back to":     {[]string{"--dashboard-bind-address", "127.0.0.1:80", "--dashboard-oidc-issuer", "https://i", "--dashboard-oidc-client-id", "c"}, "needs --dashboard-url"},
		"a URL without TLS":          {[]string{"--dashboard-bind-address", "127.0.0.1:80", "--dashboard-oidc-issuer", "https://i", "--dashboard-oidc-client-id", "c", "--dashboard-url", "http://fleet.example.org"}, "is not https://"},
		"all in order":               {[]string{"--dashboard-bind-address", "127.0.0.1:80", "--dashboard-writes"}, "no connection to a hub"},
		"no proxy":                   {[]string{"--dashboard-bind-address", ":80", "--dashboard-plain-http", "--dashboard-trusted-proxies", "10.0.0.1,proxy.example.org"}, `"proxy.example.org" is neither an IP address nor a range`},
		"a trusted proxy":            {[]string{"--dashboard-bind-address", ":80", "--dashboard-plain-http", "--dashboard-trusted-proxies", "10.0.0.1,fd00::/8"}, "no connection to a hub"},
		"a proxy ends TLS":           {[]string{"--dashboard-bind-address", ":80", "--dashboard-plain-http"}, "no connection to a hub"},
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
