package fetch

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"syscall"
	"time"

	githttp "github.com/go-git/go-git/v5/plumbing/transport/http"

	"github.com/minifleet/minifleet/gitsource/budget"
)

const (
	dialTimeout     = 10 * time.Second
	tlsTimeout      = 10 * time.Second
	headerTimeout   = 60 * time.Second // a server may count objects before it answers
	idleTimeout     = 90 * time.Second
	maxCachedPools  = 256
	maxResponseHead = 64 << 10
	// maxAdvertBytes is of the list of references, which is not kept.
	maxAdvertBytes = 64 << 20
	// maxPreludeBytes is of what a server says before it sends the pack.
	maxPreludeBytes = 1 << 20
)

// pool is the connections for one set of credentials: those that are made here, whose addresses are checked, and those
// through a proxy.
type pool struct{ direct, proxied *http.Transport }

func (p *pool) closeIdle() {
	p.direct.CloseIdleConnections()
	p.proxied.CloseIdleConnections()
}

// pools keeps one pool for each set of credentials, so that a poll of an unchanged repository reuses its connection, and
// nobody that of somebody else.
type pools struct {
	mu    sync.Mutex
	byKey map[[sha256.Size]byte]*pool
}

func (p *pools) get(auth *Auth, network *Network) (*pool, error) {
	key := auth.digest()
	p.mu.Lock()
	defer p.mu.Unlock()
	if t, ok := p.byKey[key]; ok {
		return t, nil
	}
	t, err := newPool(auth, network)
	if err != nil {
		return nil, err
	}
	if len(p.byKey) >= maxCachedPools {
		p.closeIdleLocked()
		p.byKey = nil
	}
	if p.byKey == nil {
		p.byKey = map[[sha256.Size]byte]*pool{}
	}
	p.byKey[key] = t
	return t, nil
}

func (p *pools) closeIdle() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closeIdleLocked()
}

func (p *pools) closeIdleLocked() {
	for _, t := range p.byKey {
		t.closeIdle()
	}
}

func dialer(control func(context.Context, string, string, syscall.RawConn) error) *net.Dialer {
	return &net.Dialer{Timeout: dialTimeout, KeepAlive: 30 * time.Second, ControlContext: control}
}

// proxyKey is where a request's context has its proxy.
type proxyKey struct{}

func proxyOfRequest(req *http.Request) (*url.URL, error) {
	proxy, _ := req.Context().Value(proxyKey{}).(*url.URL)
	return proxy, nil
}

// newPool makes the connections for auth. The address of a proxy that a source names is checked when it is dialled; that
// of the environment is the administrator's choice.
func newPool(auth *Auth, network *Network) (*pool, error) {
	config, err := auth.tlsConfig()
	if err != nil {
		return nil, err
	}
	direct := newTransport(config)
	direct.DialContext = dialer(network.control).DialContext
	toProxy := dialer(nil)
	if auth.proxy() != nil {
		toProxy = dialer(network.control)
	}
	proxied := newTransport(config)
	proxied.DialContext = toProxy.DialContext
	proxied.DialTLSContext = (&tls.Dialer{NetDialer: toProxy, Config: withoutCertificate(config)}).DialContext
	proxied.Proxy = proxyOfRequest
	proxied.OnProxyConnectResponse = func(_ context.Context, _ *url.URL, _ *http.Request, res *http.Response) error {
		if failure := proxyStatus(res.StatusCode, auth); failure != nil {
			return failure
		}
		return nil
	}
	return &pool{direct, proxied}, nil
}

// withoutCertificate is the configuration for a proxy, to which the client's certificate is not shown.
func withoutCertificate(c *tls.Config) *tls.Config {
	return &tls.Config{MinVersion: c.MinVersion, RootCAs: c.RootCAs}
}

func newTransport(config *tls.Config) *http.Transport {
	return &http.Transport{
		TLSHandshakeTimeout:    tlsTimeout,
		ResponseHeaderTimeout:  headerTimeout,
		MaxResponseHeaderBytes: maxResponseHead,
		IdleConnTimeout:        idleTimeout,
		MaxIdleConns:           64,
		MaxIdleConnsPerHost:    4,
		ForceAttemptHTTP2:      true,
		TLSClientConfig:        config.Clone(),
	}
}

// checkedTransport stands between go-git and the network for one fetch. It turns statuses, foreign redirects and
// oversized answers into typed errors before go-git reads anything of them.
type checkedTransport struct {
	*guard
	pool    *pool
	proxy   func(*http.Request) (*url.URL, error)
	network *Network
	origin  *url.URL
}

// RoundTrip implements http.RoundTripper.
func (t *checkedTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	if !sameOrigin(t.origin, req.URL) {
		return nil, t.fail(redirectError(req.URL))
	}
	if failure := t.network.checkURL(req.URL); failure != nil {
		return nil, t.fail(failure)
	}
	next, req, err := t.connections(req)
	if err != nil {
		return nil, t.fail(asError(err, "the proxy cannot be used", t.auth))
	}
	res, err := next.RoundTrip(req)
	if err != nil {
		return nil, t.fail(t.networkError(req.Context(), err))
	}
	if failure := t.statusError(res); failure != nil {
		_ = res.Body.Close() // nothing of it is wanted
		return nil, t.fail(failure)
	}
	if req.Method == http.MethodPost {
		res.Body = t.packBody(res.Body)
	} else {
		res.Body = t.refsBody(res.Body)
	}
	return res, nil
}

// connections are those that a request goes through, with the request as they take it.
func (t *checkedTransport) connections(req *http.Request) (http.RoundTripper, *http.Request, error) {
	proxy, err := t.proxyOf(req)
	if err != nil || proxy == nil {
		return t.pool.direct, req, err
	}
	// The proxy dials, so that this is all that can be checked here.
	if failure := t.network.checkHost(req.Context(), req.URL.Hostname()); failure != nil {
		return nil, nil, failure
	}
	return t.pool.proxied, req.WithContext(context.WithValue(req.Context(), proxyKey{}, proxy)), nil
}

func (t *checkedTransport) proxyOf(req *http.Request) (*url.URL, error) {
	if own := t.auth.proxy(); own != nil {
		u, failure := own.url()
		if failure != nil {
			return nil, failure
		}
		return u, nil
	}
	if t.proxy != nil {
		return t.proxy(req)
	}
	return http.ProxyFromEnvironment(req)
}

// guard bounds the answers of a server for one fetch, and remembers the first error, because go-git flattens some errors
// into text.
type guard struct {
	auth   *Auth
	budget *budget.Budget
	ref    Ref
	// pack is the answer that is read at the moment, if it has a pack.
	pack *limitedBody

	mu    sync.Mutex
	first *Error
}

// refsBody bounds an answer that lists references.
func (g *guard) refsBody(from io.ReadCloser) io.ReadCloser {
	return newRefFilter(&limitedBody{ReadCloser: from, guard: g, remaining: maxAdvertBytes, what: "the list of references"}, g)
}

// packBody bounds an answer that has a pack, which is short until packBegins.
func (g *guard) packBody(from io.ReadCloser) io.ReadCloser {
	g.pack = &limitedBody{ReadCloser: from, guard: g, remaining: maxPreludeBytes, what: "what the server sent"}
	return g.pack
}

// packBegins lets the rest of the answer be as long as a pack may be.
func (g *guard) packBegins() {
	if g.pack != nil {
		most := g.budget.Limits().MaxPackBytes
		g.pack.remaining += most + most/8 // framing and progress text come on top
	}
}

func (g *guard) fail(err *Error) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.first == nil {
		g.first = err
	}
	return err
}

// failed is fail for an error of the budget. That of the context is told by whoever has the context.
func (g *guard) failed(err error) error {
	if !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded) {
		return g.fail(asError(err, "the repository cannot be read", g.auth))
	}
	return err
}

// take returns the remembered error and forgets it.
func (g *guard) take() *Error {
	g.mu.Lock()
	defer g.mu.Unlock()
	err := g.first
	g.first = nil
	return err
}

func redirectError(to *url.URL) *Error {
	where := to.Scheme + "://" + clip(to.Host, 100)
	return fail(ReasonURLRefused, "the server redirects to "+strconv.Quote(where)+
		", which is not the host of the URL; set the URL to where the repository is now")
}

func (t *checkedTransport) statusError(res *http.Response) *Error {
	status := strconv.Itoa(res.StatusCode)
	switch code := res.StatusCode; {
	case code == http.StatusUnauthorized && !t.auth.hasCredentials():
		return fail(ReasonAuthFailed, "the server wants credentials (401); name a Secret with them in secretRef")
	case code == http.StatusUnauthorized:
		return fail(ReasonAuthFailed, "the server refused the credentials (401); renew them in the Secret that secretRef names")
	case code == http.StatusProxyAuthRequired:
		return proxyStatus(code, t.auth)
	case code == http.StatusForbidden:
		return fail(ReasonAuthFailed, "the credentials may not read this repository (403); grant them read access")
	case code == http.StatusNotFound:
		return fail(ReasonNotFound, "the server has no such repository (404), or hides it without credentials; check the URL and secretRef")
	case code >= 300 && code < 400:
		to, err := res.Location()
		if err != nil {
			return fail(ReasonFetchFailed, "the server redirects ("+status+") without saying where to")
		}
		if !sameOrigin(t.origin, to) {
			return redirectError(to)
		}
		if res.Request.Method != http.MethodGet {
			return fail(ReasonURLRefused, "the server redirects in the middle of a fetch; set the URL to where the repository is now")
		}
		return nil
	case code < 200 || code >= 400:
		return fail(ReasonFetchFailed, "the server answered with status "+status+"; it is retried at the next interval")
	}
	return nil
}

func (t *checkedTransport) networkError(ctx context.Context, err error) *Error {
	if failure := contextError(ctx); failure != nil {
		return failure
	}
	var refused *Error
	if errors.As(err, &refused) {
		return refused
	}
	var (
		unknown  x509.UnknownAuthorityError
		hostname x509.HostnameError
		invalid  x509.CertificateInvalidError
	)
	detail := scrub(err.Error(), t.auth)
	switch {
	case errors.As(err, &unknown):
		return fail(ReasonUnreachable, "the server's certificate is signed by an unknown authority; put its CA into the Secret that secretRef names: "+detail)
	case errors.As(err, &hostname), errors.As(err, &invalid):
		return fail(ReasonUnreachable, "the server's certificate is not valid: "+detail)
	}
	if t.auth.proxy() != nil {
		return fail(ReasonUnreachable, "cannot reach the Git server through the proxy that spec.proxySecretRef names: "+detail)
	}
	return fail(ReasonUnreachable, "cannot reach the Git server: "+detail)
}

// limitedBody fails, instead of ending, where an answer is longer than its limit.
type limitedBody struct {
	io.ReadCloser
	remaining int64
	guard     *guard
	what      string
}

func (b *limitedBody) Read(p []byte) (int, error) {
	if b.remaining <= 0 {
		var one [1]byte
		if n, err := b.ReadCloser.Read(one[:]); n == 0 {
			return 0, err
		}
		return 0, b.guard.fail(fail(ReasonLimitExceeded, b.what+
			" is over the size limit; use a smaller repository for the manifests"))
	}
	if int64(len(p)) > b.remaining {
		p = p[:b.remaining]
	}
	n, err := b.ReadCloser.Read(p)
	b.remaining -= int64(n)
	if err := b.guard.budget.Spend(budget.ReceivedBytes, int64(n), ""); err != nil {
		return 0, b.guard.failed(err)
	}
	return n, err
}

// gitAuth is auth as go-git sets it on each request; nil without credentials.
func gitAuth(auth *Auth) githttp.AuthMethod {
	switch {
	case !auth.hasCredentials():
		return nil
	case auth.BearerToken != "":
		return &githttp.TokenAuth{Token: auth.BearerToken}
	default:
		return &githttp.BasicAuth{Username: auth.Username, Password: auth.Password}
	}
}
