package auth

import (
	"context"
	"net/http"
	"strings"
	"time"
)

const (
	cookieName = "__Host-minifleet"
	// maxToken bounds tokens in bytes; those of service accounts have about 1,000.
	maxToken = 16 << 10
	// recheckAge is how old a TokenReview may be for an open stream. An API server may itself believe a token for 10 s
	// longer than it is valid.
	recheckAge = 2 * time.Second
)

// session is what the server has behind a cookie.
type session struct {
	token   func() string
	account string // whose token it was at login
}

// Authenticate lets requests through that have a bearer token, or the cookie of a session; From then has the person.
// Others get 401, or 503 if the API server does not answer. A request with a bearer token does not use its cookie.
func (a *Auth) Authenticate(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p, refused := a.person(r)
		if refused != nil {
			refused.write(w)
			return
		}
		if wait := a.people.wait(p.identity().account()); wait > 0 {
			tooMany(wait).write(w)
			return
		}
		next.ServeHTTP(w, r.WithContext(NewContext(r.Context(), p)))
	})
}

func (a *Auth) person(r *http.Request) (*Person, *problem) {
	if headers := r.Header.Values("Authorization"); len(headers) > 0 {
		token, ok := bearerToken(headers)
		if !ok {
			return nil, &unauthorized
		}
		return a.bearer(r, token)
	}
	key, ok := cookieKey(r, cookieName)
	if !ok {
		return nil, &unauthorized
	}
	p, err := a.resume(r.Context(), key, a.options.ReviewTTL)
	if err != nil {
		refused := problemOf(err)
		return nil, &refused
	}
	return p, nil
}

func bearerToken(headers []string) (string, bool) {
	if len(headers) != 1 {
		return "", false
	}
	scheme, token, _ := strings.Cut(headers[0], " ")
	token = strings.TrimSpace(token)
	return token, strings.EqualFold(scheme, "Bearer") && isToken(token)
}

// isToken says whether a text can be a token at all.
func isToken(s string) bool {
	if s == "" || len(s) > maxToken {
		return false
	}
	for i := range len(s) {
		if s[i] <= ' ' || s[i] > '~' {
			return false
		}
	}
	return true
}

func (a *Auth) bearer(r *http.Request, token string) (*Person, *problem) {
	if wait := a.waitForReview(r, token); wait > 0 {
		refused := tooMany(wait)
		return nil, &refused
	}
	v, err := a.identify(r.Context(), token, a.options.ReviewTTL)
	if err != nil {
		refused := problemOf(err)
		return nil, &refused
	}
	return v.who.person(token, v.expires, nil), nil
}

// waitForReview holds up an address that has the API server asked about ever new tokens; those that were valid when last
// asked about do not count.
func (a *Auth) waitForReview(r *http.Request, token string) time.Duration {
	v, age, ok := a.tokens.last(digestOf(token))
	if ok && (v != nil || age < a.options.ReviewTTL) {
		return 0
	}
	return a.logins.wait(a.address(r))
}

func (a *Auth) address(r *http.Request) string { return address(r, a.options.TrustedProxies) }

// resume returns who has the session under a key. A session ends when its token is no longer that of the same user; the
// user's groups may change.
func (a *Auth) resume(ctx context.Context, key digest, within time.Duration) (*Person, error) {
	s, ok := a.sessions.use(key)
	if !ok {
		return nil, ErrUnauthenticated
	}
	token := s.token()
	v, err := a.identify(ctx, token, within)
	if err == nil && v.who.account() != s.account {
		err = ErrUnauthenticated
	}
	if err != nil {
		if problemOf(err).Status == http.StatusUnauthorized {
			a.sessions.end(key)
		}
		return nil, err
	}
	return v.who.person(token, v.expires, &key), nil
}

// Recheck says whether a person is still who they were when Authenticate let them in: the token valid and of the same
// user and groups, the session not ended, for which this counts as use. With any error what is open for them ends:
// ErrUnauthenticated or ErrUnavailable. Rights are asked about with Allowed and Scope. Called every 15 s by each stream, both
// end streams within 30 s.
func (a *Auth) Recheck(ctx context.Context, p *Person) error {
	if p.Token() == "" {
		return ErrUnauthenticated
	}
	if p.session != nil {
		now, err := a.resume(ctx, *p.session, recheckAge)
		if err == nil && now.identity().key() != p.identity().key() {
			err = ErrUnauthenticated
		}
		return err
	}
	v, err := a.identify(ctx, p.Token(), recheckAge)
	if err == nil && v.key != p.identity().key() {
		err = ErrUnauthenticated
	}
	return err
}

// cookieKey returns under which key the server has what belongs to a cookie.
func cookieKey(r *http.Request, name string) (digest, bool) {
	cookies := r.CookiesNamed(name)
	if len(cookies) != 1 || cookies[0].Value == "" {
		return digest{}, false
	}
	return digestOf(cookies[0].Value), true
}

// sessionCookie has the id of a session; an empty one is removed.
func sessionCookie(id string) *http.Cookie {
	return &http.Cookie{
		Name: cookieName, Value: id, Path: "/", MaxAge: removal(id), Secure: true, HttpOnly: true,
		SameSite: http.SameSiteStrictMode,
	}
}

func removal(id string) int {
	if id == "" {
		return -1
	}
	return 0 // until the browser ends; the server knows when the session does
}
