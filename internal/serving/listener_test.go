package serving_test

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"

	"github.com/minifleet/minifleet/internal/serving"
)

// Whoever asks and does not read the answer does not hold a connection for ever.
func TestAnswerThatIsNotRead(t *testing.T) {
	result := make(chan error, 1)
	answer := bytes.Repeat([]byte("x"), 64<<20)
	l := &serving.Listener{Log: logr.Discard(), AnswerTimeout: 300 * time.Millisecond, Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, err := w.Write(answer)
		result <- err
	})}
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- l.Serve(ctx, listener) }()
	client, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = client.Close() }()
	if _, err := io.WriteString(client, "GET / HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-result:
		if err == nil {
			t.Error("all was sent to somebody who does not read")
		}
	case <-time.After(time.Minute):
		t.Error("it is waited for somebody who does not read")
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// The address is taken away before the program ends.
func TestAnnouncementEndsFirst(t *testing.T) {
	announced, ended := make(chan struct{}), false
	l := &serving.Listener{Name: "test", Address: "127.0.0.1:0", Handler: http.NotFoundHandler(), Log: logr.Discard(), Announce: func(ctx context.Context) {
		close(announced)
		<-ctx.Done()
		ended = true
	}}
	ctx, cancel := context.WithCancel(t.Context())
	result := make(chan error, 1)
	go func() { result <- l.Start(ctx) }()
	<-announced
	cancel()
	if err := <-result; err != nil || !ended {
		t.Error(err, ended)
	}
}

// Whoever opens more connections than there may be waits until another one has ended.
func TestConnectionsAreLimited(t *testing.T) {
	address := make(chan string, 1)
	log := funcr.New(func(_, args string) {
		if _, url, ok := strings.Cut(args, `"url"="http://`); ok {
			address <- strings.TrimSuffix(url, `"`)
		}
	}, funcr.Options{})
	l := &serving.Listener{Name: "test", Address: "127.0.0.1:0", MaxConnections: 1, Handler: http.NotFoundHandler(), Log: log}
	go func() { _ = l.Start(t.Context()) }()
	at := <-address
	dial := func() net.Conn {
		conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", at)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		return conn
	}
	ask := func(conn net.Conn) error {
		if _, err := io.WriteString(conn, "GET / HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
			return err
		}
		_, err := conn.Read(make([]byte, 1))
		return err
	}
	first := dial()
	if err := ask(first); err != nil {
		t.Fatal(err)
	}
	answered := make(chan error, 1)
	second := dial()
	go func() { answered <- ask(second) }()
	select {
	case err := <-answered:
		t.Error("a second connection is answered:", err)
	case <-time.After(100 * time.Millisecond):
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-answered; err != nil {
		t.Error(err)
	}
}
