package clusters

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/client-go/rest"
)

// headerTimeout bounds the wait for the headers of any answer, those of a watch included. What comes
// after the headers of a watch may take forever; a connection that goes silent is found by HTTP/2 pings.
const headerTimeout = 20 * time.Second

var errHeaderTimeout = errors.New("no answer within " + headerTimeout.String())

// line observes everything that is sent to and received from one member.
type line struct {
	now func() time.Time

	// heard is the time of the last answer, in Unix nanoseconds.
	heard atomic.Int64
	// dials counts connections. A new one may lead to a different server.
	dials atomic.Int64
	// suspect has room for one note that something went wrong.
	suspect chan struct{}
	// http1 says that the last answer came over HTTP/1, which has no pings.
	http1 atomic.Bool
}

func newLine(now func() time.Time) *line {
	return &line{now: now, suspect: make(chan struct{}, 1)}
}

// install puts the line between a client configuration and the network.
func (l *line) install(cfg *rest.Config) {
	dialer := &net.Dialer{Timeout: 5 * time.Second, KeepAlive: 15 * time.Second}
	cfg.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
		l.dials.Add(1)
		return dialer.DialContext(ctx, network, address)
	}
	cfg.Wrap(func(next http.RoundTripper) http.RoundTripper { return &observer{line: l, next: next} })
}

// lastHeard is the time of the last answer, or zero.
func (l *line) lastHeard() time.Time {
	n := l.heard.Load()
	if n == 0 {
		return time.Time{}
	}
	return time.Unix(0, n)
}

func (l *line) answered() { l.heard.Store(l.now().UnixNano()) }

func (l *line) doubt() {
	select {
	case l.suspect <- struct{}{}:
	default:
	}
}

type observer struct {
	line *line
	next http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (o *observer) RoundTrip(req *http.Request) (*http.Response, error) {
	parent := req.Context()
	ctx, cancel := context.WithCancelCause(parent)
	timer := time.AfterFunc(headerTimeout, func() { cancel(errHeaderTimeout) })
	resp, err := o.next.RoundTrip(req.WithContext(ctx))
	timer.Stop()
	if err != nil {
		defer cancel(nil)
		// A caller that has lost patience is news of the member too; one that was told to end is not.
		if !errors.Is(parent.Err(), context.Canceled) {
			o.line.doubt()
		}
		if cause := context.Cause(ctx); errors.Is(cause, errHeaderTimeout) {
			return nil, cause
		}
		return nil, err
	}
	o.line.answered()
	o.line.http1.Store(resp.ProtoMajor < 2)
	if resp.StatusCode == http.StatusUnauthorized || cacheRefused(req, resp.StatusCode) {
		o.line.doubt()
	}
	resp.Body = &observedBody{ReadCloser: resp.Body, line: o.line, parent: parent, cancel: cancel}
	return resp, nil
}

// cacheRefused says whether a cache was refused its list or watch, so that it would grow old in silence. A
// version that is too old and too many requests are ordinary.
func cacheRefused(req *http.Request, code int) bool {
	switch code {
	case http.StatusGone, http.StatusTooManyRequests, http.StatusUnprocessableEntity:
		return false
	}
	return req.Method == http.MethodGet && code >= http.StatusBadRequest && isOwnedList(req.URL.Path)
}

// WrappedRoundTripper lets client-go find the transport below.
func (o *observer) WrappedRoundTripper() http.RoundTripper { return o.next }

type observedBody struct {
	io.ReadCloser
	line   *line
	parent context.Context //nolint:containedctx // that of the request, for as long as its answer is read
	cancel context.CancelCauseFunc
	once   sync.Once
	closed atomic.Bool
}

func (b *observedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if n > 0 {
		b.line.answered()
	}
	if err != nil && !errors.Is(err, io.EOF) && !b.closed.Load() && !errors.Is(b.parent.Err(), context.Canceled) {
		b.once.Do(b.line.doubt)
	}
	return n, err
}

func (b *observedBody) Close() error {
	b.closed.Store(true)
	err := b.ReadCloser.Close()
	b.cancel(nil)
	return err
}
