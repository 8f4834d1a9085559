package auth_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/minifleet/minifleet/dashboard/auth"
)

func TestLogin(t *testing.T) {
	w := newWorld(t)
	answer := w.sendLogin(" " + annToken + "\n")
	wantStatus(t, answer, 200)
	got := answer.Header.Get("Set-Cookie")
	name, attributes, _ := strings.Cut(got, "; ")
	if !strings.HasPrefix(name, cookie+"=") || len(name) != len(cookie)+1+43 || attributes != "Path=/; HttpOnly; Secure; SameSite=Strict" {
		t.Errorf("got cookie %q", got)
	}
	var body auth.LoginAnswer
	if err := json.NewDecoder(answer.Body).Decode(&body); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(auth.LoginAnswer{Name: "ann", Expires: w.clock.Now().Add(12 * time.Hour)}, body); diff != "" {
		t.Error(diff)
	}
	wantStatus(t, w.get(cookieOf(t, answer, cookie)), 200)
	if w.person.Name != "ann" || w.person.Token() != annToken {
		t.Errorf("got %s", w.person)
	}
}

func TestRefusedLogin(t *testing.T) {
	const sameOrigin, isJSON = "Sec-Fetch-Site: same-origin", "Content-Type: application/json"
	valid := `{"token":"` + annToken + `"}`
	for name, c := range map[string]struct {
		body    string
		headers []string
		err     error
		want    int
	}{
		"unknown token":       {body: `{"token":"other"}`, headers: []string{isJSON, sameOrigin}, want: 401},
		"no token":            {body: `{}`, headers: []string{isJSON, sameOrigin}, want: 401},
		"not JSON":            {body: `x`, headers: []string{isJSON, sameOrigin}, want: 400},
		"no body":             {headers: []string{isJSON, sameOrigin}, want: 400},
		"form":                {body: valid, headers: []string{"Content-Type: application/x-www-form-urlencoded", sameOrigin}, want: 415},
		"text":                {body: valid, headers: []string{"Content-Type: text/plain", sameOrigin}, want: 415},
		"no type":             {body: valid, headers: []string{sameOrigin}, want: 415},
		"another site":        {body: valid, headers: []string{isJSON, "Sec-Fetch-Site: cross-site"}, want: 403},
		"sibling of the site": {body: valid, headers: []string{isJSON, "Sec-Fetch-Site: same-site"}, want: 403},
		"old browser":         {body: valid, headers: []string{isJSON, "Origin: https://evil.example"}, want: 403},
		"sandboxed page":      {body: valid, headers: []string{isJSON, "Origin: null"}, want: 403},
		"too large":           {body: strings.Repeat(" ", 1<<20) + valid, headers: []string{isJSON, sameOrigin}, want: 413},
		"API server fails":    {body: valid, headers: []string{isJSON, sameOrigin}, err: errBroken, want: 503},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.reviews.SetErr(c.err)
			answer := w.send(request(http.MethodPost, "/api/v1/login", c.body, c.headers...))
			wantProblem(t, answer, c.want)
			if got := answer.Header.Get("Set-Cookie"); got != "" {
				t.Errorf("got a cookie: %s", got)
			}
		})
	}
}

func TestTooLargeWithoutLength(t *testing.T) {
	w := newWorld(t)
	r := request(http.MethodPost, "/api/v1/login", "", "Content-Type: application/json")
	r.Body, r.ContentLength = io.NopCloser(strings.NewReader(strings.Repeat(" ", 2<<20))), -1
	wantProblem(t, w.send(r), 413)
}

func TestLogout(t *testing.T) {
	w := newWorld(t)
	session, other := w.login(t, annToken), w.login(t, annToken)
	wantStatus(t, w.get(session), 200)
	p := w.person
	answer := w.send(request(http.MethodPost, "/api/v1/logout", "", session, "Sec-Fetch-Site: same-origin"))
	wantStatus(t, answer, 204)
	if got := answer.Header.Get("Set-Cookie"); !strings.HasPrefix(got, cookie+"=;") || !strings.Contains(got, "Max-Age=0") {
		t.Errorf("got cookie %q", got)
	}
	wantProblem(t, w.get(session), 401)
	if err := w.Recheck(t.Context(), p); err == nil {
		t.Error("an open stream goes on")
	}
	wantStatus(t, w.get(other), 200)
	wantStatus(t, w.send(request(http.MethodPost, "/api/v1/logout", "")), 204)
	wantProblem(t, w.send(request(http.MethodPost, "/api/v1/logout", "", other, "Sec-Fetch-Site: cross-site")), 403)
	wantStatus(t, w.get(other), 200)
}

func TestNewIDAtEachLogin(t *testing.T) {
	w := newWorld(t)
	planted := "Cookie: " + cookie + "=" + strings.Repeat("A", 43)
	first := w.login(t, annToken, planted)
	if first == planted {
		t.Error("the id of the browser was taken over")
	}
	second := w.login(t, annToken, first)
	if second == first {
		t.Error("the id stays the same")
	}
	wantProblem(t, w.get(planted), 401)
	wantProblem(t, w.get(first), 401)
	wantStatus(t, w.get(second), 200)
}

func TestSessionsEnd(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*world, string)
		want   int
	}{
		"in use": {func(w *world, s string) {
			for range 11 {
				w.clock.advance(59 * time.Minute)
				w.get(s)
			}
		}, 200},
		"in use for longer than its lifetime": {func(w *world, s string) {
			for range 13 {
				w.clock.advance(59 * time.Minute)
				w.get(s)
			}
		}, 401},
		"idle":                   {func(w *world, _ string) { w.clock.advance(time.Hour) }, 401},
		"token revoked":          {func(w *world, _ string) { w.reviews.Revoke(annToken); w.clock.advance(10 * time.Second) }, 401},
		"token of somebody else": {func(w *world, _ string) { w.reviews.SetUser(annToken, bob); w.clock.advance(10 * time.Second) }, 401},
		"token revoked for a while": {func(w *world, s string) {
			w.reviews.Revoke(annToken)
			w.clock.advance(10 * time.Second)
			w.get(s)
			w.reviews.SetUser(annToken, ann)
			w.clock.advance(10 * time.Second)
		}, 401},
		"API server down for a while": {func(w *world, s string) {
			w.reviews.SetErr(errBroken)
			w.clock.advance(10 * time.Second)
			w.get(s)
			w.reviews.SetErr(nil)
		}, 200},
		"in another group": {func(w *world, _ string) {
			user := ann
			user.Groups = []string{"ops"}
			w.reviews.SetUser(annToken, user)
			w.clock.advance(10 * time.Second)
		}, 200},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			session := w.login(t, annToken)
			c.change(w, session)
			wantStatus(t, w.get(session), c.want)
			if name == "in another group" && !cmp.Equal(w.person.Groups, []string{"ops"}) {
				t.Errorf("got groups %v", w.person.Groups)
			}
		})
	}
}

func TestOpenStreamKeepsTheSession(t *testing.T) {
	w := newWorld(t)
	session := w.login(t, annToken)
	wantStatus(t, w.get(session), 200)
	p := w.person
	for range 2 * 60 * 4 {
		w.clock.advance(15 * time.Second)
		if err := w.Recheck(t.Context(), p); err != nil {
			t.Fatal(err)
		}
	}
	wantStatus(t, w.get(session), 200)
}

func TestOldestSessionIsDropped(t *testing.T) {
	w := newWorld(t, func(o *auth.Options) { o.MaxSessions, o.MaxSessionsPerPerson = 3, 2 })
	anns := []string{w.login(t, annToken), w.login(t, annToken), w.login(t, annToken)}
	bobs := []string{w.login(t, bobToken), w.login(t, bobToken)}
	for name, c := range map[string]struct {
		session string
		want    int
	}{
		"third of one person ends the first": {anns[0], 401},
		"fourth in all ends the oldest":      {anns[1], 401},
		"newest of ann":                      {anns[2], 200},
		"first of bob":                       {bobs[0], 200},
		"second of bob":                      {bobs[1], 200},
	} {
		if got := w.get(c.session).StatusCode; got != c.want {
			t.Errorf("%s: got %d, want %d", name, got, c.want)
		}
	}
}

func TestNoRandomness(t *testing.T) {
	w := newWorld(t, func(o *auth.Options) { o.Rand = bytes.NewReader(nil) })
	wantProblem(t, w.sendLogin(annToken), 500)
}

func TestLoginMethods(t *testing.T) {
	w := newWorld(t)
	answer := w.send(request(http.MethodGet, "/api/v1/login-methods", ""))
	body, _ := io.ReadAll(answer.Body)
	if got, want := strings.TrimSpace(string(body)), `{"token":true,"oidc":false,"oidcName":""}`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	wantProblem(t, w.send(request(http.MethodGet, "/auth/login", "")), 404)
	wantProblem(t, w.send(request(http.MethodGet, "/auth/callback", "")), 404)
}
