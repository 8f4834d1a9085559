package dashboard

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/minifleet/minifleet/dashboard/store"
	"github.com/minifleet/minifleet/internal/view"
)

// event is one of a stream.
type event struct{ name, id, data string }

func (e event) change(t *testing.T) view.Change {
	t.Helper()
	var c view.Change
	if err := json.Unmarshal([]byte(e.data), &c); err != nil {
		t.Fatalf("%s: %v", e.data, err)
	}
	return c
}

// streamServer is a server with quick streams, and its address.
func streamServer(t *testing.T, access *fakeAccess, change func(*StreamOptions), objects ...any) (*Server, string) {
	t.Helper()
	s := newServer(access, objects...)
	o := StreamOptions{Batch: 20 * time.Millisecond, Ping: time.Hour, Recheck: time.Hour, WriteTimeout: 300 * time.Millisecond}
	if change != nil {
		change(&o)
	}
	o.setDefaults()
	s.o.Stream, s.streams, s.o.Now = o, newStreams(streamChanges, o), time.Now
	web := httptest.NewServer(s.Handler())
	t.Cleanup(web.Close)
	t.Cleanup(s.streams.stop)
	return s, web.URL + "/api/v1/stream"
}

// follow returns a function that returns the next event of a stream; its name is empty after the last.
func follow(t *testing.T, url, after string) func() event {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	if after != "" {
		req.Header.Set("Last-Event-ID", after)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = res.Body.Close() })
	if res.StatusCode != http.StatusOK || res.Header.Get("Content-Type") != "text/event-stream" || res.Header.Get("Content-Encoding") != "" {
		t.Fatal(res.Status, res.Header)
	}
	lines := bufio.NewScanner(res.Body)
	lines.Buffer(nil, 8<<20)
	return func() event {
		var e event
		for lines.Scan() {
			field, value, _ := strings.Cut(lines.Text(), ": ")
			switch field {
			case "event":
				e.name = value
			case "id":
				e.id = value
			case "data":
				e.data = value
			case "":
				return e
			}
		}
		return event{}
	}
}

func names(rows []view.Row) []string {
	var out []string
	for _, r := range rows {
		out = append(out, r.Namespace+"/"+r.Name)
	}
	return out
}

func TestStream(t *testing.T) {
	access := &fakeAccess{namespaces: scope{"physics"}}
	s, url := streamServer(t, access, nil, fleetMiniCluster("physics", "a", "alpine"))
	next := follow(t, url, "")
	hello := next()
	if c := hello.change(t); hello.name != "hello" || hello.id != s.store.Cursor() || c.Cursor != hello.id || c.Now.IsZero() || len(c.MiniClusters) > 0 {
		t.Fatalf("got %+v", hello)
	}
	s.store.SetMiniCluster(fleetMiniCluster("chemistry", "hidden", "alpine"))
	s.store.SetMember(memberCluster("alpine"))
	s.store.SetMiniCluster(fleetMiniCluster("physics", "b", "alpine"))
	first := next()
	if got := first.change(t); first.name != "change" || !cmp.Equal(names(got.MiniClusters), []string{"physics/b"}) || len(got.Members) > 0 || strings.Contains(first.data, "chemistry") {
		t.Errorf("got %+v", first)
	}
	for i := range 10 {
		f := fleetMiniCluster("physics", "b", "alpine")
		f.ResourceVersion = fmt.Sprint(i + 2)
		s.store.SetMiniCluster(f)
	}
	s.store.DeleteMiniCluster(store.Key{Namespace: "physics", Name: "a"})
	s.store.DeleteMiniCluster(store.Key{Namespace: "chemistry", Name: "hidden"})
	var rows, removed int
	for removed == 0 {
		c := next().change(t)
		rows, removed = rows+len(c.MiniClusters), removed+len(c.Removed)
	}
	if rows == 0 || rows > 2 || removed != 1 {
		t.Errorf("got %d rows and %d removed", rows, removed)
	}
}

func TestStreamResumes(t *testing.T) {
	s, url := streamServer(t, &fakeAccess{namespaces: scope{"physics"}}, nil)
	cursor := s.store.Cursor()
	s.store.SetMiniCluster(fleetMiniCluster("physics", "a", "alpine"))
	for name, follow := range map[string]func() event{"header": follow(t, url, cursor), "parameter": follow(t, url+"?after="+cursor, "")} {
		if hello := follow(); hello.name != "hello" || !cmp.Equal(names(hello.change(t).MiniClusters), []string{"physics/a"}) {
			t.Errorf("%s: got %+v", name, hello)
		}
	}
	for name, id := range map[string]string{
		"another process's": "OTHER-1", "not a cursor": "x", "yet to come": strings.TrimSuffix(cursor, "0") + "99",
	} {
		next := follow(t, url, id)
		if hello, reset := next(), next(); !hello.change(t).Reset || reset.name != "reset" || reset.change(t).Cursor != s.store.Cursor() {
			t.Errorf("%s: got %+v and %+v", name, hello, reset)
		}
	}
}

// Who falls behind the log is told to read everything again.
func TestStreamResets(t *testing.T) {
	s, url := streamServer(t, &fakeAccess{namespaces: scope{"*"}}, func(o *StreamOptions) { o.Batch = 100 * time.Millisecond })
	s.store = store.New("e", 8)
	next := follow(t, url, "")
	next()
	for i := range 100 {
		s.store.SetMiniCluster(fleetMiniCluster("physics", fmt.Sprint("m", i), "alpine"))
	}
	for {
		e := next()
		if e.name == "reset" {
			if c := e.change(t); !c.Reset || c.Cursor != e.id || len(c.MiniClusters) > 0 {
				t.Errorf("got %+v", e)
			}
			return
		}
		if e.name != "change" {
			t.Fatalf("got %+v", e)
		}
	}
}

// A client that does not read is dropped, and holds nobody up.
func TestStreamOfSlowClient(t *testing.T) {
	s, url := streamServer(t, &fakeAccess{namespaces: scope{"*"}}, func(o *StreamOptions) { o.Batch = time.Millisecond })
	address := strings.TrimPrefix(strings.TrimSuffix(url, "/api/v1/stream"), "http://")
	var d net.Dialer
	conn, err := d.DialContext(t.Context(), "tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	_ = conn.(*net.TCPConn).SetReadBuffer(4096)
	if _, err := fmt.Fprintf(conn, "GET /api/v1/stream HTTP/1.1\r\nHost: %s\r\n\r\n", address); err != nil {
		t.Fatal(err)
	}
	open := func() int {
		s.streams.mu.Lock()
		defer s.streams.mu.Unlock()
		return s.streams.total
	}
	wait(t, func() bool { return open() == 1 })
	done := make(chan struct{})
	go func() {
		defer close(done)
		for i := 0; open() > 0 && i < 1000; i++ {
			for n := range 500 {
				f := fleetMiniCluster("physics", fmt.Sprint("m", n), "alpine")
				f.ResourceVersion = fmt.Sprint(i)
				s.store.SetMiniCluster(f)
			}
			time.Sleep(5 * time.Millisecond)
		}
	}()
	<-done
	wait(t, func() bool { return open() == 0 })
}

func wait(t *testing.T, until func() bool) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); !until(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("it did not happen")
		}
	}
}

func TestStreamEnds(t *testing.T) {
	quick := func(o *StreamOptions) { o.Recheck = 10 * time.Millisecond }
	cases := map[string]struct {
		change func(*fakeAccess)
		want   event
	}{
		"login":       {func(a *fakeAccess) { a.login = errReviews }, event{name: "bye", data: byeLogin}},
		"forbidden":   {func(a *fakeAccess) { a.namespaces = nil }, event{name: "bye", data: byeForbidden}},
		"unavailable": {func(a *fakeAccess) { a.err = errReviews }, event{name: "bye", data: byeUnavailable}},
		"login cannot be checked": {func(a *fakeAccess) { a.login = fmt.Errorf("%w: it hangs", ErrUnavailable) },
			event{name: "bye", data: byeUnavailable}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			access := &fakeAccess{namespaces: scope{"physics"}}
			_, url := streamServer(t, access, quick)
			next := follow(t, url, "")
			next()
			access.set(c.change)
			if got := next(); got != c.want {
				t.Errorf("got %+v, want %+v", got, c.want)
			}
			if got := next(); got.name != "" {
				t.Errorf("it goes on with %+v", got)
			}
		})
	}
	t.Run("shutdown", func(t *testing.T) {
		s, url := streamServer(t, &fakeAccess{}, nil)
		next := follow(t, url, "")
		next()
		s.streams.stop()
		if got := next(); got != (event{name: "bye", data: byeShutdown}) {
			t.Errorf("got %+v", got)
		}
		if w := request(s, "/stream"); w.Code != http.StatusServiceUnavailable {
			t.Errorf("got %d", w.Code)
		}
	})
}

// Once a right is lost, nothing that it was for is sent; the rest goes on after a reset.
func TestStreamWithOtherRights(t *testing.T) {
	access := &fakeAccess{namespaces: scope{"physics", "chemistry"}}
	s, url := streamServer(t, access, func(o *StreamOptions) { o.Recheck = 10 * time.Millisecond },
		fleetMiniCluster("physics", "a", "alpine"), fleetMiniCluster("chemistry", "b", "alpine"))
	next := follow(t, url, "")
	next()
	access.set(func(a *fakeAccess) { a.namespaces = scope{"physics"} })
	if got := next(); got.name != "reset" || !got.change(t).Reset {
		t.Fatalf("got %+v", got)
	}
	s.store.SetMiniCluster(fleetMiniCluster("chemistry", "c", "alpine"))
	s.store.SetMiniCluster(fleetMiniCluster("physics", "d", "alpine"))
	if got := next(); got.name != "change" || !cmp.Equal(names(got.change(t).MiniClusters), []string{"physics/d"}) {
		t.Errorf("got %+v", got)
	}
}

func TestStreamPings(t *testing.T) {
	s, url := streamServer(t, &fakeAccess{}, func(o *StreamOptions) { o.Ping = 10 * time.Millisecond })
	next := follow(t, url, "")
	next()
	s.store.SetMiniCluster(fleetMiniCluster("physics", "hidden", "alpine"))
	for {
		e := next()
		if e.name != "ping" || !strings.Contains(e.data, `"now"`) {
			t.Fatalf("got %+v", e)
		}
		if e.id == s.store.Cursor() {
			return
		}
	}
}

func TestStreamLimits(t *testing.T) {
	s, url := streamServer(t, &fakeAccess{}, func(o *StreamOptions) { o.PerPerson, o.Total = 2, 3 })
	follow(t, url, "")()
	follow(t, url, "")()
	if w := request(s, "/stream"); w.Code != http.StatusTooManyRequests {
		t.Errorf("got %d for a third stream of a person", w.Code)
	}
	another := func(name string) int {
		s.o.Person = func(context.Context) (Person, error) { return Person{Name: name}, nil }
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		w := httptest.NewRecorder()
		s.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/api/v1/stream", nil).WithContext(ctx))
		return w.Code
	}
	if code := another("bob"); code != http.StatusOK {
		t.Errorf("got %d for another person", code)
	}
	s.o.Person = func(context.Context) (Person, error) { return Person{Name: "carol"}, nil }
	follow(t, url, "")()
	if code := another("dan"); code != http.StatusServiceUnavailable {
		t.Errorf("got %d for too many in all", code)
	}
}

// Streams on which nothing happens ask for nothing but rights.
func TestIdleStreams(t *testing.T) {
	access := &fakeAccess{namespaces: scope{"physics"}}
	s, url := streamServer(t, access, nil)
	for range 100 {
		follow(t, url, "")()
	}
	access.set(func(a *fakeAccess) { a.asked = 0 })
	for i := range 50 {
		s.store.SetMiniCluster(fleetMiniCluster("physics", fmt.Sprint("m", i), "alpine"))
	}
	time.Sleep(200 * time.Millisecond)
	access.set(func(a *fakeAccess) {
		if a.asked != 0 {
			t.Errorf("asked %d times", a.asked)
		}
	})
}
