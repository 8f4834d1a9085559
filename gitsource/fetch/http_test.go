package fetch_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/minifleet/minifleet/gitsource/fetch"
)

// canary stands in every secret of these tests and must appear in nothing that is printed.
const canary = "c4n4ry-s3cr3t"

var (
	password = &fetch.Auth{Username: "ada", Password: canary}
	token    = &fetch.Auth{BearerToken: canary}
)

// wantNoCanary searches for the secret in every way in which a value may be printed.
func wantNoCanary(t *testing.T, value any) {
	t.Helper()
	encoded, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	pair := base64.StdEncoding.EncodeToString([]byte("ada:" + canary))
	for _, text := range []string{fmt.Sprint(value), fmt.Sprintf("%+v", value), fmt.Sprintf("%#v", value),
		fmt.Sprintf("%q", value), string(encoded)} {
		if strings.Contains(text, canary) || strings.Contains(text, pair) {
			t.Errorf("a secret is in %s", text)
		}
	}
}

func TestAuthPrintsNoSecret(t *testing.T) {
	for _, auth := range []*fetch.Auth{password, token, {
		Identity: []byte(canary), Passphrase: canary, ClientKey: []byte(canary), ClientCert: []byte(canary), KnownHosts: []byte(canary),
		Proxy: &fetch.Proxy{Address: "http://a:" + canary + "@b", Username: "a", Password: canary},
	}} {
		wantNoCanary(t, auth)
		if auth.Proxy != nil {
			wantNoCanary(t, auth.Proxy)
			wantNoCanary(t, *auth.Proxy)
		}
		wantNoCanary(t, *auth)
		wantNoCanary(t, fetch.Request{Auth: auth})
		wantNoCanary(t, struct{ A fetch.Auth }{*auth})
	}
}

func TestURLPolicy(t *testing.T) {
	cases := map[string]struct {
		url  string
		auth *fetch.Auth
		says string
	}{
		"empty":                       {"", nil, "empty"},
		"file":                        {"file:///etc", nil, `scheme "file"`},
		"path":                        {"/srv/git/repo.git", nil, "use https://"},
		"relative path":               {"../repo.git", nil, "use https://"},
		"ext":                         {"ext::sh -c id", nil, "use https://"},
		"ssh with a password":         {"ssh://git:" + canary + "@example.org/x", nil, "secretRef"},
		"ssh, scp-like as a URL":      {"ssh://git@example.org:x/y.git", nil, "USER@HOST:PATH without ssh://"},
		"ssh, no repository":          {"ssh://git@example.org/", nil, "names no repository"},
		"ssh, no user":                {"ssh://@example.org/x", nil, "user in the URL"},
		"ssh, an option as user":      {"ssh://-oProxyCommand@example.org/x", nil, "user in the URL"},
		"ssh, an option as host":      {"ssh://-oProxyCommand=id/x", nil, "names no host"},
		"ssh, a line end in the path": {"ssh://git@example.org/x%0aid", nil, "control character"},
		"ssh, a query":                {"ssh://git@example.org/x?y", nil, "query"},
		"scp-like, no path":           {"git@example.org:", nil, "use https://"},
		"scp-like, no user":           {"example.org:x/y.git", nil, "scheme"},
		"scp-like, an option":         {"git@example.org:-x", nil, "begins with -"},
		"scp-like, a broken host":     {"git@exa%zzmple.org:x", nil, "use https://"},
		"scp-like, a broken address":  {"git@[::1:x", nil, "use https://"},
		"git":                         {"git://example.org/x", nil, `scheme "git"`},
		"ftp":                         {"ftp://example.org/x", nil, `scheme "ftp"`},
		"no host":                     {"https:///x", nil, "names no host"},
		"opaque":                      {"https:example.org/x", nil, "names no host"},
		"password":                    {"https://ada:" + canary + "@example.org/x", nil, "secretRef"},
		"user":                        {"https://" + canary + "@example.org/x", nil, "secretRef"},
		"query":                       {"https://example.org/x?token=" + canary, nil, "query"},
		"fragment":                    {"https://example.org/x#" + canary, nil, "fragment"},
		"broken with a password":      {"https://ada:" + canary + "@exa mple.org/x", nil, "use https://"},
		"control character":           {"https://example.org/x\n" + canary, nil, "use https://"},
		"space":                       {"https://example.org/x y", nil, "white space"},
		"port":                        {"https://example.org:99999/x", nil, "port"},
		"password over http":          {"http://example.org/x", password, "use https"},
		"token over http":             {"http://example.org/x", token, "use https"},
		"a name made like loopback":   {"http://127.0.0.1.example.org/x", token, "use https"},
		"a name made like localhost":  {"http://localhost.example.org/x", token, "use https"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			_, err := (&fetch.Fetcher{}).Fetch(t.Context(), fetch.Request{URL: tc.url, Auth: tc.auth})
			if message := wantReason(t, err, fetch.ReasonURLRefused); !strings.Contains(message, tc.says) {
				t.Errorf("message %q does not say %q", message, tc.says)
			}
			wantNoCanary(t, err)
		})
	}
}

func TestCredentials(t *testing.T) {
	repo := newRepository(t)
	repo.commit(map[string]string{"a.yaml": "a"})
	for name, tc := range map[string]struct {
		auth *fetch.Auth
		want string
	}{
		"password": {password, "Basic " + base64.StdEncoding.EncodeToString([]byte("ada:"+canary))},
		"token":    {token, "Bearer " + canary},
	} {
		t.Run(name, func(t *testing.T) {
			srv := serve(t, repo, func(w http.ResponseWriter, req *http.Request) bool {
				if req.Header.Get("Authorization") != tc.want {
					http.Error(w, "no", http.StatusUnauthorized)
					return true
				}
				return false
			})
			res := mustFetch(t, fetch.Request{URL: srv.URL, Auth: tc.auth})
			if len(res.Files) != 1 || len(srv.seenAuth()) != 2 {
				t.Errorf("%d files after %d authorized requests, want 1 after 2", len(res.Files), len(srv.seenAuth()))
			}
			wantNoCanary(t, res)
			_, err := (&fetch.Fetcher{}).Fetch(t.Context(), fetch.Request{URL: srv.URL})
			if message := wantReason(t, err, fetch.ReasonAuthFailed); !strings.Contains(message, "secretRef") {
				t.Errorf("message %q does not say where credentials go", message)
			}
		})
	}
	for name, auth := range map[string]*fetch.Auth{
		"both":     {Username: "ada", Password: canary, BearerToken: canary},
		"line end": {BearerToken: canary + "\n"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := (&fetch.Fetcher{}).Fetch(t.Context(), fetch.Request{URL: "https://example.org/x", Auth: auth})
			wantReason(t, err, fetch.ReasonSecretInvalid)
			wantNoCanary(t, err)
		})
	}
}

// A server's error page may repeat what it was sent; nothing of it may come through.
func TestStatuses(t *testing.T) {
	repo := newRepository(t)
	repo.commit(map[string]string{"a.yaml": "a"})
	for status, reason := range map[int]string{
		401: fetch.ReasonAuthFailed, 403: fetch.ReasonAuthFailed, 404: fetch.ReasonNotFound,
		429: fetch.ReasonFetchFailed, 500: fetch.ReasonFetchFailed, 503: fetch.ReasonFetchFailed,
	} {
		for _, method := range []string{http.MethodGet, http.MethodPost} {
			t.Run(fmt.Sprint(status, " to ", method), func(t *testing.T) {
				srv := serve(t, repo, func(w http.ResponseWriter, req *http.Request) bool {
					if req.Method != method {
						return false
					}
					w.Header().Set("X-Echo", req.Header.Get("Authorization"))
					w.WriteHeader(status)
					_, _ = w.Write([]byte(req.Header.Get("Authorization") + " " + canary))
					return true
				})
				for _, auth := range []*fetch.Auth{password, token} {
					_, err := (&fetch.Fetcher{}).Fetch(t.Context(), fetch.Request{URL: srv.URL, Auth: auth})
					if message := wantReason(t, err, reason); !strings.Contains(message, fmt.Sprint(status)) {
						t.Errorf("message %q does not name the status", message)
					}
					wantNoCanary(t, err)
				}
			})
		}
	}
}

func TestAnswersThatAreNotGit(t *testing.T) {
	repo := newRepository(t)
	commit := repo.commit(map[string]string{"a.yaml": "a"})
	advert := pktLine("# service=git-upload-pack\n") + "0000" + pktLine(commit+" HEAD\x00side-band-64k shallow\n") + "0000"
	pages := map[string]struct{ get, post string }{
		"a web page":         {get: "<html>" + canary + "</html>"},
		"nothing":            {get: ""},
		"a cut line":         {get: "00"},
		"a wrong length":     {get: "zzzz" + canary},
		"an empty pack":      {get: advert, post: "0000" + pktLine("NAK\n")},
		"a pack of garbage":  {get: advert, post: "0000" + pktLine("NAK\n") + pktLine("\x01PACK"+canary) + "0000"},
		"a huge pack header": {get: advert, post: "0000" + pktLine("NAK\n") + pktLine("\x01PACK\x00\x00\x00\x02\x00\x00\xff\xff") + "0000"},
		"an error":           {get: advert, post: "0000" + pktLine("NAK\n") + pktLine("\x03"+canary) + "0000"},
		"an unknown channel": {get: advert, post: "0000" + pktLine("NAK\n") + pktLine("\x07"+canary) + "0000"},
		"text for a pack":    {get: advert, post: canary},
	}
	for name, page := range pages {
		t.Run(name, func(t *testing.T) {
			srv := serve(t, repo, func(w http.ResponseWriter, req *http.Request) bool {
				body := page.get
				if req.Method == http.MethodPost {
					body = page.post
				}
				_, _ = w.Write([]byte(body))
				return true
			})
			_, err := (&fetch.Fetcher{}).Fetch(t.Context(), fetch.Request{URL: srv.URL, Auth: password})
			wantReason(t, err, fetch.ReasonFetchFailed)
			wantNoCanary(t, err)
		})
	}
}

func TestEndlessReferences(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(pktLine("# service=git-upload-pack\n") + "0000" +
			pktLine(strings.Repeat("1", 40)+" HEAD\x00shallow\n")))
		page := []byte(strings.Repeat(pktLine(strings.Repeat("1", 40)+" refs/heads/main\n"), 1000))
		for {
			if _, err := w.Write(page); err != nil {
				return
			}
		}
	}))
	defer srv.Close()
	_, err := (&fetch.Fetcher{}).Fetch(t.Context(), fetch.Request{URL: srv.URL})
	wantReason(t, err, fetch.ReasonLimitExceeded)
}

func TestServerDown(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := listener.Addr().String()
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	_, err = (&fetch.Fetcher{}).Fetch(t.Context(), fetch.Request{URL: "http://" + addr + "/x", Auth: password})
	wantReason(t, err, fetch.ReasonUnreachable)
	wantNoCanary(t, err)
}

func TestRedirects(t *testing.T) {
	repo := newRepository(t)
	repo.commit(map[string]string{"a.yaml": "a"})
	other := serve(t, repo, nil)
	for name, method := range map[string]string{"at the start": http.MethodGet, "in the middle": http.MethodPost} {
		t.Run("to another host "+name, func(t *testing.T) {
			other.forget()
			srv := serve(t, repo, func(w http.ResponseWriter, req *http.Request) bool {
				if req.Method != method {
					return false
				}
				http.Redirect(w, req, other.Server.URL+req.URL.String(), http.StatusTemporaryRedirect)
				return true
			})
			_, err := (&fetch.Fetcher{}).Fetch(t.Context(), fetch.Request{URL: srv.URL, Auth: password})
			message := wantReason(t, err, fetch.ReasonURLRefused)
			if !strings.Contains(message, other.Server.URL) {
				t.Errorf("message %q does not name where the redirect leads", message)
			}
			if len(other.seen()) != 0 {
				t.Errorf("the other host was asked: %v, credentials %d", other.seen(), len(other.seenAuth()))
			}
			wantNoCanary(t, err)
		})
	}
	t.Run("within the host", func(t *testing.T) {
		srv := serve(t, repo, func(w http.ResponseWriter, req *http.Request) bool {
			if rest, ok := strings.CutPrefix(req.URL.Path, "/old/"); ok {
				http.Redirect(w, req, "/"+rest+"?"+req.URL.RawQuery, http.StatusMovedPermanently)
				return true
			}
			return false
		})
		res := mustFetch(t, fetch.Request{URL: srv.Server.URL + "/old/.git", Auth: password})
		if len(res.Files) != 1 || len(srv.seenAuth()) != 3 {
			t.Errorf("%d files after %d authorized requests, want 1 after 3", len(res.Files), len(srv.seenAuth()))
		}
	})
	t.Run("from https to http", func(t *testing.T) {
		srv := newServer(t, repo, func(w http.ResponseWriter, req *http.Request) bool {
			http.Redirect(w, req, other.Server.URL+req.URL.String(), http.StatusFound)
			return true
		})
		srv.StartTLS()
		t.Cleanup(srv.Close)
		other.forget()
		_, err := (&fetch.Fetcher{}).Fetch(t.Context(), fetch.Request{URL: srv.Server.URL + "/.git",
			Auth: &fetch.Auth{Username: "ada", Password: canary, CABundle: caOf(srv)}})
		wantReason(t, err, fetch.ReasonURLRefused)
		if len(other.seen()) != 0 {
			t.Errorf("the other host was asked: %v", other.seen())
		}
	})
	t.Run("in a circle", func(t *testing.T) {
		srv := serve(t, repo, func(w http.ResponseWriter, req *http.Request) bool {
			http.Redirect(w, req, req.URL.String(), http.StatusFound)
			return true
		})
		_, err := (&fetch.Fetcher{}).Fetch(t.Context(), fetch.Request{URL: srv.URL})
		wantReason(t, err, fetch.ReasonFetchFailed)
		if n := len(srv.seen()); n > 20 {
			t.Errorf("%d requests", n)
		}
	})
}

func caOf(s *server) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
}

func TestCABundle(t *testing.T) {
	repo := newRepository(t)
	repo.commit(map[string]string{"a.yaml": "a"})
	srv := newServer(t, repo, nil)
	srv.StartTLS()
	t.Cleanup(srv.Close)
	address := srv.Server.URL + "/.git"
	fetcher := &fetch.Fetcher{}
	defer fetcher.CloseIdleConnections()

	res, err := fetcher.Fetch(t.Context(), fetch.Request{URL: address, Auth: &fetch.Auth{CABundle: caOf(srv)}})
	if err != nil || len(res.Files) != 1 {
		t.Errorf("with the CA: %v", err)
	}
	_, err = fetcher.Fetch(t.Context(), fetch.Request{URL: address})
	if message := wantReason(t, err, fetch.ReasonUnreachable); !strings.Contains(message, "unknown authority") {
		t.Errorf("message %q does not say that the authority is unknown", message)
	}
	_, err = fetcher.Fetch(t.Context(), fetch.Request{URL: address, Auth: &fetch.Auth{CABundle: []byte("no PEM")}})
	wantReason(t, err, fetch.ReasonSecretInvalid)
	u, err := url.Parse(srv.Server.URL)
	if err != nil {
		t.Fatal(err)
	}
	_, err = fetcher.Fetch(t.Context(), fetch.Request{URL: "https://localhost:" + u.Port() + "/.git",
		Auth: &fetch.Auth{CABundle: caOf(srv)}})
	if message := wantReason(t, err, fetch.ReasonUnreachable); !strings.Contains(message, "not valid") {
		t.Errorf("message %q does not say that the certificate is not valid", message)
	}
}

// hang serves a repository and, at requests of method, sends head and then nothing more. The channel
// receives one value when it got there.
func hang(t *testing.T, method, head string) (address string, reached chan struct{}) {
	t.Helper()
	repo := newRepository(t)
	repo.commit(map[string]string{"a.yaml": "a"})
	reached = make(chan struct{}, 1)
	release := make(chan struct{})
	srv := serve(t, repo, func(w http.ResponseWriter, req *http.Request) bool {
		if req.Method != method {
			return false
		}
		if head != "" {
			_, _ = w.Write([]byte(head))
			w.(http.Flusher).Flush()
		}
		reached <- struct{}{}
		<-release
		return true
	})
	t.Cleanup(func() { close(release) }) // runs before the server is closed, which waits for the handler
	return srv.URL, reached
}

func TestHangingServer(t *testing.T) {
	for name, tc := range map[string]struct{ method, head string }{
		"before the answer":  {http.MethodGet, ""},
		"in the references":  {http.MethodGet, pktLine("# service=git-upload-pack\n")},
		"before the pack":    {http.MethodPost, ""},
		"in the pack":        {http.MethodPost, "0008NAK\n" + pktLine("\x01PACK")},
		"in a line's length": {http.MethodPost, "00"},
	} {
		t.Run(name, func(t *testing.T) {
			address, reached := hang(t, tc.method, tc.head)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			go func() {
				<-reached
				cancel()
			}()
			_, err := (&fetch.Fetcher{}).Fetch(ctx, fetch.Request{URL: address, Auth: password})
			wantReason(t, err, fetch.ReasonUnreachable)
			if !errors.Is(err, context.Canceled) {
				t.Errorf("%v is not context.Canceled", err)
			}
			wantNoCanary(t, err)
		})
	}
	t.Run("timeout", func(t *testing.T) {
		address, _ := hang(t, http.MethodGet, "")
		_, err := (&fetch.Fetcher{Timeout: 20 * time.Millisecond}).Fetch(t.Context(), fetch.Request{URL: address})
		wantReason(t, err, fetch.ReasonUnreachable)
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v is not context.DeadlineExceeded", err)
		}
	})
}

// One Fetcher serves all sources at once: with the race detector this shows that it may.
func TestConcurrentUse(t *testing.T) {
	repo := newRepository(t)
	repo.commit(map[string]string{"a.yaml": "a"})
	srv := serve(t, repo, nil)
	fetcher := &fetch.Fetcher{}
	results := make(chan error, 8)
	for i := range cap(results) {
		auth := &fetch.Auth{Username: "ada", Password: fmt.Sprint(canary, i)}
		go func() {
			res, err := fetcher.Fetch(t.Context(), fetch.Request{URL: srv.URL, Auth: auth})
			if err == nil && !bytes.Equal(res.Files[0].Data, []byte("a")) {
				err = errors.New("wrong content")
			}
			results <- err
		}()
	}
	for range cap(results) {
		if err := <-results; err != nil {
			t.Error(err)
		}
	}
}
