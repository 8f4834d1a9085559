package dashboard

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// overHTTP2 begins to read an answer of a server with TLS.
func overHTTP2(t *testing.T, s *Server, path string) io.Reader {
	t.Helper()
	web := httptest.NewUnstartedServer(s.Handler())
	web.EnableHTTP2 = true
	web.StartTLS()
	t.Cleanup(web.Close)
	t.Cleanup(s.streams.stop)
	t.Cleanup(s.logs.stop)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, web.URL+"/api/v1"+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := web.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = res.Body.Close() })
	if res.ProtoMajor != 2 || res.StatusCode != http.StatusOK {
		t.Fatal(res.Proto, res.Status)
	}
	return res.Body
}

// awaitLine reads until a line begins so.
func awaitLine(t *testing.T, from io.Reader, prefix string) {
	t.Helper()
	lines := bufio.NewScanner(from)
	for lines.Scan() {
		if strings.HasPrefix(lines.Text(), prefix) {
			return
		}
	}
	t.Errorf("it has ended before %s: %v", prefix, lines.Err())
}

// Over HTTP/2 a deadline for writing ends a stream also where nothing waits to be sent.
func TestIdleStreamOverHTTP2(t *testing.T) {
	s, _ := streamServer(t, &fakeAccess{namespaces: scope{"physics"}}, nil)
	answer := overHTTP2(t, s, "/stream")
	time.Sleep(3 * s.o.Stream.WriteTimeout)
	s.store.SetMiniCluster(fleetMiniCluster("physics", "a", "alpine"))
	awaitLine(t, answer, "event: change")
}

func TestIdleLogOverHTTP2(t *testing.T) {
	in, out := io.Pipe()
	s, _ := logServer(&logMember{log: func(context.Context) io.ReadCloser { return in }})
	s.o.Now, s.o.Stream.WriteTimeout = time.Now, 300*time.Millisecond
	t.Cleanup(func() { _ = out.Close() })
	go func() { _, _ = io.WriteString(out, "2026-03-04T12:00:00.5Z first\n") }()
	answer := overHTTP2(t, s, logsOf+"?follow=true")
	awaitLine(t, answer, `{"time":"2026-03-04T12:00:00.5Z"`)
	time.Sleep(3 * s.o.Stream.WriteTimeout)
	go func() { _, _ = io.WriteString(out, "2026-03-04T12:00:01.5Z second\n") }()
	awaitLine(t, answer, `{"time":"2026-03-04T12:00:01.5Z"`)
}
