package dashboard

import (
	"net"
	"testing"
	"time"

	"github.com/go-logr/logr"

	"github.com/minifleet/minifleet/internal/serving"
)

// A stream is open for longer than an answer may take.
func TestStreamOutlastsAnswers(t *testing.T) {
	s, _ := streamServer(t, &fakeAccess{namespaces: scope{"physics"}}, func(o *StreamOptions) { o.Ping = 500 * time.Millisecond })
	l := &serving.Listener{Log: logr.Discard(), AnswerTimeout: 200 * time.Millisecond, Handler: s.Handler()}
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = l.Serve(t.Context(), listener) }()
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
