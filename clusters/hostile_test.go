package clusters

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	"github.com/minifleet/minifleet/api/v1alpha1"
)

// smallLimits are reached with little.
func smallLimits() Limits {
	l := DefaultLimits()
	l.Header, l.Object, l.List, l.Values, l.InFlight = 16<<10, 64<<10, 128<<10, 1000, 256<<10
	l.Objects, l.Pages, l.Cached = 100, 20, 128<<10
	l.Answer, l.Strikes, l.Page = time.Minute, 1, 10
	return l
}

// hostile is a member's API server that does what a test wants.
type hostile struct {
	*httptest.Server
	sent     atomic.Int64 // bytes of bodies that were handed to the network
	requests atomic.Int64
}

func newHostile(t *testing.T, http2 bool, answer http.HandlerFunc) *hostile {
	t.Helper()
	h := &hostile{}
	h.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h.requests.Add(1)
		answer(&counter{ResponseWriter: w, n: &h.sent}, r)
	}))
	h.EnableHTTP2 = http2
	h.StartTLS()
	t.Cleanup(h.Close)
	return h
}

type counter struct {
	http.ResponseWriter
	n *atomic.Int64
}

func (c *counter) Write(p []byte) (int, error) {
	n, err := c.ResponseWriter.Write(p)
	c.n.Add(int64(n))
	return n, err
}

func (c *counter) Unwrap() http.ResponseWriter { return c.ResponseWriter }

func (h *hostile) member(t *testing.T, limits Limits) *Member {
	t.Helper()
	cfg := &rest.Config{Host: h.URL, TLSClientConfig: rest.TLSClientConfig{Insecure: true}, BearerToken: "secret", QPS: -1}
	m, err := newMember("a", v1alpha1.MemberClusterSpec{}, cfg, newLine(time.Now, limits))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.close)
	return m
}

// ask reads an answer to the end and returns how much of it there is.
func (h *hostile) ask(m *Member, pathAndQuery string) (int64, error) {
	req, err := http.NewRequest(http.MethodGet, h.URL+pathAndQuery, nil)
	if err != nil {
		return 0, err
	}
	resp, err := m.http.Do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close() //nolint:errcheck // it was read
	return io.Copy(io.Discard, resp.Body)
}

func writeJSON(w http.ResponseWriter, text string) {
	w.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(w, text)
}

// forever writes something again and again until nobody wants it.
func forever(w io.Writer, what string) {
	chunk := []byte(strings.Repeat(what, 1+(4<<10)/len(what)))
	for {
		if _, err := w.Write(chunk); err != nil {
			return
		}
	}
}

// forHTTP runs a test with both versions of HTTP.
func forHTTP(t *testing.T, test func(t *testing.T, http2 bool)) {
	t.Helper()
	for name, http2 := range map[string]bool{"HTTP/1": false, "HTTP/2": true} {
		t.Run(name, func(t *testing.T) { test(t, http2) })
	}
}

// inTransit is what may be sent and not be received: buffers of sockets, and the window of HTTP/2.
const inTransit = 12 << 20

const (
	kubeSystem = "/api/v1/namespaces/kube-system"
	allJobs    = "/apis/batch/v1/jobs"
	watchJobs  = allJobs + "?watch=true"
)

func TestAnswersBeyondALimitQuarantine(t *testing.T) {
	zip := func(w http.ResponseWriter) *gzip.Writer {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Content-Encoding", "gzip")
		return gzip.NewWriter(w)
	}
	cases := map[string]struct {
		ask    string
		answer http.HandlerFunc
		limit  string
	}{
		"an object without end": {kubeSystem, func(w http.ResponseWriter, _ *http.Request) {
			writeJSON(w, `{"metadata":{"name":"`)
			forever(w, "a")
		}, limitObject},
		"a list without end": {allJobs, func(w http.ResponseWriter, _ *http.Request) {
			writeJSON(w, `{"items":["`)
			forever(w, "a")
		}, limitList},
		"a refusal without end": {watchJobs, func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusForbidden)
			forever(w, "no ")
		}, limitObject},
		"a length that is announced": {kubeSystem, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "1000000000000")
			writeJSON(w, "{")
		}, limitObject},
		"a gzip bomb": {kubeSystem, func(w http.ResponseWriter, _ *http.Request) {
			forever(zip(w), "0")
		}, limitObject},
		"a gzip bomb in a list": {allJobs, func(w http.ResponseWriter, _ *http.Request) {
			forever(zip(w), "0")
		}, limitList},
		"gzip of nothing without end": {kubeSystem, func(w http.ResponseWriter, _ *http.Request) {
			z := zip(w)
			for z.Flush() == nil { // an empty block
			}
		}, limitObject},
		"empty elements": {allJobs, func(w http.ResponseWriter, _ *http.Request) {
			writeJSON(w, `{"items":[`+strings.Repeat("{},", 2000)+`{}]}`)
		}, limitValues},
		"an object of empty elements, in protobuf": {kubeSystem, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/vnd.kubernetes.protobuf")
			_, _ = w.Write(inProtobuf(t, hollow(500)))
		}, limitValues},
		"headers": {kubeSystem, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X-Large", strings.Repeat("x", 64<<10))
			writeJSON(w, "{}")
		}, limitHeader},
		"many headers, of a watch": {watchJobs, func(w http.ResponseWriter, _ *http.Request) {
			for i := range 50 {
				w.Header().Add(fmt.Sprintf("X-%d", i), strings.Repeat("x", 400))
			}
			writeJSON(w, "{}")
		}, limitHeader},
		"one byte, and then silence": {kubeSystem, func(w http.ResponseWriter, r *http.Request) {
			writeJSON(w, "{")
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
		}, limitAnswer},
		"an event without end": {watchJobs, func(w http.ResponseWriter, _ *http.Request) {
			writeJSON(w, `{"type":"ADDED","object":{"metadata":{"name":"`)
			forever(w, "a")
		}, limitObject},
		"an event without end, of many lines": {watchJobs, func(w http.ResponseWriter, _ *http.Request) {
			writeJSON(w, `{"type":"ADDED"`)
			forever(w, "\n")
		}, limitObject},
		"blanks between events": {watchJobs, func(w http.ResponseWriter, _ *http.Request) {
			writeJSON(w, "\n")
			forever(w, " \n")
		}, limitObject},
		"an event of empty elements": {watchJobs, func(w http.ResponseWriter, _ *http.Request) {
			writeJSON(w, `{"type":"ADDED","object":{"spec":{"template":{"spec":{"containers":[`+strings.Repeat("{},", 2000)+`{}]}}}}}`)
		}, limitValues},
		"an event that is announced, in protobuf": {watchJobs, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/vnd.kubernetes.protobuf;stream=watch")
			_, _ = w.Write([]byte{0x40, 0, 0, 0})
		}, limitObject},
		"an event of empty elements, in protobuf": {watchJobs, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/vnd.kubernetes.protobuf;stream=watch")
			event := inProtobuf(t, hollow(500))
			_, _ = w.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(event))), event...))
		}, limitValues},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			forHTTP(t, func(t *testing.T, http2 bool) {
				h := newHostile(t, http2, c.answer)
				limits := smallLimits()
				if c.limit == limitAnswer {
					limits.Answer = 50 * time.Millisecond
				}
				m := h.member(t, limits)
				ended := make(chan error, 1)
				m.line.end = func(err error) { ended <- err }
				n, err := h.ask(m, c.ask)
				if !isQuarantined(err) || !Unanswered(err) {
					t.Fatalf("read %d bytes: %v", n, err)
				}
				if n > limits.List || h.sent.Load() > limits.List+inTransit {
					t.Errorf("read %d bytes of %d", n, h.sent.Load())
				}
				want, _, _ := strings.Cut(c.ask, "?")
				if q := m.line.quarantine.Load(); q == nil || q.Limit != c.limit || q.Asked != "GET "+want {
					t.Errorf("quarantine %+v, want %s of GET %s", q, c.limit, want)
				}
				if len(ended) != 1 {
					t.Error("the connection goes on")
				}
				if m.line.inFlight.Load() != 0 {
					t.Errorf("%d bytes are still in flight", m.line.inFlight.Load())
				}
				asked := h.requests.Load()
				if _, err := h.ask(m, kubeSystem); err == nil || h.requests.Load() != asked {
					t.Errorf("it is asked again: %v", err)
				}
			})
		})
	}
}

// TestEndlessHeaders breaks HTTP/2 itself, for which a connection is given up.
func TestEndlessHeaders(t *testing.T) {
	forHTTP(t, func(t *testing.T, http2 bool) {
		h := newHostile(t, http2, func(w http.ResponseWriter, _ *http.Request) {
			for i := range 20_000 {
				w.Header().Add(fmt.Sprintf("X-%d", i), "value")
			}
			writeJSON(w, "{}")
		})
		if n, err := h.ask(h.member(t, smallLimits()), kubeSystem); n != 0 || !Unanswered(err) {
			t.Errorf("read %d bytes: %v", n, err)
		}
	})
}

// What is compressed is received as what it was, and counts as that.
func TestCompressedAnswersAreReceived(t *testing.T) {
	text := `{"metadata":{"uid":"u","name":"` + strings.Repeat("a", 32<<10) + `"}}`
	h := newHostile(t, true, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Accept-Encoding") != "gzip" || r.URL.Query().Has("watch") {
			writeJSON(w, `{"type":"BOOKMARK"}`)
			return
		}
		w.Header().Set("Content-Encoding", "gzip")
		w.Header().Set("Content-Type", "application/json")
		z := gzip.NewWriter(w)
		_, _ = io.WriteString(z, text)
		_ = z.Close()
	})
	m := h.member(t, smallLimits())
	if n, err := h.ask(m, kubeSystem); n != int64(len(text)) || err != nil {
		t.Errorf("%d bytes, %v", n, err)
	}
	if sent := h.sent.Load(); sent > 1<<10 {
		t.Errorf("%d bytes were sent", sent)
	}
	if n, err := h.ask(m, watchJobs); n == 0 || err != nil {
		t.Errorf("a watch: %d bytes, %v", n, err)
	}
}

// What many requests hold at the same time is bounded, too.
func TestAnswersInFlightAreBounded(t *testing.T) {
	h := newHostile(t, true, func(w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, `"`+strings.Repeat("a", 60<<10)+`"`)
	})
	limits := smallLimits()
	m := h.member(t, limits)
	var open []io.Closer
	var err error
	for err == nil && len(open) < 10 {
		var resp *http.Response
		if resp, err = m.http.Get(h.URL + kubeSystem); err == nil { //nolint:bodyclose // below
			open = append(open, resp.Body)
		}
	}
	if q := m.line.quarantine.Load(); !isQuarantined(err) || q.Limit != limitInFlight || len(open) != 4 {
		t.Errorf("%d answers are held: %v, %+v", len(open), err, q)
	}
	for _, body := range open {
		_ = body.Close()
	}
	if n := m.line.inFlight.Load(); n != 0 {
		t.Errorf("%d bytes are still in flight", n)
	}
}

// A slow network is no fault of the member's.
func TestSlowAnswersQuarantineAfterAFew(t *testing.T) {
	h := newHostile(t, true, func(w http.ResponseWriter, r *http.Request) {
		writeJSON(w, "{")
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	})
	limits := smallLimits()
	limits.Answer, limits.Strikes = 50*time.Millisecond, 3
	strikes := &atomic.Int32{}
	for attempt := range 3 {
		m := h.member(t, limits)
		m.line.strikes = strikes // as a connection does
		_, err := h.ask(m, kubeSystem)
		if is := isQuarantined(err); is != (attempt == 2) || !Unanswered(err) {
			t.Errorf("attempt %d: %v", attempt, err)
		}
	}
}

func TestRedirectsAreRefused(t *testing.T) {
	for _, code := range []int{http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther, http.StatusNotModified, http.StatusTemporaryRedirect, http.StatusPermanentRedirect} {
		for _, ask := range []string{kubeSystem, allJobs, watchJobs, "/api/v1/namespaces/hpc/pods/p/log?follow=true"} {
			t.Run(fmt.Sprintf("%d %s", code, ask), func(t *testing.T) {
				elsewhere := newHostile(t, true, func(w http.ResponseWriter, _ *http.Request) { writeJSON(w, "{}") })
				h := newHostile(t, true, func(w http.ResponseWriter, _ *http.Request) {
					w.Header().Set("Location", elsewhere.URL+"/stolen")
					w.WriteHeader(code)
				})
				m := h.member(t, smallLimits())
				_, err := h.ask(m, ask)
				if e := connectionError(err); err == nil || e.Reason != v1alpha1.ReasonRedirectRefused || !strings.Contains(e.Error(), "cluster.server") {
					t.Errorf("got %v", err)
				}
				if !Unanswered(err) || m.line.quarantine.Load() != nil {
					t.Errorf("it counts as an answer, or as beyond a limit: %v", err)
				}
				if n := elsewhere.requests.Load(); n != 0 || h.requests.Load() != 1 {
					t.Errorf("%d requests went elsewhere, %d to the member", n, h.requests.Load())
				}
			})
		}
	}
}

// Within the same host is elsewhere, too: what is there may be anything.
func TestRequestsGoToTheServerOfTheKubeconfigAlone(t *testing.T) {
	elsewhere := newHostile(t, true, func(w http.ResponseWriter, _ *http.Request) { writeJSON(w, "{}") })
	h := newHostile(t, true, func(w http.ResponseWriter, _ *http.Request) { writeJSON(w, "{}") })
	m := h.member(t, smallLimits())
	for name, url := range map[string]string{
		"another host": elsewhere.URL, "no TLS": "http://" + strings.TrimPrefix(h.URL, "https://"), "another name of the host": strings.Replace(h.URL, "127.0.0.1", "localhost", 1),
	} {
		resp, err := m.http.Get(url + kubeSystem)
		if err == nil {
			_ = resp.Body.Close()
		}
		if connectionError(err).Reason != v1alpha1.ReasonRedirectRefused {
			t.Errorf("%s: %v", name, err)
		}
	}
	req, _ := http.NewRequest(http.MethodGet, h.URL, nil)
	req.Host = "elsewhere.example.org"
	if _, err := m.http.Do(req); err == nil { //nolint:bodyclose // there is none
		t.Error("another Host header was sent")
	}
	if h.requests.Load()+elsewhere.requests.Load() != 0 {
		t.Error("a request was sent")
	}
}

// Decoders are chosen by what an answer says that it is.
func TestAnswersThatAreNoneOfAnAPIServer(t *testing.T) {
	for name, header := range map[string]http.Header{
		"YAML":              {"Content-Type": {"application/yaml"}},
		"CBOR":              {"Content-Type": {"application/cbor"}},
		"a page":            {"Content-Type": {"text/html"}},
		"nothing that is":   {"Content-Type": {"\x1b[31m"}},
		"another encoding":  {"Content-Type": {"application/json"}, "Content-Encoding": {"br"}},
		"twice the same":    {"Content-Type": {"application/json"}, "Content-Encoding": {"gzip, gzip"}},
		"a compressed page": {"Content-Type": {"text/html"}, "Content-Encoding": {"gzip"}},
	} {
		for _, ask := range []string{kubeSystem, watchJobs} {
			h := newHostile(t, true, func(w http.ResponseWriter, _ *http.Request) {
				for k, v := range header {
					w.Header()[k] = v
				}
				_, _ = io.WriteString(w, "a: &a [b]")
			})
			if _, err := h.ask(h.member(t, smallLimits()), ask); connectionError(err).Reason != v1alpha1.ReasonUnreachable || !Unanswered(err) {
				t.Errorf("%s, %s: %v", name, ask, err)
			}
		}
	}
}

// Warnings of a member would be printed as they come.
func TestWarningsOfMembersAreDropped(t *testing.T) {
	var out bytes.Buffer
	klog.LogToStderr(false)
	klog.SetOutput(&out)
	t.Cleanup(func() { klog.LogToStderr(true) })
	h := newHostile(t, true, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Warning", `299 - "beware of \\ this"`)
		writeJSON(w, `{"kind":"Namespace","apiVersion":"v1","metadata":{"name":"kube-system","uid":"u"}}`)
	})
	uid, err := h.member(t, smallLimits()).identify(t.Context())
	klog.Flush()
	if uid != "u" || err != nil || out.Len() != 0 {
		t.Errorf("%q, %v, and it is printed: %s", uid, err, out.String())
	}
}

// Logs are as long as they are: whoever reads them bounds them.
func TestLogsAreStreams(t *testing.T) {
	for path, want := range map[string]answer{
		"/api/v1/namespaces/hpc/pods/p/log":         answerLog,
		"/prefix/api/v1/namespaces/hpc/pods/p/log":  answerLog,
		"/api/v1/namespaces/hpc/configmaps/log":     answerObject,
		"/api/v1/namespaces/hpc/services/p/log":     answerObject,
		"/api/v1/namespaces/log":                    answerObject,
		"/api/v1/pods":                              answerList,
		"/api/v1/nodes":                             answerList,
		"/apis/batch/v1/namespaces/hpc/jobs":        answerList,
		"/apis/batch/v1/namespaces/hpc/jobs/a":      answerObject,
		"/api/v1/namespaces/hpc/pods?watch=1":       answerWatch,
		"/api/v1/pods?watch=true&allowBookmarks":    answerWatch,
		"/version":                                  answerObject,
		"/api/v1/namespaces/hpc/pods?watch=perhaps": answerList,
	} {
		req := httptest.NewRequest(http.MethodGet, path, nil)
		if got := answerTo(req); got != want {
			t.Errorf("%s: %d, want %d", path, got, want)
		}
	}
	if got := answerTo(httptest.NewRequest(http.MethodPost, "/api/v1/namespaces/hpc/pods?watch=true", nil)); got != answerObject {
		t.Errorf("a creation: %d", got)
	}
}

func TestLogsOfAQuarantinedMember(t *testing.T) {
	h := newHostile(t, true, func(w http.ResponseWriter, _ *http.Request) { writeJSON(w, "{}") })
	m := h.member(t, smallLimits())
	m.verified.Store(1)
	m.line.dials.Store(1)
	_ = m.line.beyond(limitObject, "GET /")
	if _, err := m.PodLog(t.Context(), types.NamespacedName{Namespace: "hpc", Name: "p"}, corev1.PodLogOptions{}); !Unanswered(err) || h.requests.Load() != 0 {
		t.Errorf("it is asked: %v", err)
	}
}

// TestOrdinaryMembersAreWithinTheLimits has the largest that Kubernetes supports.
func TestOrdinaryMembersAreWithinTheLimits(t *testing.T) {
	l := DefaultLimits()
	const etcd = 3 << 19 // 1.5 MiB, the largest object that etcd stores
	_, pod := reducePod(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: strings.Repeat("n", 30), Name: strings.Repeat("p", 60), UID: types.UID(strings.Repeat("u", 36))}})
	const runSize = 50 << 10 // a Job, ConfigMaps, a Service and a Secret, in memory
	for name, within := range map[string]bool{
		"the largest object":                    4*etcd <= l.Object,
		"a page of 50 of them":                  50*etcd <= l.List,
		"a page of pods of 200 KB":              l.Page*200<<10 <= l.List,
		"5,000 runs, 100,000 pods, 5,000 nodes": 5_000*runSize+100_000*pod+5_000*10<<10 <= l.Cached,
		"a page of pods of 1,500 fields":        int(l.Page)*1500 <= l.Values,
		"100,000 pods in pages":                 100_000/int(l.Page) <= l.Pages/2,
		"100,000 pods":                          100_000 <= l.Objects/2,
	} {
		if !within {
			t.Errorf("%s: beyond a limit", name)
		}
	}
	if diff := cmp.Diff("an object or event of at most 8 MiB", l.describe(limitObject)); diff != "" {
		t.Error(diff)
	}
}

// Whatever ends a connection, nothing is sent after that.
func TestNothingIsSentAfterTheEndOfASession(t *testing.T) {
	h := newHostile(t, true, func(w http.ResponseWriter, _ *http.Request) { writeJSON(w, "{}") })
	m := h.member(t, smallLimits())
	session, end := context.WithCancel(t.Context())
	m.line.session = session
	if _, err := h.ask(m, kubeSystem); err != nil {
		t.Fatal(err)
	}
	end()
	if _, err := h.ask(m, kubeSystem); !Unanswered(err) || h.requests.Load() != 1 {
		t.Errorf("%d requests: %v", h.requests.Load(), err)
	}
}

// Names and UIDs go into statuses and messages as they are.
func TestNamesThatNoAPIServerGives(t *testing.T) {
	for name, c := range map[string]struct {
		namespace, name, uid string
		want                 bool
	}{
		"a Job":             {"hpc", "lammps.v1", "0b5cf2d1-7c5c-4d8a-9d3c-2f6a4f0a0c11", true},
		"a role":            {"", "system:node", "x", true},
		"nothing":           {"", "", "", true},
		"a long namespace":  {strings.Repeat("n", 64), "a", "u", false},
		"a long name":       {"hpc", strings.Repeat("a", 254), "u", false},
		"a long UID":        {"hpc", "a", strings.Repeat("u", 129), false},
		"colours in a UID":  {"hpc", "a", "\x1b[31mu", false},
		"a line in a name":  {"hpc", "a\nb", "u", false},
		"a last line":       {"hpc", "a\n", "u", false},
		"turned around":     {"hpc", "a\u202eb", "u", false},
		"a path for a name": {"hpc", "../../secrets", "u", false},
	} {
		job := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: c.namespace, Name: c.name, UID: types.UID(c.uid)}}
		l := newLine(time.Now, smallLimits())
		if err := l.checkNames(job, "GET a"); (err == nil) != c.want || isQuarantined(err) == c.want {
			t.Errorf("%s: %v", name, err)
		}
	}
	h := newHostile(t, true, func(w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, `{"kind":"Namespace","apiVersion":"v1","metadata":{"name":"kube-system","uid":"\u001b[31mu"}}`)
	})
	if uid, err := h.member(t, smallLimits()).identify(t.Context()); !isQuarantined(err) {
		t.Errorf("it is %q: %v", uid, err)
	}
}

// The first answer beyond a limit is the one that is told.
func TestOnlyTheFirstBreachEndsTheConnection(t *testing.T) {
	var ends atomic.Int32
	l := newLine(time.Now, smallLimits())
	l.end = func(err error) {
		if !errors.Is(err, errQuarantined) {
			t.Errorf("ends for %v", err)
		}
		ends.Add(1)
	}
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() { _ = l.beyond(limitObject, fmt.Sprint(i)) })
	}
	wg.Wait()
	if ends.Load() != 1 {
		t.Errorf("ended %d times", ends.Load())
	}
}
