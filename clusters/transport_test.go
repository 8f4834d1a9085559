package clusters

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func observed(next http.RoundTripper) (*line, *http.Client) {
	l := newLine(time.Now, DefaultLimits())
	return l, &http.Client{Transport: &observer{line: l, next: next}}
}

func get(t *testing.T, ctx context.Context, url string) *http.Request { //nolint:revive // t comes first in tests
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	return req
}

func (l *line) doubted() bool { return len(l.suspect) > 0 }

func TestObserverOverTheNetwork(t *testing.T) {
	mux := http.NewServeMux()
	mux.HandleFunc("/ok", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `"fine"`)
	})
	mux.HandleFunc("/401", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) })
	mux.HandleFunc("/500", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) })
	mux.HandleFunc("/cut", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, "half")
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	})
	for name, http2 := range map[string]bool{"HTTP/1": false, "HTTP/2": true} {
		server := httptest.NewUnstartedServer(mux)
		server.EnableHTTP2 = http2
		server.StartTLS()
		defer server.Close()
		for path, c := range map[string]struct{ doubt, fails bool }{
			"/ok": {false, false}, "/401": {true, false}, "/500": {false, false}, "/cut": {true, true},
		} {
			t.Run(name+path, func(t *testing.T) {
				l, client := observed(server.Client().Transport)
				if !l.lastHeard().IsZero() {
					t.Error("heard before anything was asked")
				}
				resp, err := client.Do(get(t, t.Context(), server.URL+path))
				if err == nil {
					_, err = io.ReadAll(resp.Body)
					_ = resp.Body.Close()
				}
				if (err != nil) != c.fails || l.doubted() != c.doubt {
					t.Errorf("error %v, doubt %t", err, l.doubted())
				}
				if l.http1.Load() == http2 || l.lastHeard().IsZero() {
					t.Errorf("HTTP/1: %t, heard %v", l.http1.Load(), l.lastHeard())
				}
			})
		}
	}
	t.Run("nobody listens", func(t *testing.T) {
		server := httptest.NewTLSServer(mux)
		server.Close()
		l, client := observed(server.Client().Transport)
		if resp, err := client.Do(get(t, t.Context(), server.URL)); err == nil {
			_ = resp.Body.Close()
			t.Error("an answer from nobody")
		}
		if !l.doubted() || !l.lastHeard().IsZero() {
			t.Errorf("doubt %t, heard %v", l.doubted(), l.lastHeard())
		}
	})
}

// hangs answers nothing until the request is given up.
var hangs = roundTrip(func(r *http.Request) (*http.Response, error) {
	<-r.Context().Done()
	return nil, r.Context().Err()
})

// The clock in these is a fake one.
func TestObserverGivesUp(t *testing.T) {
	cases := map[string]struct {
		give  func(context.Context) (context.Context, context.CancelFunc)
		after time.Duration
		is    error
		doubt bool
	}{
		"no headers": {
			func(ctx context.Context) (context.Context, context.CancelFunc) { return context.WithCancel(ctx) },
			headerTimeout, errHeaderTimeout, true,
		},
		"the caller has lost patience": {
			func(ctx context.Context) (context.Context, context.CancelFunc) {
				return context.WithTimeout(ctx, time.Second)
			},
			time.Second, context.DeadlineExceeded, true,
		},
		"the caller has given up": {
			func(ctx context.Context) (context.Context, context.CancelFunc) {
				ctx, cancel := context.WithCancel(ctx)
				time.AfterFunc(time.Second, cancel)
				return ctx, cancel
			},
			time.Second, context.Canceled, false,
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l, client := observed(hangs)
				ctx, cancel := c.give(t.Context())
				defer cancel()
				start := time.Now()
				resp, err := client.Do(get(t, ctx, "https://member"))
				if err == nil {
					_ = resp.Body.Close()
				}
				if !errors.Is(err, c.is) || time.Since(start) != c.after || l.doubted() != c.doubt {
					t.Errorf("after %v: %v, doubt %t", time.Since(start), err, l.doubted())
				}
				if !Unanswered(err) && !errors.Is(c.is, context.Canceled) {
					t.Error("counts as an answer")
				}
			})
		})
	}
}

// A watch lives longer than the wait for its headers, and each line of it is news.
func TestObserverIgnoresWatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reader, writer := io.Pipe()
		l, client := observed(roundTrip(func(r *http.Request) (*http.Response, error) {
			context.AfterFunc(r.Context(), func() { _ = writer.CloseWithError(r.Context().Err()) })
			header := http.Header{"Content-Type": {"application/json"}}
			return &http.Response{StatusCode: http.StatusOK, Header: header, ProtoMajor: 2, Body: reader, Request: r}, nil
		}))
		ctx, cancel := context.WithCancel(t.Context())
		resp, err := client.Do(get(t, ctx, "https://member/api/v1/pods?watch=true"))
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = resp.Body.Close() }()
		time.Sleep(10 * headerTimeout)
		go func() { _, _ = io.Copy(writer, strings.NewReader("{}")) }()
		if n, err := resp.Body.Read(make([]byte, 16)); n != 2 || err != nil {
			t.Errorf("read %d, %v", n, err)
		}
		if !l.lastHeard().Equal(time.Now()) {
			t.Errorf("last heard %v", l.lastHeard())
		}
		cancel()
		if _, err := resp.Body.Read(make([]byte, 16)); err == nil || l.doubted() {
			t.Errorf("a watch that its caller ends: %v, doubt %t", err, l.doubted())
		}
	})
}
