package dashboard

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/minifleet/minifleet/internal/view"
)

// StreamOptions are intervals and limits of streams. Zero values stand for the defaults.
type StreamOptions struct {
	// Batch is the shortest time between two changes that are sent (200 ms), Ping that between two signs of life (15 s).
	Batch, Ping time.Duration
	// Recheck is the time after which it is asked again what the person may see (10 s).
	Recheck time.Duration
	// WriteTimeout is how long a client may take to read what is sent (10 s).
	WriteTimeout time.Duration
	// PerPerson (128) and Total (1000) are how many streams there may be at once.
	PerPerson, Total int
}

func (o *StreamOptions) setDefaults() {
	o.Batch = cmp.Or(o.Batch, 200*time.Millisecond)
	o.Ping = cmp.Or(o.Ping, 15*time.Second)
	o.Recheck = cmp.Or(o.Recheck, 10*time.Second)
	o.WriteTimeout = cmp.Or(o.WriteTimeout, 10*time.Second)
	o.PerPerson = cmp.Or(o.PerPerson, 128)
	o.Total = cmp.Or(o.Total, 1000)
}

const (
	// recheckTimeout bounds the reviews of one recheck.
	recheckTimeout = 5 * time.Second
	// reconnectAfter is how long browsers wait before they connect again, in milliseconds.
	reconnectAfter = "2000"
)

// Reasons for the end of a stream.
const (
	byeForbidden   = "forbidden"   // nothing may be seen any more
	byeLogin       = "login"       // the session or the token has ended
	byeShutdown    = "shutdown"    // the server stops
	byeUnavailable = "unavailable" // it is not known any more what may be seen
)

// streams counts those of one kind that are open.
type streams struct {
	o       StreamOptions
	open    prometheus.Gauge
	stopped chan struct{}
	once    sync.Once

	mu    sync.Mutex
	total int
	by    map[string]int // by person
}

func newStreams(kind string, o StreamOptions) *streams {
	return &streams{o: o, open: openStreams.WithLabelValues(kind), stopped: make(chan struct{}), by: map[string]int{}}
}

// stop ends all streams, and refuses new ones.
func (s *streams) stop() { s.once.Do(func() { close(s.stopped) }) }

// admit lets a person have one more stream. The error is an answer.
func (s *streams) admit(person string) (release func(), err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.isStopped():
		return nil, unavailable("the server stops")
	case s.by[person] >= s.o.PerPerson:
		return nil, huma.Error429TooManyRequests("you have too many streams open: close some tabs, or ask for changes from time to time instead")
	case s.total >= s.o.Total:
		return nil, unavailable("there are too many streams: ask for changes from time to time instead")
	}
	s.total++
	s.by[person]++
	s.open.Inc()
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.total--
		s.open.Dec()
		if s.by[person]--; s.by[person] == 0 {
			delete(s.by, person)
		}
	}, nil
}

func (s *streams) isStopped() bool {
	select {
	case <-s.stopped:
		return true
	default:
		return false
	}
}

// stream answers with changes as they happen. It has no buffer: it reads the store's log where it has come to, and when
// the log does not go back so far any more, the client is told to read everything again.
func (s *Server) stream(ctx context.Context, in *streamRequest) (*huma.StreamResponse, error) {
	r, err := s.read(ctx)
	if err != nil {
		return nil, err
	}
	who, err := s.o.Person(ctx)
	if err != nil {
		return nil, errRights
	}
	release, err := s.streams.admit(who.Name)
	if err != nil {
		return nil, err
	}
	return &huma.StreamResponse{Body: func(hc huma.Context) {
		defer release()
		_, w := humago.Unwrap(hc)
		c := &connection{Server: s, w: w, control: http.NewResponseController(w), reader: r}
		c.serve(hc.Context(), cmp.Or(in.LastEventID, in.After))
	}}, nil
}

// connection is a stream to one client.
type connection struct {
	*Server
	w       http.ResponseWriter
	control *http.ResponseController
	reader  *reader
	// cursor is up to where the client has been told.
	cursor string
	// doubtful says that it is not known whether the reader may see still what they might. Nothing is sent then.
	doubtful bool
}

func (c *connection) serve(ctx context.Context, after string) {
	h := c.w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Accel-Buffering", "no")
	lift(c.control)
	if !c.hello(after) {
		return
	}
	ping, recheck := time.NewTicker(c.o.Stream.Ping), time.NewTicker(c.o.Stream.Recheck)
	defer ping.Stop()
	defer recheck.Stop()
	pause := time.NewTimer(0) // the first change is sent at once
	defer pause.Stop()
	ready := false // enough time has elapsed since the last change, so that another may be sent
	for ok := true; ok; {
		var changed <-chan struct{}
		if ready && !c.doubtful {
			changed = c.store.Changed(c.cursor)
		}
		select {
		case <-ctx.Done():
			return
		case <-c.streams.stopped:
			c.bye(byeShutdown)
			return
		case <-pause.C:
			ready = true
		case <-changed:
			ready = false
			pause.Reset(c.o.Stream.Batch)
			ok = c.change()
		case <-ping.C:
			ok = c.ping()
		case <-recheck.C:
			ok = c.recheck(ctx)
		}
	}
}

// hello tells what has changed after a cursor, or where the stream begins. False means that the client is not there.
func (c *connection) hello(after string) bool {
	out := view.Change{MiniClusters: []view.Row{}, Removed: []view.Ref{}, Members: []string{}, Sources: []view.Ref{}}
	if after == "" {
		out.Cursor = c.store.Cursor()
	} else {
		out = c.store.Changes(after, c.reads(c.reader))
	}
	c.cursor, out.Now = out.Cursor, c.o.Now()
	if !c.send("hello", c.cursor, out) {
		return false
	}
	return !out.Reset || c.send("reset", c.cursor, out)
}

// change sends what has changed since. What the reader may not see is not even worth an event.
func (c *connection) change() bool {
	out := c.store.Changes(c.cursor, c.reads(c.reader))
	c.cursor, out.Now = out.Cursor, c.o.Now()
	switch {
	case out.Reset:
		return c.send("reset", c.cursor, out)
	case len(out.MiniClusters)+len(out.Removed)+len(out.Members)+len(out.Sources) == 0 && !out.Queue:
		return true
	default:
		return c.send("change", c.cursor, out)
	}
}

// ping is a sign of life. Its id moves a client on that was told of nothing because there was nothing for it.
func (c *connection) ping() bool {
	return c.send("ping", c.cursor, map[string]time.Time{"now": c.o.Now()})
}

func (c *connection) bye(reason string) { c.write([]byte("event: bye\ndata: " + reason + "\n\n")) }

// recheck asks again what the person may see. False means that the stream has ended.
func (c *connection) recheck(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, recheckTimeout)
	defer cancel()
	err := c.reader.access.Recheck(ctx)
	if err != nil && !errors.Is(err, ErrUnavailable) {
		c.bye(byeLogin)
		return false
	}
	var next *reader
	if err == nil {
		next, err = c.readerOf(ctx)
	}
	switch {
	case err != nil && c.doubtful:
		c.bye(byeUnavailable)
		return false
	case err != nil:
		c.doubtful = true
		return true
	}
	before := c.reader
	c.reader, c.doubtful = next, false
	switch {
	case next.none() && !before.none():
		c.bye(byeForbidden)
		return false
	case !next.same(before, c.store.Namespaces()):
		c.cursor = c.store.Cursor()
		return c.send("reset", c.cursor, view.Change{
			Cursor: c.cursor, Reset: true, Now: c.o.Now(), MiniClusters: []view.Row{}, Removed: []view.Ref{}, Members: []string{}, Sources: []view.Ref{},
		})
	default:
		return true
	}
}

// none says that the reader may see nothing.
func (r *reader) none() bool { return r.miniClusters.None() && r.sources.None() && !r.members }

// same says whether two readers may see the same of these namespaces.
func (r *reader) same(o *reader, namespaces []string) bool {
	return r.members == o.members && !slices.ContainsFunc(namespaces, func(n string) bool {
		return r.miniClusters.Has(n) != o.miniClusters.Has(n) || r.sources.Has(n) != o.sources.Has(n)
	})
}

// send sends an event. False means that the client is not there, or does not read.
func (c *connection) send(event, id string, data any) bool {
	raw, err := json.Marshal(data)
	if err != nil {
		c.o.Log.Error(err, "an event of the dashboard's stream cannot be encoded")
		return false
	}
	var b bytes.Buffer
	b.Grow(len(raw) + 100)
	if event == "hello" {
		b.WriteString("retry: " + reconnectAfter + "\n")
	}
	b.WriteString("event: " + event + "\nid: " + id + "\ndata: ")
	b.Write(raw) // JSON has no line breaks
	b.WriteString("\n\n")
	return c.write(b.Bytes())
}

func (c *connection) write(event []byte) bool {
	// Not every writer has a deadline; then the client's connection has to end by itself.
	_ = c.control.SetWriteDeadline(c.o.Now().Add(c.o.Stream.WriteTimeout))
	if _, err := c.w.Write(event); err != nil {
		return false
	}
	if c.control.Flush() != nil {
		return false
	}
	_ = c.control.SetWriteDeadline(time.Time{}) // over HTTP/2 it would end the stream although nothing waits to be sent
	return true
}

// lift takes away the times that a request may take, which would end a stream. Not every writer has them.
func lift(control *http.ResponseController) {
	_ = control.SetReadDeadline(time.Time{})
	_ = control.SetWriteDeadline(time.Time{})
}
