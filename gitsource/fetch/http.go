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
	maxCachedPools  = 64
	maxResponseHead = 64 << 10
	// maxAdvertBytes is of the list of references, which is not kept.
	maxAdvertBytes = 64 << 20
	// maxPreludeBytes is of what a server says before it sends the pack.
	maxPreludeBytes = 1 << 20
)

// pool is the connections for one CA bundle: those that are made here, whose addresses are checked, and those through a
// proxy, which is for the administrator to choose.
type pool struct{ direct, proxied *http.Transport }

func (p *pool) closeIdle() {
	p.direct.CloseIdleConnections()
	p.proxied.CloseIdleConnections()
}

// pools keeps one pool for each CA bundle, so that a poll of an unchanged repository reuses its connection. Credentials
// are never part of a pool: they are set on each request.
type pools struct {
	mu    sync.Mutex
	byKey map[[sha256.Size]byte]*pool
}

func (p *pools) get(caBundle []byte, network *Network) (*pool, error) {
	key := sha256.Sum256(caBundle)
	p.mu.Lock()
	defer p.mu.Unlock()
	if t, ok := p.byKey[key]; ok {
		return t, nil
	}
	direct, err := newTransport(caBundle)
	if err != nil {
		return nil, err
	}
	direct.DialContext = dialer(network.control).DialContext
	proxied := direct.Clone()
	proxied.DialContext = dialer(nil).DialContext
	proxied.Proxy = proxyOfRequest
	if len(p.byKey) >= maxCachedPools {
		p.closeIdleLocked()
		p.byKey = nil
	}
	if p.byKey == nil {
		p.byKey = map[[sha256.Size]byte]*pool{}
	}
	p.byKey[key] = &pool{direct, proxied}
	return p.byKey[key], nil
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

func newTransport(caBundle []byte) (*http.Transport, error) {
	t := &http.Transport{
		TLSHandshakeTimeout:    tlsTimeout,
		ResponseHeaderTimeout:  headerTimeout,
		MaxResponseHeaderBytes: maxResponseHead,
		IdleConnTimeout:        idleTimeout,
		MaxIdleConns:           64,
		MaxIdleConnsPerHost:    4,
		ForceAttemptHTTP2:      true,
		TLSClientConfig:        &tls.Config{MinVersion: tls.VersionTLS12},
	}
	if len(caBundle) == 0 {
		return t, nil
	}
	roots, err := x509.SystemCertPool()
	if err != nil { // a machine without system roots still trusts the bundle
		roots = x509.NewCertPool()
	}
	if !roots.AppendCertsFromPEM(caBundle) {
		return nil, fail(ReasonInvalidRequest, "the CA bundle holds no PEM certificate")
	}
	t.TLSClientConfig.RootCAs = roots
	return t, nil
}

// guard stands between go-git and the network for one fetch. It turns statuses, foreign redirects and
// oversized answers into typed errors before go-git reads anything of them, and remembers the first,
// because go-git flattens some errors into text.
type guard struct {
	pool    *pool
	proxy   func(*http.Request) (*url.URL, error)
	network *Network
	origin  *url.URL
	auth    *Auth
	budget  *budget.Budget
	ref     Ref
	// pack is the answer that is read at the moment, if it has a pack.
	pack *limitedBody

	mu    sync.Mutex
	first *Error
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

// RoundTrip implements http.RoundTripper.
func (g *guard) RoundTrip(req *http.Request) (*http.Response, error) {
	if !sameOrigin(g.origin, req.URL) {
		return nil, g.fail(redirectError(req.URL))
	}
	if failure := g.network.checkURL(req.URL); failure != nil {
		return nil, g.fail(failure)
	}
	next, req, err := g.connections(req)
	if err != nil {
		return nil, g.fail(asError(err, "the proxy cannot be used", g.auth))
	}
	res, err := next.RoundTrip(req)
	if err != nil {
		return nil, g.fail(g.networkError(req.Context(), err))
	}
	if failure := g.statusError(res); failure != nil {
		_ = res.Body.Close() // nothing of it is wanted
		return nil, g.fail(failure)
	}
	body := &limitedBody{ReadCloser: res.Body, guard: g}
	res.Body = body
	if req.Method == http.MethodPost {
		body.remaining, body.what = maxPreludeBytes, "what the server sent"
		g.pack = body
		return res, nil
	}
	body.remaining, body.what = maxAdvertBytes, "the list of references"
	res.Body = newRefFilter(body, g)
	return res, nil
}

// connections are those that a request goes through, with the request as they take it.
func (g *guard) connections(req *http.Request) (http.RoundTripper, *http.Request, error) {
	proxyOf := g.proxy
	if proxyOf == nil {
		proxyOf = http.ProxyFromEnvironment
	}
	proxy, err := proxyOf(req)
	if err != nil || proxy == nil {
		return g.pool.direct, req, err
	}
	// The proxy dials, so that this is all that can be checked here.
	if failure := g.network.checkHost(req.Context(), req.URL.Hostname()); failure != nil {
		return nil, nil, failure
	}
	return g.pool.proxied, req.WithContext(context.WithValue(req.Context(), proxyKey{}, proxy)), nil
}

func redirectError(to *url.URL) *Error {
	where := to.Scheme + "://" + clip(to.Host, 100)
	return fail(ReasonURLRefused, "the server redirects to "+strconv.Quote(where)+
		", which is not the host of the URL; set the URL to where the repository is now")
}

func (g *guard) statusError(res *http.Response) *Error {
	status := strconv.Itoa(res.StatusCode)
	switch code := res.StatusCode; {
	case code == http.StatusUnauthorized && !g.auth.hasCredentials():
		return fail(ReasonAuthFailed, "the server wants credentials (401); name a Secret with them in secretRef")
	case code == http.StatusUnauthorized:
		return fail(ReasonAuthFailed, "the server refused the credentials (401); renew them in the Secret that secretRef names")
	case code == http.StatusForbidden:
		return fail(ReasonAuthFailed, "the credentials may not read this repository (403); grant them read access")
	case code == http.StatusNotFound:
		return fail(ReasonNotFound, "the server has no such repository (404), or hides it without credentials; check the URL and secretRef")
	case code >= 300 && code < 400:
		to, err := res.Location()
		if err != nil {
			return fail(ReasonFetchFailed, "the server redirects ("+status+") without saying where to")
		}
		if !sameOrigin(g.origin, to) {
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

func (g *guard) networkError(ctx context.Context, err error) *Error {
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
	detail := scrub(err.Error(), g.auth)
	switch {
	case errors.As(err, &unknown):
		return fail(ReasonUnreachable, "the server's certificate is signed by an unknown authority; put its CA into the Secret that secretRef names: "+detail)
	case errors.As(err, &hostname), errors.As(err, &invalid):
		return fail(ReasonUnreachable, "the server's certificate is not valid: "+detail)
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
