package notification

import (
	"cmp"
	"context"
	"crypto/x509"
	"encoding/pem"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/minifleet/minifleet/gitsource/fetch"
)

const canary = "canary-of-a-secret"

// loopback is a network that refuses what a hub refuses, but for this machine's IPv4 address.
func loopback(t *testing.T) *fetch.Network {
	t.Helper()
	refused, err := fetch.ParsePrefixes(fetch.DefaultRefused())
	if err != nil {
		t.Fatal(err)
	}
	return &fetch.Network{Refused: refused, Allowed: []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}}
}

func serve(t *testing.T, h http.HandlerFunc) string {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s.URL
}

func send(t *testing.T, network Network, to string, authorities []byte) *failure {
	t.Helper()
	return sendWithin(t, time.Minute, network, to, authorities)
}

func sendWithin(t *testing.T, patience time.Duration, network Network, to string, authorities []byte) *failure {
	t.Helper()
	client, err := httpClient(network, authorities)
	if err != nil {
		t.Fatal(err)
	}
	u, err := url.Parse(to)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	return post(ctx, client, u, http.Header{"Authorization": {"Bearer " + canary}}, []byte("{}"))
}

func TestPostJudges(t *testing.T) {
	for name, tc := range map[string]struct {
		answer http.HandlerFunc
		want   string // empty: accepted
		final  bool
		after  time.Duration
		within time.Duration // a minute where it is 0: long enough for a machine that is very busy
	}{
		"accepted": {answer: func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }},
		"an error": {answer: func(w http.ResponseWriter, _ *http.Request) { http.Error(w, canary, http.StatusInternalServerError) }, want: "the server answers 500"},
		"a busy server": {answer: func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", "7")
			w.WriteHeader(http.StatusTooManyRequests)
		}, want: "the server answers 429", after: 7 * time.Second},
		"a greedy one": {answer: func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", "99999999999")
			w.WriteHeader(http.StatusTooManyRequests)
		}, want: "the server answers 429", after: maxRetryAfter},
		"a wrong token": {answer: func(w http.ResponseWriter, r *http.Request) {
			http.Error(w, r.Header.Get("Authorization"), http.StatusUnauthorized)
		}, want: "the server refuses the sender (401)"},
		"no more": {answer: func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusGone) }, want: "the server does not take the message (410)", final: true},
		"a redirect": {answer: func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://169.254.169.254/latest/"+canary, http.StatusTemporaryRedirect)
		}, want: "the server redirects (307), which is not followed"},
		"a flood":        {answer: flood, want: ""},
		"a large header": {answer: func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("X", strings.Repeat("x", 1<<20)) }, want: "the connection has failed"},
		"no answer":      {answer: func(_ http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body); <-r.Context().Done() }, want: "the server has not answered within 10s", within: time.Second},
		"no HTTP":        {answer: hijacked, want: "the connection has failed"},
	} {
		t.Run(name, func(t *testing.T) {
			got := sendWithin(t, cmp.Or(tc.within, time.Minute), loopback(t), serve(t, tc.answer)+"/"+canary, nil)
			switch {
			case tc.want == "" && got != nil:
				t.Errorf("got %v", got)
			case tc.want == "":
			case got == nil || !strings.HasPrefix(got.message, tc.want) || got.final != tc.final || got.after != tc.after:
				t.Errorf("got %+v", got)
			case strings.Contains(got.message, canary) || strings.Contains(got.message, "127.0.0.1"):
				t.Errorf("shows too much: %v", got)
			}
		})
	}
}

// flood answers for as long as somebody reads.
func flood(w http.ResponseWriter, r *http.Request) {
	part := make([]byte, 64<<10)
	for r.Context().Err() == nil {
		if _, err := w.Write(part); err != nil {
			return
		}
	}
}

func hijacked(w http.ResponseWriter, _ *http.Request) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err == nil {
		_, _ = conn.Write([]byte("SSH-2.0-" + canary + "\r\n"))
		_ = conn.Close()
	}
}

func TestPostConnectsToNoRefusedAddress(t *testing.T) {
	reached := false
	to := serve(t, func(http.ResponseWriter, *http.Request) { reached = true })
	_, port, err := net.SplitHostPort(strings.TrimPrefix(to, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	network := loopback(t)
	network.Allowed = nil
	for _, host := range []string{"127.0.0.1", "localhost", "[::ffff:127.0.0.1]", "[::1]", "0.0.0.0", "169.254.169.254", "[64:ff9b::a9fe:a9fe]", "2130706433"} {
		got := send(t, network, "http://"+net.JoinHostPort(strings.Trim(host, "[]"), port), nil)
		if got == nil || !strings.Contains(got.message, "to which this hub does not connect") && !strings.Contains(got.message, "is not known") {
			t.Errorf("%s: %v", host, got)
		}
	}
	if reached {
		t.Error("a connection was made")
	}
}

// Through a proxy of the environment too.
func TestCheckHost(t *testing.T) {
	network := loopback(t)
	for host, refused := range map[string]bool{"169.254.169.254": true, "::1": true, "127.0.0.1": false, "192.0.2.1": false} {
		if err := checkHost(t.Context(), network, host); (err != nil) != refused {
			t.Errorf("%s: %v", host, err)
		}
	}
}

func TestPostTrustsAuthorities(t *testing.T) {
	s := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(s.Close)
	s.Config.ErrorLog = nil
	if got := send(t, loopback(t), s.URL, nil); got == nil || !strings.Contains(got.message, "is not trusted") {
		t.Errorf("without its authority: %v", got)
	}
	authority := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
	if got := send(t, loopback(t), s.URL, authority); got != nil {
		t.Errorf("with it: %v", got)
	}
	if _, err := x509.ParseCertificate(s.Certificate().Raw); err != nil {
		t.Fatal(err)
	}
	if _, err := httpClient(loopback(t), []byte("no certificate")); err == nil {
		t.Error("takes what is no certificate")
	}
}
