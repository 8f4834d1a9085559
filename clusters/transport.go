package clusters

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"

	"github.com/minifleet/minifleet/api/v1alpha1"
)

// headerTimeout bounds the wait for the headers of any answer, those of a watch included. What comes
// after the headers of a watch may take forever; a connection that goes silent is found by HTTP/2 pings.
const headerTimeout = 20 * time.Second

var errHeaderTimeout = errors.New("no answer within " + headerTimeout.String())

// line observes everything that is sent to and received from one member, sends nothing elsewhere, and bounds what is
// received.
type line struct {
	now    func() time.Time
	limits Limits
	// session ends when the member is no longer connected: nothing more is sent then. It is nil in tests.
	session context.Context //nolint:containedctx // the line lives as long
	// origin is where requests go, and where alone; nil in tests. compress says that answers may be compressed.
	origin   *url.URL
	compress bool
	// end is called once, when an answer is beyond a limit. It may be nil.
	end func(error)
	// quarantine is the first such answer.
	quarantine atomic.Pointer[v1alpha1.Quarantine]
	// strikes counts answers that may be a fault of the network, since the member was last found in order. It outlives the
	// line.
	strikes *atomic.Int32
	// inFlight is the size of the answers that are received and not decoded yet.
	inFlight atomic.Int64

	// heard is the time of the last answer, in Unix nanoseconds.
	heard atomic.Int64
	// confirmed is when the member last confirmed its rights (Member.confirm), in Unix nanoseconds.
	confirmed atomic.Int64
	// dials counts connections. A new one may lead to a different server.
	dials atomic.Int64
	// suspect has room for one note that something went wrong.
	suspect chan struct{}
	// http1 says that the last answer came over HTTP/1, which has no pings.
	http1 atomic.Bool
}

func newLine(now func() time.Time, limits Limits) *line {
	return &line{now: now, limits: limits, strikes: &atomic.Int32{}, suspect: make(chan struct{}, 1)}
}

// install puts the line between a client configuration and the network. Warnings of the member are dropped: client-go would
// print them as they come.
func (l *line) install(cfg *rest.Config) error {
	origin, _, err := rest.DefaultServerUrlFor(cfg)
	if err != nil {
		return err
	}
	l.origin = &url.URL{Scheme: origin.Scheme, Host: origin.Host}
	// The line decompresses, so that it counts what is received and what comes of it.
	l.compress, cfg.DisableCompression = !cfg.DisableCompression, true
	cfg.WarningHandler, cfg.WarningHandlerWithContext = rest.NoWarnings{}, nil
	dialer := &net.Dialer{Timeout: 5 * time.Second, KeepAlive: 15 * time.Second}
	cfg.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
		l.dials.Add(1)
		return dialer.DialContext(ctx, network, address)
	}
	cfg.Wrap(func(next http.RoundTripper) http.RoundTripper {
		boundHeaders(next, l.limits.Header)
		return &observer{line: l, next: next}
	})
	return nil
}

// boundHeaders limits the headers of answers, which rest.Config has no field for. The transport is the line's own: none is
// shared by two dialers.
func boundHeaders(t http.RoundTripper, most int64) {
	for t != nil {
		switch next := t.(type) {
		case *http.Transport:
			next.MaxResponseHeaderBytes = most
			return
		case utilnet.RoundTripperWrapper:
			t = next.WrappedRoundTripper()
		default:
			return
		}
	}
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

// beyond notes that an answer was beyond a limit, which ends the connection, and returns the error for whoever has asked.
func (l *line) beyond(limit, asked string) error {
	q := quarantined(&l.limits, limit, asked, l.now())
	if l.quarantine.CompareAndSwap(nil, q) && l.end != nil {
		l.end(errQuarantined)
	}
	return &Error{v1alpha1.ReasonQuarantined, fmt.Errorf("the member's answer to %s is beyond the limit %s (%s)", q.Asked, q.Limit, q.Allowed)}
}

var errQuarantined = errors.New("an answer of the member was beyond a limit")

// refuse returns why a request is not sent.
func (l *line) refuse(req *http.Request) error {
	switch {
	case l.quarantine.Load() != nil, l.session != nil && l.session.Err() != nil:
		return &Error{v1alpha1.ReasonUnreachable, errors.New("the member is no longer connected")}
	case l.origin != nil && (req.URL.Scheme != l.origin.Scheme || req.URL.Host != l.origin.Host || req.Host != "" && req.Host != l.origin.Host):
		return &Error{v1alpha1.ReasonRedirectRefused, fmt.Errorf("a request to %s was refused: the kubeconfig leads to %s, and nothing is sent elsewhere", origin(req.URL), origin(l.origin))}
	default:
		return nil
	}
}

func origin(u *url.URL) string { return u.Scheme + "://" + u.Host }

// redirected is the error for an answer that leads elsewhere, where credentials would be sent to.
func redirected(resp *http.Response) error {
	if resp.StatusCode < http.StatusMultipleChoices || resp.StatusCode >= http.StatusBadRequest {
		return nil
	}
	return &Error{v1alpha1.ReasonRedirectRefused, fmt.Errorf(
		"what answers at the member's address redirects (HTTP %d), which is refused: set cluster.server of the kubeconfig to the address of the API server itself", resp.StatusCode)}
}

type observer struct {
	line *line
	next http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (o *observer) RoundTrip(req *http.Request) (*http.Response, error) {
	if err := o.line.refuse(req); err != nil {
		if req.Body != nil {
			_ = req.Body.Close()
		}
		return nil, err
	}
	how := answerTo(req)
	parent := req.Context()
	ctx, cancel := context.WithCancelCause(parent)
	timer := time.AfterFunc(headerTimeout, func() { cancel(errHeaderTimeout) })
	req = req.WithContext(ctx)
	resp, err := o.next.RoundTrip(o.line.prepare(req, how))
	timer.Stop()
	if err != nil {
		defer cancel(nil)
		if isHeaderLimit(err) {
			return nil, o.line.beyond(limitHeader, asked(req))
		}
		if breaksHTTP2(err) {
			return nil, o.line.strike(limitHeader, req, "breaks the protocol of HTTP/2, or its headers are too large")
		}
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
	if err := redirected(resp); err != nil {
		_ = resp.Body.Close()
		o.line.doubt()
		return nil, err
	}
	if !how.isStream(resp) {
		timer = time.AfterFunc(o.line.limits.Answer, func() { cancel(errAnswerTime) })
		defer timer.Stop()
	}
	resp, err = o.line.bound(req, resp, how)
	if errors.Is(context.Cause(ctx), errAnswerTime) && !isQuarantined(err) {
		if err == nil {
			_ = resp.Body.Close()
		}
		return nil, o.line.strike(limitAnswer, req, "did not end within "+o.line.limits.Answer.String())
	}
	return resp, err
}

// isHeaderLimit says whether a transport has refused the headers of an answer for their size, which has no error of its own.
func isHeaderLimit(err error) bool {
	text := err.Error()
	return strings.Contains(text, "server response headers exceeded") || strings.Contains(text, "response header list larger than")
}

// breaksHTTP2 says whether a transport has given up a connection for what came, such as headers far too large. That comes
// from whoever has the key of the certificate, not from the network.
func breaksHTTP2(err error) bool {
	text := err.Error()
	return strings.Contains(text, "connection error: PROTOCOL_ERROR") || strings.Contains(text, "connection error: COMPRESSION_ERROR")
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
