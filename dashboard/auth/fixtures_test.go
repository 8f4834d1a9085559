package auth_test

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	authenticationv1 "k8s.io/api/authentication/v1"

	"github.com/minifleet/minifleet/dashboard/auth"
	"github.com/minifleet/minifleet/dashboard/auth/authtest"
)

const (
	annToken = "token-of-ann"
	bobToken = "token-of-bob"
	cookie   = "__Host-minifleet"
)

var (
	ann = authenticationv1.UserInfo{
		Username: "ann", UID: "1", Groups: []string{"dev", "system:authenticated"},
		Extra: map[string]authenticationv1.ExtraValue{"scopes": {"all"}},
	}
	bob = authenticationv1.UserInfo{Username: "bob", UID: "2"}
)

// clock is moved by tests.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// world is an Auth with what it asks, in front of a handler that says who asks.
type world struct {
	*auth.Auth
	reviews *authtest.Reviews
	clock   *clock
	handler http.Handler
	handled int
	person  *auth.Person
	logged  *strings.Builder
}

func newWorld(t *testing.T, change ...func(*auth.Options)) *world {
	t.Helper()
	w := &world{reviews: &authtest.Reviews{}, clock: &clock{now: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}, logged: &strings.Builder{}}
	w.reviews.SetUser(annToken, ann)
	w.reviews.SetUser(bobToken, bob)
	var mu sync.Mutex
	options := auth.Options{
		Reviews: w.reviews, Now: w.clock.Now, ReviewTimeout: 20 * time.Millisecond,
		Log: funcr.New(func(_, args string) {
			mu.Lock()
			defer mu.Unlock()
			w.logged.WriteString(args + "\n")
		}, funcr.Options{}),
	}
	for _, f := range change {
		f(&options)
	}
	a, err := auth.New(options)
	if err != nil {
		t.Fatal(err)
	}
	w.Auth = a
	mux := http.NewServeMux()
	a.Routes(mux)
	mux.Handle("/api/v1/", a.Authenticate(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		w.handled++
		w.person, _ = auth.From(r.Context())
	})))
	mux.HandleFunc("/", func(http.ResponseWriter, *http.Request) {})
	w.handler = a.Protect(mux)
	return w
}

// request is what a test sends; headers as "Name: value".
func request(method, target, body string, headers ...string) *http.Request {
	r := httptest.NewRequest(method, target, strings.NewReader(body))
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		r.Header.Add(name, value)
	}
	return r
}

// reply is what came back.
type reply struct {
	StatusCode int
	Header     http.Header
	Body       *bytes.Buffer
	Cookies    []*http.Cookie
}

func (w *world) send(r *http.Request) *reply {
	recorder := httptest.NewRecorder()
	w.handler.ServeHTTP(recorder, r)
	result := recorder.Result()
	defer func() { _ = result.Body.Close() }()
	return &reply{StatusCode: result.StatusCode, Header: result.Header, Body: recorder.Body, Cookies: result.Cookies()}
}

func (w *world) get(headers ...string) *reply {
	return w.send(request(http.MethodGet, "/api/v1/summary", "", headers...))
}

func bearer(token string) string { return "Authorization: Bearer " + token }

// login returns the Cookie header of a new session.
func (w *world) login(t *testing.T, token string, headers ...string) string {
	t.Helper()
	answer := w.sendLogin(token, headers...)
	wantStatus(t, answer, http.StatusOK)
	return cookieOf(t, answer, cookie)
}

func (w *world) sendLogin(token string, headers ...string) *reply {
	body, _ := json.Marshal(map[string]string{"token": token})
	headers = append(headers, "Content-Type: application/json", "Sec-Fetch-Site: same-origin")
	return w.send(request(http.MethodPost, "/api/v1/login", string(body), headers...))
}

func cookieOf(t *testing.T, answer *reply, name string) string {
	t.Helper()
	for _, c := range answer.Cookies {
		if c.Name == name && c.Value != "" {
			return "Cookie: " + c.Name + "=" + c.Value
		}
	}
	t.Fatalf("no cookie %s in %v", name, answer.Header)
	return ""
}

// wantProblem checks that an error is told as such.
func wantProblem(t *testing.T, answer *reply, status int) {
	t.Helper()
	wantStatus(t, answer, status)
	if got := answer.Header.Get("Content-Type"); got != "application/problem+json" {
		t.Errorf("got Content-Type %q", got)
	}
	var got struct {
		Title, Detail string
		Status        int
	}
	if err := json.NewDecoder(answer.Body).Decode(&got); err != nil || got.Status != status || got.Detail == "" || got.Title == "" {
		t.Errorf("got %+v, %v; want a problem of status %d", got, err, status)
	}
}

func wantStatus(t *testing.T, answer *reply, status int) {
	t.Helper()
	if answer.StatusCode != status {
		t.Errorf("got status %d, want %d", answer.StatusCode, status)
	}
}
