package cli

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"strings"

	"github.com/spf13/pflag"
)

// servingFlags say whether and how the controller serves the dashboard.
type servingFlags struct {
	address, certFile, keyFile string
	plainHTTP, writes          bool
	url                        string
	endpointSlice, podIP       string
	trustedProxies             []string
	oidc                       oidcFlags
}

type oidcFlags struct {
	issuer, clientID, clientSecretFile, caFile, name string
	scopes                                           []string
}

func (f *servingFlags) add(flags *pflag.FlagSet) {
	flags.StringVar(&f.address, "dashboard-bind-address", "0", "address of the dashboard and its API; 0 turns them off")
	flags.BoolVar(&f.writes, "dashboard-writes", false, "let people change things through the dashboard, with their own rights; without it, it is read-only")
	flags.StringVar(&f.certFile, "dashboard-tls-cert-file", "", "certificate of the dashboard; it is read again when it changes")
	flags.StringVar(&f.keyFile, "dashboard-tls-key-file", "", "private key of that certificate")
	flags.BoolVar(&f.plainHTTP, "dashboard-plain-http", false, "serve without TLS on other than loopback addresses; for behind a proxy that ends TLS")
	flags.StringVar(&f.url, "dashboard-url", "", "URL by which browsers reach the dashboard, https://HOST[:PORT]; needed for a login with OpenID Connect")
	flags.StringVar(&f.endpointSlice, "dashboard-endpoint-slice", "", "EndpointSlice, and Service that selects no pods, in the controller's namespace that are to lead to the leader")
	flags.StringVar(&f.podIP, "dashboard-pod-ip", "", "address of this replica for --dashboard-endpoint-slice")
	flags.StringSliceVar(&f.trustedProxies, "dashboard-trusted-proxies", nil, "addresses or ranges (CIDR) of proxies whose X-Forwarded-For is believed; without them all who come through a proxy share one limit of requests")
	flags.StringVar(&f.oidc.issuer, "dashboard-oidc-issuer", "", "URL of an OpenID Connect issuer that the hub's API server trusts; empty: people log in with a token")
	flags.StringVar(&f.oidc.clientID, "dashboard-oidc-client-id", "", "client id of the dashboard at the issuer")
	flags.StringVar(&f.oidc.clientSecretFile, "dashboard-oidc-client-secret-file", "", "file with the client secret; empty for a public client")
	flags.StringVar(&f.oidc.caFile, "dashboard-oidc-ca-file", "", "certificates to trust for the issuer; empty: the system's")
	flags.StringVar(&f.oidc.name, "dashboard-oidc-name", "OpenID Connect", "what the login page calls the issuer")
	flags.StringSliceVar(&f.oidc.scopes, "dashboard-oidc-scopes", []string{"openid", "profile", "groups"}, "scopes to ask for")
}

// on says whether the dashboard is served at all.
func (f *servingFlags) on() bool { return f.address != "" && f.address != "0" }

// check returns what is wrong with the flags.
func (f *servingFlags) check() error {
	if !f.on() {
		return nil
	}
	host, _, err := net.SplitHostPort(f.address)
	if err != nil {
		return invalid{fmt.Errorf("--dashboard-bind-address: %q is not HOST:PORT", f.address)}
	}
	if _, err := f.proxies(); err != nil {
		return invalid{err}
	}
	switch {
	case (f.certFile == "") != (f.keyFile == ""):
		return invalid{errors.New("--dashboard-tls-cert-file and --dashboard-tls-key-file: give both or neither")}
	case f.certFile == "" && !f.plainHTTP && !loopback(host):
		return invalid{fmt.Errorf("--dashboard-bind-address: %s can be reached from elsewhere, and tokens would cross the network unencrypted: "+
			"give --dashboard-tls-cert-file and --dashboard-tls-key-file, or --dashboard-plain-http where a proxy ends TLS", f.address)}
	case f.endpointSlice != "" && !validIP(f.podIP):
		return invalid{fmt.Errorf("--dashboard-endpoint-slice needs --dashboard-pod-ip: %q is no IP address", f.podIP)}
	case f.oidc.issuer != "" && f.oidc.clientID == "":
		return invalid{errors.New("--dashboard-oidc-issuer needs --dashboard-oidc-client-id")}
	case f.oidc.issuer != "" && !validOrigin(f.url):
		return invalid{fmt.Errorf("--dashboard-oidc-issuer needs --dashboard-url: %q is not https://HOST[:PORT]", f.url)}
	}
	return nil
}

// proxies are the ranges of trusted proxies.
func (f *servingFlags) proxies() ([]netip.Prefix, error) {
	var out []netip.Prefix
	for _, s := range f.trustedProxies {
		prefix, err := netip.ParsePrefix(s)
		if addr, single := netip.ParseAddr(s); single == nil {
			prefix, err = addr.Prefix(addr.BitLen())
		}
		if err != nil {
			return nil, fmt.Errorf("--dashboard-trusted-proxies: %q is neither an IP address nor a range of them", s)
		}
		out = append(out, prefix)
	}
	return out, nil
}

func validIP(s string) bool {
	_, err := netip.ParseAddr(s)
	return err == nil
}

func loopback(host string) bool {
	if host == "localhost" {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.IsLoopback()
}

// validOrigin says whether a URL is an origin that a browser keeps secrets for: https, or http on a loopback address.
func validOrigin(s string) bool {
	u, err := url.Parse(s)
	if err != nil || u.Host == "" || strings.Trim(u.Path, "/") != "" || u.RawQuery != "" {
		return false
	}
	return u.Scheme == "https" || u.Scheme == "http" && loopback(u.Hostname())
}
