package auth

import (
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"time"
)

// Routes adds to the mux what needs no login. It belongs behind Protect.
//
//	POST /api/v1/login         {"token": "..."}; answers {"name": "..."} and sets the cookie
//	POST /api/v1/logout        ends the session of the cookie; 204 also if there is none
//	GET  /api/v1/login-methods {"token": true, "oidc": true, "oidcName": "..."}
//	GET  /auth/login?next=/... to the issuer, and from there by
//	GET  /auth/callback        to next
func (a *Auth) Routes(mux *http.ServeMux) {
	mux.HandleFunc("POST /api/v1/login", a.login)
	mux.HandleFunc("POST /api/v1/logout", a.logout)
	mux.HandleFunc("GET /api/v1/login-methods", a.loginMethods)
	mux.HandleFunc("GET /auth/login", a.oidcLogin)
	mux.HandleFunc("GET /auth/callback", a.oidcCallback)
}

// LoginMethods is the answer of GET /api/v1/login-methods.
type LoginMethods struct {
	Token    bool   `json:"token"`
	OIDC     bool   `json:"oidc"`
	OIDCName string `json:"oidcName"`
}

// LoginRequest is the body of POST /api/v1/login.
type LoginRequest struct {
	Token string `json:"token"`
}

// LoginAnswer is the answer of POST /api/v1/login.
type LoginAnswer struct {
	Name string `json:"name"`
	// Expires is when the session ends at the latest.
	Expires time.Time `json:"expires"`
}

func (a *Auth) loginMethods(w http.ResponseWriter, _ *http.Request) {
	methods := LoginMethods{Token: true}
	if a.oidc != nil {
		methods.OIDC, methods.OIDCName = true, a.oidc.options.Name
	}
	writeJSON(w, http.StatusOK, "application/json", methods)
}

func (a *Auth) login(w http.ResponseWriter, r *http.Request) {
	if wait := a.logins.wait(a.address(r)); wait > 0 {
		tooMany(wait).write(w)
		return
	}
	var request LoginRequest
	if err := json.NewDecoder(r.Body).Decode(&request); err != nil {
		refused := malformed
		if large := new(http.MaxBytesError); errors.As(err, &large) {
			refused = tooLarge
		}
		refused.write(w)
		return
	}
	token := strings.TrimSpace(request.Token)
	if !isToken(token) {
		unauthorized.write(w)
		return
	}
	v, err := a.identify(r.Context(), token, a.options.ReviewTTL)
	if err != nil {
		problemOf(err).write(w)
		return
	}
	previous, _ := cookieKey(r, cookieName)
	expires, ok := a.begin(w, v, token, time.Time{}, previous)
	if ok {
		writeJSON(w, http.StatusOK, "application/json", LoginAnswer{Name: v.who.Name, Expires: expires})
	}
}

// begin starts a session under a new id, sets its cookie, and ends the one that the browser had. If it cannot, it answers.
func (a *Auth) begin(w http.ResponseWriter, v *verdict, token string, until time.Time, previous digest) (time.Time, bool) {
	expires := earliest(a.options.Now().Add(a.options.SessionLifetime), earliest(v.expires, until))
	account := v.who.account()
	id, err := a.sessions.add(session{token: func() string { return token }, account: account}, account, expires)
	if err != nil {
		a.options.Log.Error(err, "No session can be started")
		internalError.write(w)
		return time.Time{}, false
	}
	a.sessions.end(previous)
	http.SetCookie(w, sessionCookie(id))
	return expires, true
}

func (a *Auth) logout(w http.ResponseWriter, r *http.Request) {
	if key, ok := cookieKey(r, cookieName); ok {
		a.sessions.end(key)
	}
	http.SetCookie(w, sessionCookie(""))
	w.WriteHeader(http.StatusNoContent)
}
