package receiver

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"k8s.io/apimachinery/pkg/types"

	"github.com/minifleet/minifleet/api/v1alpha1"
)

const testToken = "0123456789abcdef0123456789abcdef"

var (
	noon   = time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)
	source = types.NamespacedName{Namespace: "physics", Name: "fleet"}
)

func repeat(s string, n int) string { return strings.Repeat(s, n) }

// told is what a server has told its sink.
type told struct {
	mu       sync.Mutex
	triggers []string
	pings    []string
}

func (s *told) Trigger(source types.NamespacedName, after time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.triggers = append(s.triggers, fmt.Sprintf("%s %s", source, after))
}

func (s *told) Ping(source types.NamespacedName, sender v1alpha1.ReceiverType) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pings = append(s.pings, fmt.Sprintf("%s %s", source, sender))
}

func (s *told) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.triggers)
}

// clock is moved by hand.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) move(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

func newServer(o Options) (*Server, *told, *clock) {
	at := &clock{now: noon}
	o.Now = at.Now
	if o.Log.GetSink() == nil {
		o.Log = logr.Discard()
	}
	s, sink := New(o), &told{}
	s.SetSink(sink)
	return s, sink, at
}

func register(t *testing.T, s *Server, h Hook) string {
	t.Helper()
	if h.Source.Name == "" {
		h.Source = source
	}
	if h.Token == nil {
		h.Token = []byte(testToken)
	}
	path, err := s.Register(h)
	if err != nil {
		t.Fatal(err)
	}
	return path
}

func sign(algorithm func() hash.Hash, token, body string) string {
	mac := hmac.New(algorithm, []byte(token))
	_, _ = io.WriteString(mac, body)
	return hex.EncodeToString(mac.Sum(nil))
}

// send posts a body with headers, given in turns with their values.
func send(s http.Handler, path, body string, headers ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodPost, path, strings.NewReader(body))
	for i := 0; i < len(headers); i += 2 {
		r.Header.Add(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	return w
}

func gitHub(body, event string) []string {
	return []string{"Content-Type", "application/json", "X-GitHub-Event", event, "X-Hub-Signature-256", "sha256=" + sign(sha256.New, testToken, body)}
}

func TestWhoIsBelieved(t *testing.T) {
	sum := sign(sha256.New, testToken, gitHubPush)
	wrong := sign(sha256.New, testToken+"x", gitHubPush)
	cases := map[string]struct {
		sender  v1alpha1.ReceiverType
		headers []string
		want    int
	}{
		"GitHub":                         {v1alpha1.ReceiverGitHub, []string{"X-Hub-Signature-256", "sha256=" + sum}, 202},
		"GitHub, upper case":             {v1alpha1.ReceiverGitHub, []string{"X-Hub-Signature-256", "sha256=" + strings.ToUpper(sum)}, 202},
		"GitHub, with that by SHA-1":     {v1alpha1.ReceiverGitHub, []string{"X-Hub-Signature", "sha1=" + sign(sha1.New, testToken, gitHubPush), "X-Hub-Signature-256", "sha256=" + sum}, 202},
		"GitHub, by SHA-1 alone":         {v1alpha1.ReceiverGitHub, []string{"X-Hub-Signature", "sha1=" + sign(sha1.New, testToken, gitHubPush)}, 401},
		"GitHub, by SHA-1, as if by 256": {v1alpha1.ReceiverGitHub, []string{"X-Hub-Signature-256", "sha1=" + sign(sha1.New, testToken, gitHubPush)}, 401},
		"GitHub, wrong":                  {v1alpha1.ReceiverGitHub, []string{"X-Hub-Signature-256", "sha256=" + wrong}, 401},
		"GitHub, none":                   {v1alpha1.ReceiverGitHub, nil, 401},
		"GitHub, empty":                  {v1alpha1.ReceiverGitHub, []string{"X-Hub-Signature-256", ""}, 401},
		"GitHub, no algorithm":           {v1alpha1.ReceiverGitHub, []string{"X-Hub-Signature-256", sum}, 401},
		"GitHub, another algorithm":      {v1alpha1.ReceiverGitHub, []string{"X-Hub-Signature-256", "md5=" + sum}, 401},
		"GitHub, cut off":                {v1alpha1.ReceiverGitHub, []string{"X-Hub-Signature-256", "sha256=" + sum[:62]}, 401},
		"GitHub, odd":                    {v1alpha1.ReceiverGitHub, []string{"X-Hub-Signature-256", "sha256=" + sum[:63]}, 401},
		"GitHub, longer":                 {v1alpha1.ReceiverGitHub, []string{"X-Hub-Signature-256", "sha256=" + sum + "00"}, 401},
		"GitHub, twice the same":         {v1alpha1.ReceiverGitHub, []string{"X-Hub-Signature-256", "sha256=" + sum, "X-Hub-Signature-256", "sha256=" + sum}, 401},
		"GitHub, right and wrong":        {v1alpha1.ReceiverGitHub, []string{"X-Hub-Signature-256", "sha256=" + sum, "X-Hub-Signature-256", "sha256=" + wrong}, 401},
		"GitHub, in the way of GitLab":   {v1alpha1.ReceiverGitHub, []string{"X-Gitlab-Token", testToken}, 401},
		"GitHub, in the generic way":     {v1alpha1.ReceiverGitHub, []string{"X-Signature", "sha256=" + sum}, 401},
		"GitLab":                         {v1alpha1.ReceiverGitLab, []string{"X-Gitlab-Token", testToken}, 202},
		"GitLab, wrong":                  {v1alpha1.ReceiverGitLab, []string{"X-Gitlab-Token", testToken[1:]}, 401},
		"GitLab, none":                   {v1alpha1.ReceiverGitLab, nil, 401},
		"GitLab, empty":                  {v1alpha1.ReceiverGitLab, []string{"X-Gitlab-Token", ""}, 401},
		"GitLab, twice":                  {v1alpha1.ReceiverGitLab, []string{"X-Gitlab-Token", testToken, "X-Gitlab-Token", testToken}, 401},
		"GitLab, with a signature":       {v1alpha1.ReceiverGitLab, []string{"X-Hub-Signature-256", "sha256=" + sum}, 401},
		"Gitea":                          {v1alpha1.ReceiverGitea, []string{"X-Gitea-Signature", sum}, 202},
		"Gitea, as it sends it": {v1alpha1.ReceiverGitea, []string{"X-Gitea-Signature", sum, "X-Gogs-Signature", sum,
			"X-Hub-Signature", "sha1=" + sign(sha1.New, testToken, gitHubPush), "X-Hub-Signature-256", "sha256=" + sum}, 202},
		"Gitea, in the way of GitHub":       {v1alpha1.ReceiverGitea, []string{"X-Hub-Signature-256", "sha256=" + sum}, 202},
		"Gitea, one of two wrong":           {v1alpha1.ReceiverGitea, []string{"X-Gitea-Signature", wrong, "X-Hub-Signature-256", "sha256=" + sum}, 401},
		"Gitea, none":                       {v1alpha1.ReceiverGitea, nil, 401},
		"Gitea, no digits":                  {v1alpha1.ReceiverGitea, []string{"X-Gitea-Signature", "zz"}, 401},
		"Forgejo":                           {v1alpha1.ReceiverForgejo, []string{"X-Forgejo-Signature", sum}, 202},
		"Forgejo, in the way of Gitea":      {v1alpha1.ReceiverForgejo, []string{"X-Gitea-Signature", sum}, 202},
		"Forgejo, wrong":                    {v1alpha1.ReceiverForgejo, []string{"X-Forgejo-Signature", wrong}, 401},
		"Bitbucket":                         {v1alpha1.ReceiverBitbucket, []string{"X-Hub-Signature", "sha256=" + sum}, 202},
		"Bitbucket, by SHA-1":               {v1alpha1.ReceiverBitbucket, []string{"X-Hub-Signature", "sha1=" + sign(sha1.New, testToken, gitHubPush)}, 401},
		"Bitbucket, wrong":                  {v1alpha1.ReceiverBitbucket, []string{"X-Hub-Signature", "sha256=" + wrong}, 401},
		"generic":                           {v1alpha1.ReceiverGeneric, []string{"X-Signature", "sha256=" + sum}, 202},
		"generic, SHA-384":                  {v1alpha1.ReceiverGeneric, []string{"X-Signature", "sha384=" + sign(sha512.New384, testToken, gitHubPush)}, 202},
		"generic, SHA-512":                  {v1alpha1.ReceiverGeneric, []string{"X-Signature", "sha512=" + sign(sha512.New, testToken, gitHubPush)}, 202},
		"generic, SHA-1":                    {v1alpha1.ReceiverGeneric, []string{"X-Signature", "sha1=" + sign(sha1.New, testToken, gitHubPush)}, 401},
		"generic, SHA-224":                  {v1alpha1.ReceiverGeneric, []string{"X-Signature", "sha224=" + sign(sha256.New224, testToken, gitHubPush)}, 401},
		"generic, as if by a longer one":    {v1alpha1.ReceiverGeneric, []string{"X-Signature", "sha512=" + sum}, 401},
		"generic, wrong":                    {v1alpha1.ReceiverGeneric, []string{"X-Signature", "sha256=" + wrong}, 401},
		"a kind that is not known, hostile": {"x", []string{"X-Hub-Signature-256", "sha256=" + sum}, 401},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			s, sink, _ := newServer(Options{})
			path := register(t, s, Hook{Type: c.sender})
			w := send(s, path, gitHubPush, c.headers...)
			if w.Code != c.want {
				t.Errorf("%d: %s", w.Code, w.Body)
			}
			if triggered := sink.count() == 1; triggered != (c.want == 202) {
				t.Error(sink.triggers)
			}
		})
	}
}

// The example in GitHub's documentation of how to check signatures.
func TestExampleOfGitHub(t *testing.T) {
	const body, token = "Hello, World!", "It's a Secret to Everybody"
	s, sink, _ := newServer(Options{})
	path := register(t, s, Hook{Type: v1alpha1.ReceiverGitHub, Token: []byte(token)})
	w := send(s, path, body, "X-Hub-Signature-256", "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17")
	if w.Code != http.StatusAccepted || sink.count() != 1 {
		t.Error(w.Code, w.Body)
	}
}

func TestAnswers(t *testing.T) {
	form := url.Values{"payload": {gitHubPush}}.Encode()
	cases := map[string]struct {
		ref     v1alpha1.GitRef
		body    string
		headers []string
		want    int
		says    string
		trigger bool
		pings   int
	}{
		"push":                 {body: gitHubPush, headers: gitHub(gitHubPush, "push"), want: 202, says: "accepted\n", trigger: true},
		"push to the branch":   {ref: v1alpha1.GitRef{Branch: "main"}, body: gitHubPush, headers: gitHub(gitHubPush, "push"), want: 202, says: "accepted\n", trigger: true},
		"push elsewhere":       {ref: v1alpha1.GitRef{Branch: "prod"}, body: gitHubPush, headers: gitHub(gitHubPush, "push"), want: 200, says: "ignored"},
		"an issue":             {body: "{}", headers: gitHub("{}", "issues"), want: 200, says: "ignored"},
		"ping":                 {body: gitHubPing, headers: gitHub(gitHubPing, "ping"), want: 200, says: "this is the receiver of GitSource physics/fleet", pings: 1},
		"no body":              {headers: gitHub("", "push"), want: 202, says: "accepted", trigger: true},
		"not JSON":             {ref: v1alpha1.GitRef{Branch: "prod"}, body: "<x/>", headers: append(gitHub("<x/>", "push"), "Content-Type", "text/xml"), want: 202, says: "accepted", trigger: true},
		"a long one elsewhere": {ref: v1alpha1.GitRef{Branch: "prod"}, body: long, headers: gitHub(long, "push"), want: 202, says: "accepted", trigger: true},
		"a form": {ref: v1alpha1.GitRef{Branch: "main"}, body: form, want: 202, says: "accepted", trigger: true, headers: []string{
			"Content-Type", "application/x-www-form-urlencoded", "X-GitHub-Event", "push", "X-Hub-Signature-256", "sha256=" + sign(sha256.New, testToken, form),
		}},
		"a form, elsewhere": {ref: v1alpha1.GitRef{Branch: "prod"}, body: form, want: 200, says: "ignored", headers: []string{
			"Content-Type", "application/x-www-form-urlencoded", "X-GitHub-Event", "push", "X-Hub-Signature-256", "sha256=" + sign(sha256.New, testToken, form),
		}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			s, sink, _ := newServer(Options{})
			path := register(t, s, Hook{Type: v1alpha1.ReceiverGitHub, Ref: c.ref})
			w := send(s, path, c.body, c.headers...)
			if w.Code != c.want || !strings.HasPrefix(w.Body.String(), c.says) {
				t.Errorf("%d: %s", w.Code, w.Body)
			}
			if (sink.count() == 1) != c.trigger || len(sink.pings) != c.pings {
				t.Error(sink.triggers, sink.pings)
			}
		})
	}
}

// long is a push to another branch that is too long to be kept.
var long = strings.Replace(gitHubPush, `"message":"Grow"`, `"message":"`+repeat("x", maxPayload)+`"`, 1)

// A path that is not there answers as one that is.
func TestNobodyLearnsWhichPathsThereAre(t *testing.T) {
	s, _, _ := newServer(Options{})
	path := register(t, s, Hook{Type: v1alpha1.ReceiverGitHub})
	strange := path[:len(path)-1] + map[bool]string{true: "0", false: "1"}[path[len(path)-1] != '0']
	requests := map[string]func(path string) *httptest.ResponseRecorder{
		"unsigned":      func(p string) *httptest.ResponseRecorder { return send(s, p, gitHubPush, "X-GitHub-Event", "push") },
		"signed wrong":  func(p string) *httptest.ResponseRecorder { return send(s, p, "other", gitHub(gitHubPush, "push")...) },
		"a ping":        func(p string) *httptest.ResponseRecorder { return send(s, p, gitHubPing, "X-GitHub-Event", "ping") },
		"too large":     func(p string) *httptest.ResponseRecorder { return send(s, p, repeat("x", MaxBody+1)) },
		"another token": func(p string) *httptest.ResponseRecorder { return send(s, p, "", "X-Gitlab-Token", "x") },
		"a GET": func(p string) *httptest.ResponseRecorder {
			w := httptest.NewRecorder()
			s.ServeHTTP(w, httptest.NewRequest(http.MethodGet, p, nil))
			return w
		},
		"broken off": func(p string) *httptest.ResponseRecorder {
			w := httptest.NewRecorder()
			s.ServeHTTP(w, httptest.NewRequest(http.MethodPost, p, io.MultiReader(strings.NewReader("x"), &broken{})))
			return w
		},
	}
	for name, request := range requests {
		a, b := request(path), request(strange)
		if a.Code != b.Code || a.Body.String() != b.Body.String() || a.Code < 400 {
			t.Errorf("%s: %d %q and %d %q", name, a.Code, a.Body, b.Code, b.Body)
		}
	}
	for i := range 100 {
		a, b := send(s, path, "x"), send(s, strange, "x")
		if a.Code != b.Code {
			t.Fatalf("request %d: %d and %d", i, a.Code, b.Code)
		}
	}
}

type broken struct{}

func (*broken) Read([]byte) (int, error) { return 0, errors.New("connection reset") }

func TestPathsAreTheSources(t *testing.T) {
	s, sink, _ := newServer(Options{})
	mine := register(t, s, Hook{Type: v1alpha1.ReceiverGitHub})
	theirs := register(t, s, Hook{Type: v1alpha1.ReceiverGitHub, Source: types.NamespacedName{Namespace: "chemistry", Name: "fleet"}, Token: []byte("another token of theirs")})
	if w := send(s, theirs, gitHubPush, gitHub(gitHubPush, "push")...); w.Code != http.StatusUnauthorized || sink.count() != 0 {
		t.Error("the token of one source counts for another:", w.Code)
	}
	if w := send(s, mine, gitHubPush, gitHub(gitHubPush, "push")...); w.Code != http.StatusAccepted {
		t.Error(w.Code)
	}
	if got := sink.triggers; len(got) != 1 || got[0] != "physics/fleet 0s" {
		t.Error(got)
	}
	s.Remove(source)
	if w := send(s, mine, gitHubPush, gitHub(gitHubPush, "push")...); w.Code != http.StatusUnauthorized {
		t.Error("it answers for a source that is no longer there:", w.Code)
	}
}

func TestPath(t *testing.T) {
	of := func(token, name, uid string) string {
		path, err := pathOf([]byte(token), types.NamespacedName{Namespace: "physics", Name: name}, types.UID(uid))
		if err != nil {
			t.Fatal(err)
		}
		return path
	}
	path := of(testToken, "fleet", "1")
	if len(path) != len("/hook/")+64 || path != of(testToken, "fleet", "1") {
		t.Error(path)
	}
	for name, other := range map[string]string{
		"another token": of(testToken+"x", "fleet", "1"), "another name": of(testToken, "fleet2", "1"), "another object": of(testToken, "fleet", "2"),
	} {
		if path == other {
			t.Errorf("%s has the same path", name)
		}
	}
	if strings.Contains(path, testToken) {
		t.Error("it tells the token")
	}
	if _, err := pathOf([]byte("short"), source, "1"); err == nil {
		t.Error("a short token is accepted")
	}
}

// Who may read the path cannot sign with it.
func TestPathIsNoSignature(t *testing.T) {
	s, sink, _ := newServer(Options{})
	path := register(t, s, Hook{Type: v1alpha1.ReceiverGeneric, UID: "1"})
	sum := strings.TrimPrefix(path, pathPrefix)
	for _, body := range []string{"physics/fleet/1", "physics/fleet", "fleetphysics", "minifleet.dev/webhook-path", "", "physics/fleet/1\x01"} {
		if w := send(s, path, body, "X-Signature", "sha256="+sum); w.Code != http.StatusUnauthorized {
			t.Errorf("%q: %d", body, w.Code)
		}
	}
	if sink.count() != 0 {
		t.Error(sink.triggers)
	}
}

func TestGenerations(t *testing.T) {
	s, _, _ := newServer(Options{})
	path := register(t, s, Hook{UID: "1", Generation: 3})
	if got := s.Path(source, "1", 3); got != path {
		t.Error(got)
	}
	for name, got := range map[string]string{
		"another generation": s.Path(source, "1", 4), "another object": s.Path(source, "2", 3), "another source": s.Path(types.NamespacedName{Name: "x"}, "1", 3),
	} {
		if got != "" {
			t.Errorf("%s: %s", name, got)
		}
	}
	if next := register(t, s, Hook{UID: "1", Generation: 4}); next != path {
		t.Error("a change of the source has changed its path")
	}
	if _, err := s.Register(Hook{Source: source, UID: "1", Generation: 5, Token: []byte("x")}); err == nil || s.Path(source, "1", 4) != "" {
		t.Error("the token before still counts", err)
	}
}

// A replay, however often, costs a few reconciliations; what comes during one is not forgotten.
func TestReplays(t *testing.T) {
	limits := DefaultLimits()
	limits.Path = Limit{PerSecond: 1000, Burst: 1000, Open: 8}
	s, sink, at := newServer(Options{Limits: &limits})
	path := register(t, s, Hook{Type: v1alpha1.ReceiverGitHub})
	for range 200 {
		if w := send(s, path, gitHubPush, gitHub(gitHubPush, "push")...); w.Code != http.StatusAccepted {
			t.Fatal(w.Code)
		}
	}
	want := limits.Triggers.Burst + 1
	if sink.count() != want || sink.triggers[want-1] != "physics/fleet 1s" {
		t.Fatal(sink.triggers)
	}
	at.move(time.Second)
	send(s, path, gitHubPush, gitHub(gitHubPush, "push")...)
	if sink.count() != want+1 {
		t.Error("the one that was to come has come, and another push is forgotten")
	}
	register(t, s, Hook{Type: v1alpha1.ReceiverGitHub, Generation: 2})
	for range 200 {
		send(s, path, gitHubPush, gitHub(gitHubPush, "push")...)
	}
	if sink.count() > want+3 {
		t.Error("a reconciliation has forgotten what was counted:", sink.count())
	}
}

func TestFlood(t *testing.T) {
	limits := DefaultLimits()
	limits.Path.Burst, limits.Unknown.Burst = 10, 20
	s, _, at := newServer(Options{Limits: &limits})
	path := register(t, s, Hook{Type: v1alpha1.ReceiverGitHub})
	other := register(t, s, Hook{Type: v1alpha1.ReceiverGitHub, Source: types.NamespacedName{Namespace: "chemistry", Name: "fleet"}})
	for i := range 500 { // of strangers
		if w := send(s, fmt.Sprintf("/hook/%064d", i), "x"); w.Code != http.StatusUnauthorized {
			t.Fatal(w.Code)
		}
	}
	counts := map[int]int{}
	for range 100 { // of somebody who may read the path
		counts[send(s, path, "x").Code]++
	}
	if counts[401] != 10 || counts[429] != 90 {
		t.Error(counts)
	}
	if w := send(s, path, gitHubPush, gitHub(gitHubPush, "push")...); w.Code != http.StatusTooManyRequests || w.Header().Get("Retry-After") == "" {
		t.Error(w.Code, w.Header())
	}
	if w := send(s, other, gitHubPush, gitHub(gitHubPush, "push")...); w.Code != http.StatusAccepted {
		t.Error("one source is held up by what goes to another:", w.Code)
	}
	at.move(time.Second)
	if w := send(s, path, gitHubPush, gitHub(gitHubPush, "push")...); w.Code != http.StatusAccepted {
		t.Error(w.Code)
	}
}

// What is under way is bounded too, and those of one namespace do not take away from another.
func TestOpenRequests(t *testing.T) {
	limits := DefaultLimits()
	limits.Path.Open, limits.Namespace.Open = 2, 3
	s, _, _ := newServer(Options{Limits: &limits})
	paths := map[string]string{}
	for _, name := range []string{"physics/a", "physics/b", "chemistry/a"} {
		ns, n, _ := strings.Cut(name, "/")
		paths[name] = register(t, s, Hook{Type: v1alpha1.ReceiverGitHub, Source: types.NamespacedName{Namespace: ns, Name: n}})
	}
	var open sync.WaitGroup
	hold := func(name string) (status func() int, end func()) {
		in, out := io.Pipe()
		w := httptest.NewRecorder()
		done := make(chan struct{})
		open.Go(func() {
			s.ServeHTTP(w, httptest.NewRequest(http.MethodPost, paths[name], in))
			close(done)
		})
		begun := make(chan struct{})
		go func() { _, _ = out.Write([]byte("x")); close(begun) }() // it is read once the request is under way
		select {
		case <-begun:
		case <-done:
		}
		return func() int { <-done; return w.Code }, func() { _ = out.CloseWithError(io.ErrUnexpectedEOF); _ = in.Close() }
	}
	var ends []func()
	for _, name := range []string{"physics/a", "physics/a", "physics/b"} {
		_, end := hold(name)
		ends = append(ends, end)
	}
	for _, name := range []string{"physics/a", "physics/b"} {
		status, end := hold(name)
		if got := status(); got != http.StatusTooManyRequests {
			t.Error(name, got)
		}
		end()
	}
	if w := send(s, paths["chemistry/a"], gitHubPush, gitHub(gitHubPush, "push")...); w.Code != http.StatusAccepted {
		t.Error(w.Code)
	}
	for _, end := range ends {
		end()
	}
	open.Wait()
	if w := send(s, paths["physics/a"], gitHubPush, gitHub(gitHubPush, "push")...); w.Code != http.StatusAccepted {
		t.Error("what has ended still counts:", w.Code)
	}
}

func TestPingsAreToldOfOnce(t *testing.T) {
	s, sink, at := newServer(Options{})
	path := register(t, s, Hook{Type: v1alpha1.ReceiverGitHub})
	for range 3 {
		send(s, path, gitHubPing, gitHub(gitHubPing, "ping")...)
	}
	if len(sink.pings) != 1 || sink.pings[0] != "physics/fleet github" {
		t.Error(sink.pings)
	}
	at.move(quiet)
	send(s, path, gitHubPing, gitHub(gitHubPing, "ping")...)
	if len(sink.pings) != 2 {
		t.Error(sink.pings)
	}
}

// The log says why, once in a while, and neither tokens nor what was sent.
func TestLog(t *testing.T) {
	var lines []string
	s, _, _ := newServer(Options{Log: funcr.New(func(_, args string) { lines = append(lines, args) }, funcr.Options{})})
	path := register(t, s, Hook{Type: v1alpha1.ReceiverGitLab})
	for range 3 {
		send(s, path, "payload-of-somebody", "X-Gitlab-Token", "guessed-token")
	}
	send(s, "/hook/x", "payload-of-somebody", "X-Gitlab-Token", "guessed-token")
	log := strings.Join(lines, "\n")
	if len(lines) != 1 || !strings.Contains(log, "physics/fleet") || !strings.Contains(log, "X-Gitlab-Token is not this token") {
		t.Error(log)
	}
	for _, secret := range []string{testToken, "guessed-token", "payload-of-somebody", path} {
		if strings.Contains(log, secret) {
			t.Errorf("the log tells %s", secret)
		}
	}
}

func TestOtherRequests(t *testing.T) {
	s, _, _ := newServer(Options{})
	for _, path := range []string{"/", "/hook", "/healthz", "/%00", "/hook%2fx", "//hook/x"} {
		r := httptest.NewRequest(http.MethodPost, "/", nil)
		r.URL = &url.URL{Path: path}
		w := httptest.NewRecorder()
		s.ServeHTTP(w, r)
		if w.Code != http.StatusNotFound || w.Header().Get("X-Content-Type-Options") != "nosniff" {
			t.Error(path, w.Code)
		}
	}
	for _, method := range []string{http.MethodGet, http.MethodHead, http.MethodPut, http.MethodOptions, "X"} {
		w := httptest.NewRecorder()
		s.ServeHTTP(w, httptest.NewRequest(method, "/hook/x", nil))
		if w.Code != http.StatusMethodNotAllowed || w.Header().Get("Allow") != http.MethodPost {
			t.Error(method, w.Code)
		}
	}
}

// The bodies are those of a real server: one that is too long although it does not say so, one that ends too early, and one that
// hardly comes.
func TestBodiesOverTheNetwork(t *testing.T) {
	s, sink, _ := newServer(Options{})
	path := register(t, s, Hook{Type: v1alpha1.ReceiverGitHub})
	web := httptest.NewServer(s)
	defer web.Close()
	impatient := httptest.NewUnstartedServer(s)
	impatient.Config.ReadTimeout = 300 * time.Millisecond
	impatient.Start()
	defer impatient.Close()
	post := func(body io.Reader, headers ...string) int {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, web.URL+path, body)
		if err != nil {
			t.Fatal(err)
		}
		for i := 0; i < len(headers); i += 2 {
			r.Header.Set(headers[i], headers[i+1])
		}
		res, err := web.Client().Do(r)
		if err != nil {
			return 0 // it has hung up
		}
		defer func() { _ = res.Body.Close() }()
		return res.StatusCode
	}
	if got := post(strings.NewReader(gitHubPush), gitHub(gitHubPush, "push")...); got != http.StatusAccepted {
		t.Error(got)
	}
	large := repeat("x", 4<<20)
	if got := post(struct{ io.Reader }{strings.NewReader(large)}, gitHub(large, "push")...); got != http.StatusAccepted { // in chunks
		t.Error("a large one:", got)
	}
	if got := post(struct{ io.Reader }{io.LimitReader(zeros{}, MaxBody+1)}); got != http.StatusRequestEntityTooLarge && got != 0 {
		t.Error("too large:", got)
	}
	raw := func(text string) string {
		conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", impatient.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = conn.Close() }()
		if _, err := io.WriteString(conn, text); err != nil {
			t.Fatal(err)
		}
		answer, _ := io.ReadAll(conn)
		return string(answer)
	}
	head := "POST " + path + " HTTP/1.1\r\nHost: x\r\nX-Hub-Signature-256: sha256=" + sign(sha256.New, testToken, "x") + "\r\n"
	if got := raw(head + "Content-Length: 100\r\n\r\nx"); !strings.HasPrefix(got, "HTTP/1.1 400") {
		t.Error("half a body is believed:", got)
	}
	if got := raw(head + "Content-Length: 99999999999\r\n\r\n"); !strings.HasPrefix(got, "HTTP/1.1 413") {
		t.Error("too large, as it says:", got)
	}
	if sink.count() != 2 {
		t.Error(sink.triggers)
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return len(p), nil }

func TestManyAtOnce(t *testing.T) {
	s, sink, _ := newServer(Options{})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	path := register(t, s, Hook{Type: v1alpha1.ReceiverGitHub})
	var group sync.WaitGroup
	group.Go(func() {
		for i := range int64(200) {
			register(t, s, Hook{Type: v1alpha1.ReceiverGitHub, Generation: i})
			if i%10 == 0 {
				s.Remove(types.NamespacedName{Namespace: "physics", Name: "other"})
			}
		}
	})
	for range 8 {
		group.Go(func() {
			for range 20 {
				send(s, path, gitHubPush, gitHub(gitHubPush, "push")...)
				send(s, "/hook/x", gitHubPush, gitHub(gitHubPush, "push")...)
				_ = s.Path(source, "", 1)
			}
		})
	}
	group.Wait()
	if ctx.Err() == nil && sink.count() == 0 {
		t.Error("none was accepted")
	}
}

func BenchmarkWebhook(b *testing.B) {
	limits := DefaultLimits()
	limits.Path = Limit{PerSecond: 1 << 30, Burst: 1 << 30, Open: 8}
	limits.Namespace, limits.Hooks = limits.Path, limits.Path
	s, _, _ := newServer(Options{Limits: &limits})
	path, err := s.Register(Hook{Source: source, Type: v1alpha1.ReceiverGitHub, Token: []byte(testToken)})
	if err != nil {
		b.Fatal(err)
	}
	body := []byte(gitHubPush)
	headers := gitHub(gitHubPush, "push")
	for b.Loop() {
		r := httptest.NewRequest(http.MethodPost, path, bytes.NewReader(body))
		for i := 0; i < len(headers); i += 2 {
			r.Header.Set(headers[i], headers[i+1])
		}
		s.ServeHTTP(httptest.NewRecorder(), r)
	}
}
