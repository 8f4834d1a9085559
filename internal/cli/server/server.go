// Package server is a client of the dashboard's REST API, for what only the hub's controller reaches: logs and
// differences of members.
package server

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/rest"

	"github.com/minifleet/minifleet/internal/sanitize"
)

// Settings say where the dashboard is and who asks.
type Settings struct {
	// URL of the dashboard, with or without a path in front of /api.
	URL string
	// Token is the bearer token; empty: that of Config.
	Token string
	// CAFile holds certificates that the dashboard's is trusted by, in PEM; empty: those of the system.
	CAFile string
	// Config is that of the kubeconfig.
	Config *rest.Config
}

// Client asks one dashboard.
type Client struct {
	base *url.URL
	http *http.Client
}

// ErrNoToken says that there are no credentials that a dashboard takes.
var ErrNoToken = errors.New("the kubeconfig has no bearer token, and the dashboard takes nothing else (no client certificates): " +
	"give --token or set MINIFLEET_TOKEN, for example to what `kubectl create token SERVICEACCOUNT` prints")

// New returns a client. It asks nothing yet.
func New(s Settings) (*Client, error) {
	base, err := ParseURL(s.URL)
	if err != nil {
		return nil, err
	}
	transport, err := transport(s)
	if err != nil {
		return nil, err
	}
	authorized, err := authorize(s, transport)
	if err != nil {
		return nil, err
	}
	// A redirect would take the token to where it does not belong.
	keep := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &Client{base: base, http: &http.Client{Transport: authorized, CheckRedirect: keep}}, nil
}

// ParseURL checks the address of a dashboard. A token is not sent over plain HTTP, except to this machine.
func ParseURL(address string) (*url.URL, error) {
	base, err := url.Parse(strings.TrimRight(address, "/"))
	switch {
	case err != nil:
		return nil, fmt.Errorf("--server: %w", err)
	case base.Host == "" || base.Scheme != "http" && base.Scheme != "https":
		return nil, fmt.Errorf("--server: %q is no address of a dashboard: use https://HOST", address)
	case base.User != nil || base.RawQuery != "" || base.Fragment != "":
		return nil, errors.New("--server: give scheme, host and path only")
	case base.Scheme == "http" && !loopback(base.Hostname()):
		return nil, fmt.Errorf("--server: %s is not encrypted, and the token would be sent over it: use https://, or forward a port to this machine", base)
	}
	return base, nil
}

func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

const (
	dialTimeout = 10 * time.Second
	// answerTimeout is how long the first byte of an answer may take.
	answerTimeout = 30 * time.Second
)

func transport(s Settings) (*http.Transport, error) {
	t := &http.Transport{
		Proxy: http.ProxyFromEnvironment, DialContext: (&net.Dialer{Timeout: dialTimeout}).DialContext,
		TLSHandshakeTimeout: dialTimeout, ResponseHeaderTimeout: answerTimeout, ForceAttemptHTTP2: true,
		TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12},
	}
	if s.CAFile == "" {
		return t, nil
	}
	body, err := os.ReadFile(s.CAFile)
	if err != nil {
		return nil, fmt.Errorf("--server-ca: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(body) {
		return nil, fmt.Errorf("--server-ca: %s holds no certificate in PEM", s.CAFile)
	}
	t.TLSClientConfig.RootCAs = pool
	return t, nil
}

// authorize adds the token to each request: that which is given, or that of the kubeconfig, be it from a file or a
// plugin.
func authorize(s Settings, t http.RoundTripper) (http.RoundTripper, error) {
	if s.Token != "" {
		return rest.HTTPWrappersForConfig(&rest.Config{BearerToken: s.Token}, t)
	}
	if s.Config == nil {
		return nil, ErrNoToken
	}
	if s.Config.Impersonate.UserName != "" {
		return nil, errors.New("--as: the dashboard lets nobody act as somebody else: give the token of whom you mean with --token")
	}
	c := &rest.Config{
		Host: s.Config.Host, BearerToken: s.Config.BearerToken, BearerTokenFile: s.Config.BearerTokenFile,
		ExecProvider: s.Config.ExecProvider, AuthProvider: s.Config.AuthProvider, AuthConfigPersister: s.Config.AuthConfigPersister,
	}
	if c.BearerToken == "" && c.BearerTokenFile == "" && c.ExecProvider == nil && c.AuthProvider == nil {
		return nil, ErrNoToken
	}
	return rest.HTTPWrappersForConfig(c, t)
}

// Page is the address of a page of the dashboard: base/path….
func Page(base *url.URL, path ...string) string {
	escaped := make([]string, len(path))
	for i, part := range path {
		escaped[i] = url.PathEscape(part)
	}
	return strings.TrimRight(base.String(), "/") + "/" + strings.Join(escaped, "/")
}

// maxProblem is how much of an answer is read that says what went wrong, in bytes.
const maxProblem = 64 << 10

// get asks for something below a MiniCluster. The caller closes the answer.
func (c *Client) get(ctx context.Context, namespace, name, what string, query url.Values) (io.ReadCloser, error) {
	for _, part := range []string{namespace, name} {
		if problems := validation.IsDNS1123Subdomain(part); len(problems) > 0 {
			return nil, fmt.Errorf("%q is no name: %s", part, problems[0])
		}
	}
	u := c.base.JoinPath("api", "v1", "miniclusters", namespace, name, what)
	u.RawQuery = query.Encode()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return nil, err
	}
	answer, err := c.http.Do(req)
	if err != nil {
		return nil, &Unreachable{fmt.Errorf("the dashboard does not answer: %w", err)}
	}
	if answer.StatusCode == http.StatusOK {
		return answer.Body, nil
	}
	defer func() { _ = answer.Body.Close() }()
	return nil, problem(answer, namespace+"/"+name, what)
}

// Unreachable is an error of the connection: trying again may help.
type Unreachable struct{ error }

// Unwrap returns the cause.
func (u *Unreachable) Unwrap() error { return u.error }

// refusal is how it is told that something is forbidden, with the right that it takes, or not there.
type refusal struct{ forbidden, right, absent string }

// problem says what an answer other than 200 means that is about something below a MiniCluster.
func problem(answer *http.Response, object, what string) error {
	right := "get fleetminiclusters"
	if what == "logs" {
		right += "/logs"
	}
	return problemOf(answer, refusal{
		forbidden: "FleetMiniCluster " + object + ": you may not read this", right: right,
		absent: "FleetMiniCluster " + object + ": there is no such object or run, or you may not see it",
	})
}

// problemOf says what an answer other than 200 means.
func problemOf(answer *http.Response, r refusal) error {
	var details struct{ Title, Detail string } // RFC 9457
	body, _ := io.ReadAll(io.LimitReader(answer.Body, maxProblem))
	_ = json.Unmarshal(body, &details) // what is not JSON has no details
	text := details.Detail
	if text == "" {
		text = details.Title
	}
	if text = sanitize.Text(text, sanitize.MaxNote); text != "" {
		text = " (" + text + ")"
	}
	switch code := answer.StatusCode; {
	case code == http.StatusUnauthorized:
		return fmt.Errorf("the dashboard does not accept the token%s: it may have expired, or be of another cluster; give one with --token or MINIFLEET_TOKEN", text)
	case code == http.StatusForbidden:
		return fmt.Errorf("%s%s: ask for the right to %s", r.forbidden, text, r.right)
	case code == http.StatusNotFound:
		return fmt.Errorf("%s%s", r.absent, text)
	case code >= 300 && code < 400:
		return fmt.Errorf("the dashboard redirects to %s: give the address that it is at with --server", sanitize.Text(answer.Header.Get("Location"), sanitize.MaxNote))
	case code == http.StatusTooManyRequests || code >= 500:
		return &Unreachable{fmt.Errorf("the dashboard answers %s%s: try again later", sanitize.Text(answer.Status, sanitize.MaxNote), text)}
	default:
		return fmt.Errorf("the dashboard answers %s%s", sanitize.Text(answer.Status, sanitize.MaxNote), text)
	}
}
