package auth_test

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"html"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
	"github.com/google/go-cmp/cmp"

	"github.com/minifleet/minifleet/dashboard/auth"
)

const (
	clientID     = "minifleet"
	clientSecret = "secret-of-the-client"
	stateCookie  = "__Host-minifleet-oidc"
	callback     = "https://fleet.example/auth/callback"
)

var signingKey = sync.OnceValue(func() *rsa.PrivateKey {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		panic(err)
	}
	return key
})

// issuer is an OpenID provider: codes are redeemed once, with the verifier of their challenge.
type issuer struct {
	*httptest.Server
	clock *clock
	key   *rsa.PrivateKey
	// claims change the ID token, discovery the document; key the one that signs.
	claims, discovery map[string]any
	down              bool

	mu     sync.Mutex
	codes  map[string]url.Values
	issued []string // ID tokens
}

func newIssuer(t *testing.T, c *clock) *issuer {
	i := &issuer{clock: c, key: signingKey(), claims: map[string]any{}, discovery: map[string]any{}, codes: map[string]url.Values{}}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /.well-known/openid-configuration", i.configuration)
	mux.HandleFunc("GET /keys", func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{
			Key: signingKey().Public(), KeyID: "1", Algorithm: "RS256", Use: "sig",
		}}})
	})
	mux.HandleFunc("POST /token", i.token)
	i.Server = httptest.NewTLSServer(mux)
	t.Cleanup(i.Close)
	return i
}

func (i *issuer) configuration(w http.ResponseWriter, _ *http.Request) {
	if i.down {
		w.WriteHeader(http.StatusBadGateway)
		return
	}
	document := map[string]any{
		"issuer": i.URL, "authorization_endpoint": i.URL + "/authorize", "token_endpoint": i.URL + "/token",
		"jwks_uri": i.URL + "/keys", "id_token_signing_alg_values_supported": []string{"RS256"},
	}
	maps.Copy(document, i.discovery)
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(document)
}

// authorize is the person who logs in at the address that the browser was sent to.
func (i *issuer) authorize(t *testing.T, location string) (code, state string) {
	t.Helper()
	u, err := url.Parse(location)
	if err != nil || !strings.HasPrefix(location, i.URL+"/authorize?") {
		t.Fatalf("got location %q, %v", location, err)
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	code = "code-" + u.Query().Get("nonce")
	i.codes[code] = u.Query()
	return code, u.Query().Get("state")
}

func (i *issuer) token(w http.ResponseWriter, r *http.Request) {
	i.mu.Lock()
	defer i.mu.Unlock()
	query, ok := i.codes[r.FormValue("code")]
	delete(i.codes, r.FormValue("code"))
	sum := sha256.Sum256([]byte(r.FormValue("code_verifier")))
	id, secret, _ := r.BasicAuth()
	w.Header().Set("Content-Type", "application/json")
	if !ok || id != clientID || secret != clientSecret || r.FormValue("redirect_uri") != query.Get("redirect_uri") ||
		base64.RawURLEncoding.EncodeToString(sum[:]) != query.Get("code_challenge") || query.Get("code_challenge_method") != "S256" {
		w.WriteHeader(http.StatusBadRequest)
		_, _ = io.WriteString(w, `{"error":"invalid_grant"}`)
		return
	}
	claims := map[string]any{
		"iss": i.URL, "aud": clientID, "sub": "ann", "nonce": query.Get("nonce"),
		"exp": i.clock.Now().Add(time.Hour).Unix(), "iat": i.clock.Now().Unix(),
	}
	maps.Copy(claims, i.claims)
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.RS256, Key: jose.JSONWebKey{Key: i.key, KeyID: "1"}}, nil)
	if err != nil {
		panic(err)
	}
	token, err := jwt.Signed(signer).Claims(claims).Serialize()
	if err != nil {
		panic(err)
	}
	i.issued = append(i.issued, token)
	_ = json.NewEncoder(w).Encode(map[string]any{"access_token": "a", "token_type": "Bearer", "id_token": token})
}

func newOIDC(t *testing.T, change ...func(*auth.Options)) (*world, *issuer) {
	c := &clock{now: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}
	i := newIssuer(t, c)
	roots := x509.NewCertPool()
	roots.AddCert(i.Certificate())
	w := newWorld(t, append([]func(*auth.Options){func(o *auth.Options) {
		o.Now = c.Now
		o.OIDC = &auth.OIDCOptions{
			Name: "Example", IssuerURL: i.URL, ClientID: clientID, ClientSecret: clientSecret, RedirectURL: callback, RootCAs: roots,
		}
	}}, change...)...)
	w.clock = c
	return w, i
}

// begin sends a browser to the issuer and returns the address there and the cookie that it got.
func (w *world) begin(t *testing.T, next string, headers ...string) (location, state string) {
	t.Helper()
	answer := w.send(request(http.MethodGet, "/auth/login?next="+url.QueryEscape(next), "", headers...))
	wantStatus(t, answer, http.StatusSeeOther)
	return answer.Header.Get("Location"), cookieOf(t, answer, stateCookie)
}

func (w *world) back(code, state string, headers ...string) *reply {
	query := url.Values{"code": {code}, "state": {state}}
	headers = append(headers, "Sec-Fetch-Site: cross-site")
	return w.send(request(http.MethodGet, "/auth/callback?"+query.Encode(), "", headers...))
}

func TestOIDCLogin(t *testing.T) {
	w, i := newOIDC(t)
	location, state := w.begin(t, "/fleet?state=Failed")
	code, param := i.authorize(t, location)
	w.trust(i)
	answer := w.back(code, param, state)
	wantStatus(t, answer, 200)
	body, _ := io.ReadAll(answer.Body)
	if !strings.Contains(string(body), `content="0; url=/fleet?state=Failed"`) || strings.Contains(string(body), "<script") {
		t.Errorf("got %s", body)
	}
	if got := answer.Header.Get("Referrer-Policy"); got != "no-referrer" {
		t.Errorf("got Referrer-Policy %q", got)
	}
	wantStatus(t, w.get(cookieOf(t, answer, cookie)), 200)
	if w.person.Name != "ann" || w.person.Token() != i.issued[0] {
		t.Errorf("got %s", w.person)
	}
	if strings.Contains(string(body)+w.logged.String(), i.issued[0]) {
		t.Error("the token was shown")
	}
	// Replayed by somebody who has seen the address, and even the cookie.
	wantProblem(t, w.back(code, param, state), 400)
	wantProblem(t, w.back(code, param), 400)
}

// trust has the API server know whoever the issuer has made a token for.
func (w *world) trust(i *issuer) { w.reviews.SetIssuer(i.URL, ann) }

func TestOIDCRequest(t *testing.T) {
	w, i := newOIDC(t)
	first, cookie1 := w.begin(t, "/")
	second, cookie2 := w.begin(t, "/")
	u, _ := url.Parse(first)
	v, _ := url.Parse(second)
	got, other := u.Query(), v.Query()
	for _, name := range []string{"state", "nonce", "code_challenge"} {
		if len(got.Get(name)) != 43 || got.Get(name) == other.Get(name) {
			t.Errorf("%s: got %q and %q", name, got.Get(name), other.Get(name))
		}
		got.Del(name)
	}
	if diff := cmp.Diff(url.Values{
		"client_id": {clientID}, "redirect_uri": {callback}, "response_type": {"code"}, "scope": {"openid profile email"},
		"code_challenge_method": {"S256"},
	}, got); diff != "" {
		t.Error(diff)
	}
	if cookie1 == cookie2 || strings.Contains(first, strings.TrimPrefix(cookie1, "Cookie: "+stateCookie+"=")) {
		t.Error("the cookie can be guessed")
	}
	answer := w.send(request(http.MethodGet, "/auth/login", ""))
	_, attributes, _ := strings.Cut(answer.Header.Get("Set-Cookie"), "; ")
	if attributes != "Path=/; Max-Age=600; HttpOnly; Secure; SameSite=Lax" {
		t.Errorf("got cookie %q", attributes)
	}
	answer = w.send(request(http.MethodGet, "/api/v1/login-methods", ""))
	body, _ := io.ReadAll(answer.Body)
	if got := strings.TrimSpace(string(body)); got != `{"token":true,"oidc":true,"oidcName":"Example"}` || i.URL == "" {
		t.Errorf("got %s", got)
	}
}

func TestRefusedOIDCLogin(t *testing.T) {
	other, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		change func(w *world, i *issuer)
		send   func(w *world, code, state, cookie string) *reply
		want   int
		// elsewhere says that the browser which has begun the login sends nothing.
		elsewhere bool
	}{
		"wrong state":     {send: func(w *world, code, _, cookie string) *reply { return w.back(code, "x", cookie) }, want: 400},
		"no state":        {send: func(w *world, code, _, cookie string) *reply { return w.back(code, "", cookie) }, want: 400},
		"another browser": {send: func(w *world, code, state, _ string) *reply { return w.back(code, state) }, want: 400, elsewhere: true},
		"planted cookie": {send: func(w *world, code, state, _ string) *reply {
			return w.back(code, state, "Cookie: "+stateCookie+"="+state)
		}, want: 400, elsewhere: true},
		"too old": {send: func(w *world, code, state, cookie string) *reply {
			w.clock.advance(10 * time.Minute)
			return w.back(code, state, cookie)
		}, want: 400},
		"answer of another issuer": {send: func(w *world, code, state, cookie string) *reply {
			return w.send(request(http.MethodGet, "/auth/callback?iss=https://evil.example&code="+code+"&state="+state, "", cookie))
		}, want: 400},
		"refused by the issuer": {send: func(w *world, _, state, cookie string) *reply {
			return w.send(request(http.MethodGet, "/auth/callback?error=access_denied&error_description=hostile&state="+state, "", cookie))
		}, want: 403},
		"no code":       {send: func(w *world, _, state, cookie string) *reply { return w.back("", state, cookie) }, want: 403},
		"unknown code":  {send: func(w *world, _, state, cookie string) *reply { return w.back("x", state, cookie) }, want: 403},
		"replayed code": {change: func(_ *world, i *issuer) { i.codes = map[string]url.Values{} }, want: 403},
		"code for another challenge": {change: func(_ *world, i *issuer) {
			for _, q := range i.codes {
				q.Set("code_challenge", "x")
			}
		}, want: 403},
		"wrong nonce":               {change: func(_ *world, i *issuer) { i.claims["nonce"] = "x" }, want: 403},
		"no nonce":                  {change: func(_ *world, i *issuer) { i.claims["nonce"] = "" }, want: 403},
		"expired":                   {change: func(w *world, i *issuer) { i.claims["exp"] = w.clock.Now().Add(-time.Second).Unix() }, want: 403},
		"wrong audience":            {change: func(_ *world, i *issuer) { i.claims["aud"] = "another" }, want: 403},
		"wrong issuer":              {change: func(_ *world, i *issuer) { i.claims["iss"] = "https://evil.example" }, want: 403},
		"signed by another":         {change: func(_ *world, i *issuer) { i.key = other }, want: 403},
		"refused by the API server": {change: func(w *world, _ *issuer) { w.reviews.SetIssuer("", ann) }, want: 403},
		"API server fails":          {change: func(w *world, _ *issuer) { w.reviews.SetErr(errBroken) }, want: 503},
		"API server hangs":          {change: func(w *world, _ *issuer) { w.reviews.SetHang(true) }, want: 503},
	} {
		t.Run(name, func(t *testing.T) {
			w, i := newOIDC(t)
			w.trust(i)
			location, cookieHeader := w.begin(t, "/")
			code, state := i.authorize(t, location)
			if c.change != nil {
				c.change(w, i)
			}
			if c.send == nil {
				c.send = func(w *world, code, state, cookie string) *reply { return w.back(code, state, cookie) }
			}
			answer := c.send(w, code, state, cookieHeader)
			wantProblem(t, answer, c.want)
			for _, set := range answer.Cookies {
				if set.Name == cookie || set.Value != "" {
					t.Errorf("got cookie %s", set)
				}
			}
			// Whatever was wrong, this browser has no second attempt.
			i.claims, i.key = map[string]any{}, signingKey()
			if !c.elsewhere {
				wantStatus(t, w.back(code, state, cookieHeader), 400)
			}
			for _, token := range i.issued {
				if strings.Contains(w.logged.String(), token) {
					t.Error("a token was logged")
				}
			}
		})
	}
}

func TestUnusableIssuer(t *testing.T) {
	for name, change := range map[string]func(*issuer){
		"down":            func(i *issuer) { i.down = true },
		"of another name": func(i *issuer) { i.discovery["issuer"] = "https://evil.example" },
		"token not https": func(i *issuer) { i.discovery["token_endpoint"] = "http://evil.example" },
		"login not https": func(i *issuer) { i.discovery["authorization_endpoint"] = "javascript:alert(1)" },
		"keys not https":  func(i *issuer) { i.discovery["jwks_uri"] = "http://evil.example" },
	} {
		t.Run(name, func(t *testing.T) {
			w, i := newOIDC(t)
			change(i)
			wantProblem(t, w.send(request(http.MethodGet, "/auth/login", "")), 503)
			i.down, i.discovery = false, map[string]any{}
			wantStatus(t, w.send(request(http.MethodGet, "/auth/login", "")), 303)
			// Known from now on.
			i.down = true
			wantStatus(t, w.send(request(http.MethodGet, "/auth/login", "")), 303)
		})
	}
}

func TestNextIsOfThisOrigin(t *testing.T) {
	for next, want := range map[string]string{
		"":                              "/",
		"/":                             "/",
		"/fleet":                        "/fleet",
		"/fleet?a=b&c=%2F#d":            "/fleet?a=b&c=%2F#d",
		"/a%20b/ü":                      "/a%20b/%C3%BC",
		`/"><script>alert(1)</script>`:  "/%22%3E%3Cscript%3Ealert%281%29%3C/script%3E",
		"/'x":                           "/'x",
		"https://evil.example":          "/",
		"//evil.example":                "/",
		"///evil.example":               "/",
		`/\evil.example`:                "/",
		`\\evil.example`:                "/",
		"/%5cevil.example":              "/",
		"/%2fevil.example":              "/",
		"/\tevil":                       "/",
		"/\n/evil.example":              "/",
		" //evil.example":               "/",
		"javascript:alert(1)":           "/",
		"data:text/html,x":              "/",
		"evil.example":                  "/",
		"?x":                            "/",
		"/a//b":                         "/",
		"/auth/login":                   "/",
		"/api/v1/logout":                "/",
		"/" + strings.Repeat("x", 2000): "/",
	} {
		w, i := newOIDC(t)
		w.trust(i)
		location, state := w.begin(t, next)
		code, param := i.authorize(t, location)
		answer := w.back(code, param, state)
		wantStatus(t, answer, 200)
		body, _ := io.ReadAll(answer.Body)
		_, after, _ := strings.Cut(string(body), `content="0; url=`)
		refresh, _, _ := strings.Cut(after, `"`)
		if got := html.UnescapeString(refresh); got != want {
			t.Errorf("%q: got %q, want %q", next, got, want)
		}
		if strings.Contains(string(body), "<script") {
			t.Errorf("%q: got %s", next, body)
		}
	}
}

func TestOIDCSession(t *testing.T) {
	w, i := newOIDC(t)
	w.trust(i)
	old := w.login(t, annToken)
	location, state := w.begin(t, "/", old)
	code, param := i.authorize(t, location)
	session := cookieOf(t, w.back(code, param, state), cookie)
	wantStatus(t, w.get(old), 401)
	w.clock.advance(30 * time.Minute)
	wantStatus(t, w.get(session), 200)
	w.clock.advance(30 * time.Minute)
	wantStatus(t, w.get(session), 401)
}

func TestBrowsersGetPages(t *testing.T) {
	w, _ := newOIDC(t)
	answer := w.send(request(http.MethodGet, "/auth/callback?code=x&state=<b>", "", "Accept: text/html,*/*;q=0.8"))
	wantStatus(t, answer, 400)
	body, _ := io.ReadAll(answer.Body)
	if got := answer.Header.Get("Content-Type"); got != "text/html; charset=utf-8" || !strings.Contains(string(body), "Log in again.") ||
		strings.Contains(string(body), "http-equiv") || strings.Contains(string(body), "<b>") {
		t.Errorf("got %s: %s", got, body)
	}
}

func TestFloodOfOIDCLogins(t *testing.T) {
	w, _ := newOIDC(t, func(o *auth.Options) { o.Logins = auth.Rate{PerSecond: 1, Burst: 2} })
	for _, target := range []string{"/auth/login", "/auth/callback"} {
		wantStatus(t, w.send(request(http.MethodGet, target, "")), map[string]int{"/auth/login": 303, "/auth/callback": 400}[target])
	}
	for _, target := range []string{"/auth/login", "/auth/callback"} {
		wantProblem(t, w.send(request(http.MethodGet, target, "")), 429)
	}
}
