package dashboard

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/go-logr/logr"
)

// Whoever asks and does not read the answer does not hold a connection for ever.
func TestAnswerThatIsNotRead(t *testing.T) {
	result := make(chan error, 1)
	answer := bytes.Repeat([]byte("x"), 64<<20)
	l := &Listener{Log: logr.Discard(), answerTimeout: 300 * time.Millisecond, Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, err := w.Write(answer)
		result <- err
	})}
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- l.serve(ctx, listener) }()
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
	case <-time.After(10 * time.Second):
		t.Error("it is waited for somebody who does not read")
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// A stream is open for longer than an answer may take.
func TestStreamOutlastsAnswers(t *testing.T) {
	s, _ := streamServer(t, &fakeAccess{namespaces: scope{"physics"}}, func(o *StreamOptions) { o.Ping = 500 * time.Millisecond })
	l := &Listener{Log: logr.Discard(), answerTimeout: 200 * time.Millisecond, Handler: s.Handler()}
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = l.serve(t.Context(), listener) }()
	next := follow(t, "http://"+listener.Addr().String()+"/api/v1/stream", "")
	if e := next(); e.name != "hello" {
		t.Fatalf("%+v", e)
	}
	for range 2 {
		if e := next(); e.name != "ping" {
			t.Fatalf("%+v", e)
		}
	}
}
