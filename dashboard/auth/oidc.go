package auth

import (
	"context"
	"crypto/subtle"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"html/template"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"
	"golang.org/x/sync/singleflight"
)

const (
	// Lax, unlike that of a session: the browser comes back from the issuer with it.
	oidcCookieName = "__Host-minifleet-oidc"
	// oidcTimeout is how long the issuer has for one answer.
	oidcTimeout = 5 * time.Second
	// attemptLifetime is how long somebody may take to log in at the issuer.
	attemptLifetime = 10 * time.Minute
	maxAttempts     = 2_000
	maxNext         = 2_000 // bytes
)

// OIDCOptions is an issuer that people log in through. Its ID token for this client becomes their bearer token at the
// hub's API server, which has to trust the same issuer and client.
type OIDCOptions struct {
	// Name is shown to people who log in: "Log in with NAME". Default: the host of the issuer.
	Name string
	// IssuerURL is https, and equal to the claim iss.
	IssuerURL string
	ClientID  string
	// ClientSecret is empty for a public client, which PKCE protects alone.
	ClientSecret string
	// RedirectURL is the https address of /auth/callback, as browsers see it.
	RedirectURL string
	// Scopes are asked for besides openid. Default: profile, email.
	Scopes []string
	// RootCAs verify the issuer's certificate. Default: those of the system.
	RootCAs *x509.CertPool
}

func (o OIDCOptions) validate() error {
	var errs []error
	for name, address := range map[string]string{"IssuerURL": o.IssuerURL, "RedirectURL": o.RedirectURL} {
		if !isHTTPS(address) {
			errs = append(errs, fmt.Errorf("%s: an https URL is required", name))
		}
	}
	if o.ClientID == "" {
		errs = append(errs, errors.New("ClientID is required"))
	}
	return errors.Join(errs...)
}

func isHTTPS(address string) bool {
	u, err := url.Parse(address)
	return err == nil && u.Scheme == "https" && u.Host != "" && u.User == nil
}

// flow is the authorization code flow with PKCE, state and nonce.
type flow struct {
	options  OIDCOptions
	now      func() time.Time
	rand     io.Reader
	client   *http.Client
	attempts *store[attempt]

	discovering singleflight.Group
	mu          sync.Mutex
	issuer      *issuer // nil until it has answered
}

// attempt is what the server keeps while somebody is at the issuer.
type attempt struct {
	state, nonce, verifier string
	next                   string
	previous               digest // the session that the browser had
}

type issuer struct {
	config   oauth2.Config
	verifier *oidc.IDTokenVerifier
}

func newFlow(o OIDCOptions, now func() time.Time, source io.Reader) (*flow, error) {
	if err := o.validate(); err != nil {
		return nil, fmt.Errorf("settings of OIDC: %w", err)
	}
	if o.Name == "" {
		u, _ := url.Parse(o.IssuerURL) // validated above
		o.Name = u.Host
	}
	if o.Scopes == nil {
		o.Scopes = []string{"profile", "email"}
	}
	if !slices.Contains(o.Scopes, oidc.ScopeOpenID) {
		o.Scopes = append([]string{oidc.ScopeOpenID}, o.Scopes...)
	}
	client := &http.Client{
		Timeout: oidcTimeout,
		Transport: &http.Transport{
			Proxy:               http.ProxyFromEnvironment,
			TLSClientConfig:     &tls.Config{RootCAs: o.RootCAs, MinVersion: tls.VersionTLS12},
			TLSHandshakeTimeout: oidcTimeout,
			IdleConnTimeout:     time.Minute,
			ForceAttemptHTTP2:   true,
		},
	}
	return &flow{
		options: o, now: now, rand: source, client: client,
		attempts: newStore[attempt](maxAttempts, 50, attemptLifetime, now, source),
	}, nil
}

// discover asks the issuer for its addresses, until it has answered once.
func (f *flow) discover(ctx context.Context) (*issuer, error) {
	f.mu.Lock()
	known := f.issuer
	f.mu.Unlock()
	if known != nil {
		return known, nil
	}
	ctx = oidc.ClientContext(context.WithoutCancel(ctx), f.client)
	found, err, _ := f.discovering.Do("", func() (any, error) {
		provider, err := oidc.NewProvider(ctx, f.options.IssuerURL)
		if err != nil {
			return nil, err
		}
		return f.issuerOf(ctx, provider)
	})
	answered, ok := found.(*issuer)
	if err != nil || !ok {
		return nil, fmt.Errorf("the issuer cannot be used: %.300q", fmt.Sprint(err)) // nothing secret was sent
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.issuer = answered
	return answered, nil
}

func (f *flow) issuerOf(ctx context.Context, provider *oidc.Provider) (*issuer, error) {
	endpoint := provider.Endpoint()
	var keys struct {
		URL     string   `json:"jwks_uri"`
		Methods []string `json:"token_endpoint_auth_methods_supported"`
	}
	if err := provider.Claims(&keys); err != nil {
		return nil, err
	}
	if !isHTTPS(endpoint.AuthURL) || !isHTTPS(endpoint.TokenURL) || !isHTTPS(keys.URL) {
		return nil, errors.New("an address of the issuer is not https")
	}
	endpoint.AuthStyle = authStyle(f.options.ClientSecret, keys.Methods)
	return &issuer{
		config: oauth2.Config{
			ClientID: f.options.ClientID, ClientSecret: f.options.ClientSecret, Endpoint: endpoint,
			RedirectURL: f.options.RedirectURL, Scopes: f.options.Scopes,
		},
		verifier: provider.VerifierContext(ctx, &oidc.Config{ClientID: f.options.ClientID, Now: f.now}),
	}, nil
}

// authStyle says how the client authenticates: in the header, unless the issuer wants otherwise or there is no secret. To
// try one after the other might use the code up.
func authStyle(secret string, methods []string) oauth2.AuthStyle {
	if secret == "" || len(methods) > 0 && !slices.Contains(methods, "client_secret_basic") {
		return oauth2.AuthStyleInParams
	}
	return oauth2.AuthStyleInHeader
}

// start returns where the browser is to log in, and the cookie by which it is known when it comes back.
func (f *flow) start(ctx context.Context, from, next string, previous digest) (location, id string, err error) {
	at, err := f.discover(ctx)
	if err != nil {
		return "", "", err
	}
	try := attempt{next: next, previous: previous}
	for _, value := range []*string{&try.state, &try.nonce, &try.verifier} {
		if *value, err = randomID(f.rand); err != nil {
			return "", "", err
		}
	}
	id, err = f.attempts.add(try, from, f.now().Add(attemptLifetime))
	if err != nil {
		return "", "", err
	}
	return at.config.AuthCodeURL(try.state, oidc.Nonce(try.nonce), oauth2.S256ChallengeOption(try.verifier)), id, nil
}

// redeem returns the ID token for the code that the issuer has sent the browser back with, and when it expires.
func (f *flow) redeem(ctx context.Context, try attempt, code string) (string, time.Time, error) {
	at, err := f.discover(ctx)
	if err != nil {
		return "", time.Time{}, err
	}
	ctx = oidc.ClientContext(ctx, f.client)
	tokens, err := at.config.Exchange(ctx, code, oauth2.VerifierOption(try.verifier))
	if err != nil {
		return "", time.Time{}, exchangeError(err)
	}
	raw, _ := tokens.Extra("id_token").(string)
	if !isToken(raw) {
		return "", time.Time{}, errors.New("the issuer has sent no ID token")
	}
	token, err := at.verifier.Verify(ctx, raw)
	if err != nil {
		return "", time.Time{}, errors.New("the ID token is not valid")
	}
	if !equal(token.Nonce, try.nonce) {
		return "", time.Time{}, errors.New("the ID token is of another login")
	}
	return raw, token.Expiry, nil
}

// exchangeError keeps the kind of an error alone: its text has what the issuer has sent.
func exchangeError(err error) error {
	if refused := new(oauth2.RetrieveError); errors.As(err, &refused) {
		return fmt.Errorf("the issuer refuses the code: status %d, error %.40q", refused.Response.StatusCode, refused.ErrorCode)
	}
	return errors.New("the issuer does not answer")
}

func equal(a, b string) bool { return subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1 }

var (
	noOIDC   = problem{Status: http.StatusNotFound, Detail: "There is no login through an issuer here."}
	noIssuer = problem{
		Status: http.StatusServiceUnavailable, Detail: "The issuer does not answer. Try again in a moment.", retry: time.Second,
	}
	badLogin = problem{Status: http.StatusBadRequest, Detail: "This login has ended or was not begun here. Log in again."}
	noLogin  = problem{Status: http.StatusForbidden, Detail: "The issuer has not logged you in. Log in again."}
	badToken = problem{Status: http.StatusForbidden, Detail: "The hub's API server does not accept the issuer's token."}
)

func (a *Auth) oidcLogin(w http.ResponseWriter, r *http.Request) {
	if a.oidc == nil {
		noOIDC.writeFor(w, r)
		return
	}
	from := a.address(r)
	if wait := a.logins.wait(from); wait > 0 {
		tooMany(wait).writeFor(w, r)
		return
	}
	previous, _ := cookieKey(r, cookieName)
	location, id, err := a.oidc.start(r.Context(), from, localPath(r.URL.Query().Get("next")), previous)
	if err != nil {
		a.options.Log.Info("No login through the issuer", "reason", err.Error())
		noIssuer.writeFor(w, r)
		return
	}
	http.SetCookie(w, attemptCookie(id))
	http.Redirect(w, r, location, http.StatusSeeOther) //nolint:gosec // the issuer's address, with its parameters escaped
}

func (a *Auth) oidcCallback(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Referrer-Policy", "no-referrer") // the address has the code
	if a.oidc == nil {
		noOIDC.writeFor(w, r)
		return
	}
	if wait := a.logins.wait(a.address(r)); wait > 0 {
		tooMany(wait).writeFor(w, r)
		return
	}
	http.SetCookie(w, attemptCookie(""))
	try, code, refused := a.attemptOf(r)
	if refused != nil {
		refused.writeFor(w, r)
		return
	}
	token, until, err := a.oidc.redeem(r.Context(), try, code)
	if err != nil {
		a.options.Log.Info("No login through the issuer", "reason", err.Error())
		noLogin.writeFor(w, r)
		return
	}
	v, err := a.identify(r.Context(), token, a.options.ReviewTTL)
	switch {
	case errors.Is(err, ErrUnauthenticated):
		a.options.Log.Info("The hub's API server refuses an ID token: it has to trust the issuer and the client ID")
		badToken.writeFor(w, r)
	case err != nil:
		unavailable.writeFor(w, r)
	default:
		if _, ok := a.begin(w, v, token, until, try.previous); ok {
			writePage(w, http.StatusOK, page{Next: try.next, Go: true, Link: "Continue"})
		}
	}
}

// attemptOf returns the login that this browser has begun, once, and the code for it.
func (a *Auth) attemptOf(r *http.Request) (attempt, string, *problem) {
	key, ok := cookieKey(r, oidcCookieName)
	if !ok {
		return attempt{}, "", &badLogin
	}
	try, ok := a.oidc.attempts.take(key)
	query := r.URL.Query()
	if !ok || !equal(query.Get("state"), try.state) {
		return attempt{}, "", &badLogin
	}
	// RFC 9207: the answer of another issuer.
	if iss := query.Get("iss"); iss != "" && iss != a.oidc.options.IssuerURL {
		return attempt{}, "", &badLogin
	}
	code := query.Get("code")
	if query.Has("error") || code == "" {
		return attempt{}, "", &noLogin
	}
	return try, code, nil
}

// attemptCookie has the id of a login that was begun; an empty one is removed.
func attemptCookie(id string) *http.Cookie {
	maxAge := int(attemptLifetime.Seconds())
	if id == "" {
		maxAge = -1
	}
	return &http.Cookie{
		Name: oidcCookieName, Value: id, Path: "/", MaxAge: maxAge, Secure: true, HttpOnly: true,
		SameSite: http.SameSiteLaxMode,
	}
}

// localPath returns a path of this origin that a browser may be sent to; "/" in place of anything else.
func localPath(next string) string {
	u, err := url.Parse(next)
	if err != nil || len(next) > maxNext || u.Scheme != "" || u.Host != "" || u.User != nil || u.Opaque != "" {
		return "/"
	}
	if !strings.HasPrefix(next, "/") || strings.Contains(next, `\`) || strings.Contains(u.Path, "//") || strings.Contains(u.Path, `\`) {
		return "/"
	}
	if isBelow(u.Path, "/api") || isBelow(u.Path, "/auth") {
		return "/"
	}
	return u.String()
}

// page is shown between the issuer and the page that was asked for, or when a login has failed. A redirect would not do:
// the browser sends no Strict cookie along with what another site has begun, but does with what this page begins.
type page struct {
	Next, Text, Link string
	Go               bool
}

var pageTemplate = template.Must(template.New("").Parse(`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
{{if .Go}}<meta http-equiv="refresh" content="0; url={{.Next}}">
{{end}}<title>MiniFleet</title>
</head>
<body>
<main>{{if .Text}}<p>{{.Text}}</p>{{end}}<p><a href="{{.Next}}">{{.Link}}</a></p></main>
</body>
</html>
`))

func writePage(w http.ResponseWriter, status int, p page) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_ = pageTemplate.Execute(w, p) // the client has disconnected
}

// writeFor answers a person's browser with a page that says the same.
func (p problem) writeFor(w http.ResponseWriter, r *http.Request) {
	if !strings.Contains(r.Header.Get("Accept"), "text/html") {
		p.write(w)
		return
	}
	p.head(w.Header())
	writePage(w, p.Status, page{Text: p.Detail, Next: "/", Link: "Back to MiniFleet"})
}
