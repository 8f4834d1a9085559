package auth_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/minifleet/minifleet/dashboard/auth"
)

func TestSecurityHeaders(t *testing.T) {
	w := newWorld(t)
	want := http.Header{
		"Content-Security-Policy": {"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; " +
			"connect-src 'self'; font-src 'none'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'; " +
			"require-trusted-types-for 'script'; trusted-types 'none'"},
		"Cross-Origin-Opener-Policy":   {"same-origin"},
		"Cross-Origin-Resource-Policy": {"same-origin"},
		"Permissions-Policy":           {"camera=(), display-capture=(), geolocation=(), microphone=(), payment=(), usb=()"},
		"Referrer-Policy":              {"same-origin"},
		"X-Content-Type-Options":       {"nosniff"},
		"X-Frame-Options":              {"DENY"},
	}
	for target, stored := range map[string]bool{
		"/": true, "/assets/a.js": true, "/apis": true, "/api/v1/summary": false, "/api/v1/login-methods": false,
		"/auth/login": false, "/api": false, "//api/v1/summary": false,
	} {
		got := w.send(request(http.MethodGet, "http://host"+target, "")).Header
		if noStore := got.Get("Cache-Control") == "no-store"; noStore == stored {
			t.Errorf("%s: got Cache-Control %q", target, got.Get("Cache-Control"))
		}
		for _, name := range []string{"Cache-Control", "Content-Type", "Www-Authenticate", "Location"} {
			got.Del(name)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: %s", target, diff)
		}
	}
}

func TestUnsafeRequests(t *testing.T) {
	for name, c := range map[string]struct {
		method, body string
		headers      []string
		want         int
	}{
		"JSON":                      {http.MethodPost, "{}", []string{"Content-Type: application/json"}, 200},
		"JSON in UTF-8":             {http.MethodPost, "{}", []string{"Content-Type: Application/JSON; charset=UTF-8"}, 200},
		"a JSON patch":              {http.MethodPatch, "{}", []string{"Content-Type: application/merge-patch+json"}, 200},
		"no body":                   {http.MethodPost, "", nil, 200},
		"of this origin":            {http.MethodPost, "", []string{"Sec-Fetch-Site: same-origin"}, 200},
		"typed by the person":       {http.MethodGet, "", []string{"Sec-Fetch-Site: none"}, 200},
		"link of another site":      {http.MethodGet, "", []string{"Sec-Fetch-Site: cross-site"}, 200},
		"JSON in another charset":   {http.MethodPost, "{}", []string{"Content-Type: application/json; charset=utf-7"}, 415},
		"text":                      {http.MethodPost, "{}", []string{"Content-Type: text/plain"}, 415},
		"text that contains JSON":   {http.MethodPost, "{}", []string{"Content-Type: text/plain; a=application/json"}, 415},
		"form without a body":       {http.MethodPost, "", []string{"Content-Type: application/x-www-form-urlencoded"}, 415},
		"multipart":                 {http.MethodPut, "{}", []string{"Content-Type: multipart/form-data"}, 415},
		"malformed type":            {http.MethodDelete, "{}", []string{"Content-Type: ;"}, 415},
		"no type":                   {http.MethodPost, "{}", nil, 415},
		"POST of another site":      {http.MethodPost, "", []string{"Sec-Fetch-Site: cross-site"}, 403},
		"DELETE of another site":    {http.MethodDelete, "", []string{"Sec-Fetch-Site: cross-site"}, 403},
		"POST of another subdomain": {http.MethodPost, "", []string{"Sec-Fetch-Site: same-site"}, 403},
		"POST of another origin":    {http.MethodPost, "", []string{"Origin: https://example.org"}, 403},
		"too large":                 {http.MethodPost, strings.Repeat("x", 1<<20+1), []string{"Content-Type: application/json"}, 413},
		"as large as can be":        {http.MethodPost, strings.Repeat("x", 1<<20), []string{"Content-Type: application/json"}, 200},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			answer := w.send(request(c.method, "/api/v1/sync", c.body, append(c.headers, bearer(annToken))...))
			if c.want == http.StatusOK {
				wantStatus(t, answer, c.want)
				return
			}
			wantProblem(t, answer, c.want)
			if w.handled != 0 {
				t.Error("the handler was asked")
			}
		})
	}
}

func TestFlood(t *testing.T) {
	rate := auth.Rate{PerSecond: 1, Burst: 3}
	for name, c := range map[string]struct {
		change func(*auth.Options)
		send   func(w *world, i int) *reply
		want   int
	}{
		"requests of an address": {
			func(o *auth.Options) { o.Requests = rate },
			func(w *world, _ int) *reply { return w.send(request(http.MethodGet, "/", "")) }, 200,
		},
		"requests of a person from everywhere": {
			func(o *auth.Options) { o.PersonRequests = rate },
			func(w *world, i int) *reply {
				return w.sendFrom(fmt.Sprintf("192.0.2.%d:1", i), bearer(annToken))
			}, 200,
		},
		"attempts to log in": {
			func(o *auth.Options) { o.Logins = rate },
			func(w *world, i int) *reply { return w.sendLogin(fmt.Sprint("wrong-", i)) }, 401,
		},
		"ever new tokens": {
			func(o *auth.Options) { o.Logins = rate },
			func(w *world, i int) *reply { return w.get(bearer(fmt.Sprint("wrong-", i))) }, 401,
		},
		"one IPv6 network": {
			func(o *auth.Options) { o.Requests = rate },
			func(w *world, i int) *reply {
				return w.sendFrom(fmt.Sprintf("[2001:db8::%d]:1", i), bearer(annToken))
			}, 200,
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, c.change)
			for i := range 3 {
				wantStatus(t, c.send(w, i), c.want)
			}
			for i := range 3 {
				answer := c.send(w, 3+i)
				wantProblem(t, answer, 429)
				if got := answer.Header.Get("Retry-After"); got != "1" {
					t.Errorf("got Retry-After %q", got)
				}
			}
			w.clock.advance(time.Second)
			wantStatus(t, c.send(w, 6), c.want)
			wantStatus(t, c.send(w, 7), 429)
		})
	}
}

func (w *world) sendFrom(remote string, headers ...string) *reply {
	r := request(http.MethodGet, "/api/v1/summary", "", headers...)
	r.RemoteAddr = remote
	return w.send(r)
}

func TestFloodOfTokensDoesNotStopKnownOnes(t *testing.T) {
	w := newWorld(t, func(o *auth.Options) { o.Logins = auth.Rate{PerSecond: 0.001, Burst: 5} })
	session := w.login(t, annToken)
	wantStatus(t, w.get(bearer(bobToken)), 200)
	w.clock.advance(time.Minute)
	before := w.reviews.TokenReviews()
	for i := range 50 {
		w.get(bearer(fmt.Sprint("wrong-", i)))
	}
	if got := w.reviews.TokenReviews() - before; got > 5 {
		t.Errorf("the API server got %d reviews", got)
	}
	wantStatus(t, w.get(session), 200)
	wantStatus(t, w.get(bearer(bobToken)), 200)
}

func TestAddresses(t *testing.T) {
	for name, c := range map[string]struct {
		first, second   string // address, X-Forwarded-For
		share           bool
		firstF, secondF string
	}{
		"same address, other port":       {first: "192.0.2.1:1", second: "192.0.2.1:2", share: true},
		"other address":                  {first: "192.0.2.1:1", second: "192.0.2.2:1"},
		"IPv4 in IPv6":                   {first: "192.0.2.1:1", second: "[::ffff:192.0.2.1]:1", share: true},
		"other IPv6 network":             {first: "[2001:db8::1]:1", second: "[2001:db8:0:1::1]:1"},
		"claims of anybody":              {first: "192.0.2.1:1", firstF: "198.51.100.1", second: "192.0.2.1:1", secondF: "198.51.100.2", share: true},
		"claims of a proxy":              {first: "10.0.0.1:1", firstF: "198.51.100.1", second: "10.0.0.1:1", secondF: "198.51.100.2"},
		"same through two proxies":       {first: "10.0.0.1:1", firstF: "198.51.100.1", second: "10.0.0.2:1", secondF: "198.51.100.1", share: true},
		"chain of proxies":               {first: "10.0.0.1:1", firstF: "198.51.100.1, 10.0.0.9", second: "10.0.0.1:1", secondF: "198.51.100.1", share: true},
		"claims before those of a proxy": {first: "10.0.0.1:1", firstF: "1.1.1.1, 198.51.100.1", second: "10.0.0.1:1", secondF: "2.2.2.2, 198.51.100.1", share: true},
		"nonsense from a proxy":          {first: "10.0.0.1:1", firstF: "x", second: "10.0.0.1:1", secondF: "y", share: true},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, func(o *auth.Options) {
				o.Requests = auth.Rate{PerSecond: 1, Burst: 1}
				o.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}
			})
			wantStatus(t, w.sendFrom(c.first, bearer(annToken), "X-Forwarded-For: "+c.firstF), 200)
			want := 200
			if c.share {
				want = 429
			}
			wantStatus(t, w.sendFrom(c.second, bearer(annToken), "X-Forwarded-For: "+c.secondF), want)
		})
	}
}

func TestPanics(t *testing.T) {
	const secret = "secret-in-a-panic"
	for name, c := range map[string]struct {
		handle func(http.ResponseWriter)
		aborts bool
		logs   string
	}{
		"with text":        {handle: func(http.ResponseWriter) { panic(secret) }, logs: "string"},
		"with an error":    {handle: func(http.ResponseWriter) { panic(errors.New(secret)) }, logs: "errorString"},
		"of the runtime":   {handle: func(http.ResponseWriter) { nilMap()["a"] = 1 }, logs: "nil map"},
		"within an answer": {handle: func(w http.ResponseWriter) { _, _ = w.Write([]byte("x")); panic(secret) }, aborts: true, logs: "string"},
		"to abort":         {handle: func(http.ResponseWriter) { panic(http.ErrAbortHandler) }, aborts: true},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.handler = w.Protect(http.HandlerFunc(func(answer http.ResponseWriter, _ *http.Request) { c.handle(answer) }))
			defer func() {
				if got := recover(); (got == any(http.ErrAbortHandler)) != c.aborts || !c.aborts && got != nil {
					t.Errorf("got panic %v", got)
				}
				if got := w.logged.String(); strings.Contains(got, secret) || !strings.Contains(got, c.logs) || (got == "") != (c.logs == "") {
					t.Errorf("logged %s", got)
				}
			}()
			wantProblem(t, w.send(request(http.MethodGet, "/", "")), 500)
		})
	}
}

func nilMap() map[string]int { return nil }

func TestStreamsFlush(t *testing.T) {
	w := newWorld(t)
	w.handler = w.Protect(http.HandlerFunc(func(answer http.ResponseWriter, _ *http.Request) {
		if _, ok := answer.(http.Flusher); !ok {
			t.Error("no Flusher")
		}
		if err := http.NewResponseController(answer).Flush(); err != nil {
			t.Error(err)
		}
	}))
	answer := httptest.NewRecorder()
	w.handler.ServeHTTP(answer, request(http.MethodGet, "/", ""))
	if !answer.Flushed {
		t.Error("not flushed")
	}
}
