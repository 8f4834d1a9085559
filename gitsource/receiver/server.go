package receiver

import (
	"crypto/hmac"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/types"

	"github.com/minifleet/minifleet/api/v1alpha1"
)

const (
	// MaxBody is how long a body may be: that of GitHub is at most 25 MB. It is signed as a whole, so all of it is read.
	MaxBody = 25 << 20
	// maxPayload is how much of it is kept. A longer one is believed by its signature, and not parsed.
	maxPayload = 128 << 10
	// quiet is how long nothing more is told of refusals, or of pings, of one hook.
	quiet = time.Minute
)

// Sink is told of what has been asked for by whoever knows a token. Neither method blocks.
type Sink interface {
	// Trigger has a source reconciled after a while, once more where a reconciliation is under way.
	Trigger(source types.NamespacedName, after time.Duration)
	// Ping says that a forge has asked whether anybody answers.
	Ping(source types.NamespacedName, sender v1alpha1.ReceiverType)
}

// Options of a Server.
type Options struct {
	Now func() time.Time
	Log logr.Logger
	// Limits are DefaultLimits where they are nil.
	Limits *Limits
}

// Server answers webhooks. It holds the hooks of all sources in memory: no request leads to one to the hub.
type Server struct {
	o     Options
	hooks *hooks
	sink  atomic.Pointer[Sink]
	// nobody is the token of paths without a hook.
	nobody []byte
}

// New returns a server that knows no hook yet.
func New(o Options) *Server {
	limits := DefaultLimits()
	if o.Limits != nil {
		limits = *o.Limits
	}
	return &Server{o: o, hooks: newHooks(limits), nobody: []byte(rand.Text())}
}

// SetSink says who is told. It is set before the server is used.
func (s *Server) SetSink(sink Sink) { s.sink.Store(&sink) }

// Register adds the hook of a source, or replaces it, and returns its path. A source whose token is refused has none.
func (s *Server) Register(h Hook) (path string, err error) { return s.hooks.put(h) }

// Path is that of a source as it is in one generation; empty where that was not registered.
func (s *Server) Path(source types.NamespacedName, uid types.UID, generation int64) string {
	return s.hooks.path(source, uid, generation)
}

// Remove takes the hook of a source away.
func (s *Server) Remove(source types.NamespacedName) { s.hooks.remove(source) }

// notAccepted is the answer to a path without a hook, and to whoever does not know the token: nobody learns which it is.
const notAccepted = "not accepted: there is no receiver at this path, or this is not signed with its token"

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	status, text := s.answer(w, r)
	if result, ok := results[status]; ok {
		answered.WithLabelValues(result).Inc()
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, text+"\n") // whoever has hung up need not be told
}

func (s *Server) answer(w http.ResponseWriter, r *http.Request) (status int, text string) {
	switch {
	case !strings.HasPrefix(r.URL.Path, pathPrefix):
		return http.StatusNotFound, "not found: the path is that in status.webhookPath of a GitSource"
	case r.Method != http.MethodPost:
		w.Header().Set("Allow", http.MethodPost)
		return http.StatusMethodNotAllowed, "a webhook is a POST"
	case r.ContentLength > MaxBody:
		return tooLarge()
	}
	now := s.o.Now()
	h, requests := s.hooks.find(r.URL.Path)
	end, status := s.admit(now, h, requests)
	if end == nil {
		w.Header().Set("Connection", "close") // the body is not read
		if status == http.StatusUnauthorized {
			return status, notAccepted
		}
		w.Header().Set("Retry-After", "1")
		return status, "too many requests"
	}
	defer end()
	body, err := s.read(w, r, h)
	if exceeded := (*http.MaxBytesError)(nil); errors.As(err, &exceeded) {
		return tooLarge()
	}
	if err != nil {
		return http.StatusBadRequest, "the body could not be read to its end"
	}
	return s.judge(now, h, r.Header, body)
}

func tooLarge() (int, string) {
	return http.StatusRequestEntityTooLarge, fmt.Sprintf("the body is larger than %d MiB", MaxBody>>20)
}

// admit counts a request before anything is done for it. It returns what ends that, or with which status it is refused.
func (s *Server) admit(now time.Time, h *hook, requests *allowance) (end func(), status int) {
	if h != nil {
		return takeAll(now, requests, h.namespace, s.hooks.all), http.StatusTooManyRequests
	}
	if !requests.take(now) {
		return nil, http.StatusTooManyRequests
	}
	if !s.hooks.none.take(now) {
		requests.end()
		return nil, http.StatusUnauthorized
	}
	return func() { requests.end(); s.hooks.none.end() }, 0
}

// body is what was read of a request: its HMAC, and its beginning.
type body struct {
	sum     []byte
	payload []byte // nil where it is too long
}

// read reads a body without keeping it, and signs it with the token of a hook.
func (s *Server) read(w http.ResponseWriter, r *http.Request, h *hook) (body, error) {
	token := s.nobody
	if h != nil {
		token = h.Token
	}
	mac := hmac.New(algorithmOf(r.Header), token)
	start := &beginning{}
	if _, err := io.Copy(io.MultiWriter(mac, start), http.MaxBytesReader(w, r.Body, MaxBody)); err != nil {
		return body{}, err
	}
	return body{mac.Sum(nil), start.all()}, nil
}

// beginning keeps what comes, unless that is too long.
type beginning struct {
	kept []byte
	long bool
}

func (b *beginning) Write(p []byte) (int, error) {
	if b.long = b.long || len(b.kept)+len(p) > maxPayload; b.long {
		b.kept = nil
	} else {
		b.kept = append(b.kept, p...)
	}
	return len(p), nil
}

// all is everything that came; nil where it is too long.
func (b *beginning) all() []byte {
	if b.long || b.kept != nil {
		return b.kept
	}
	return []byte{}
}

// judge says what becomes of a request that was read.
func (s *Server) judge(now time.Time, h *hook, header http.Header, b body) (status int, text string) {
	if h == nil {
		_ = refusal(v1alpha1.ReceiverGitHub, s.nobody, header, b.sum) // takes as long
		return http.StatusUnauthorized, notAccepted
	}
	if why := refusal(h.Type, h.Token, header, b.sum); why != "" {
		if h.first(now, &h.logged) {
			s.o.Log.Info("refused a webhook", "gitSource", h.Source.String(), "reason", why)
		}
		return http.StatusUnauthorized, notAccepted
	}
	e := eventOf(h.Type, header, b.payload)
	switch {
	case e.kind == ping:
		s.ping(now, h)
		answered.WithLabelValues(resultPing).Inc()
		return http.StatusOK, "this is the receiver of GitSource " + h.Source.String()
	case !concerns(e, h.Ref):
		answered.WithLabelValues(resultIgnored).Inc()
		return http.StatusOK, "ignored: this does not move what the GitSource follows"
	}
	s.trigger(now, h)
	return http.StatusAccepted, "accepted"
}

func (s *Server) ping(now time.Time, h *hook) {
	if sink := s.sink.Load(); sink != nil && h.first(now, &h.pinged) {
		(*sink).Ping(h.Source, h.Type)
	}
}

func (s *Server) trigger(now time.Time, h *hook) {
	h.mu.Lock()
	after, due := h.pace.next(now)
	h.mu.Unlock()
	if sink := s.sink.Load(); sink != nil && due {
		(*sink).Trigger(h.Source, after)
	}
}

// first says whether something has not been told of for a while, and notes that it is now.
func (h *hook) first(now time.Time, told *time.Time) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !told.IsZero() && now.Sub(*told) < quiet {
		return false
	}
	*told = now
	return true
}
