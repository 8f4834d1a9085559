package tracing_test

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	tracev1 "go.opentelemetry.io/proto/otlp/trace/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/minifleet/minifleet/internal/tracing"
	"github.com/minifleet/minifleet/internal/tracing/tracingtest"
)

const canary = "c4n4ry-of-a-secret"

var (
	began  = time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)
	commit = tracing.Origin{UID: "7c0f", Version: strings.Repeat("ab", 20)}
)

// switched turns tracing on for a test. What it returns sends everything, and turns it off.
func switched(t *testing.T, s tracing.Settings) (off func() error) {
	t.Helper()
	end, err := tracing.Switch(t.Context(), s, "v0", func(err error) { t.Log(err) })
	if err != nil {
		t.Fatal(err)
	}
	return func() error { return end(t.Context()) }
}

// told is each span with its parent and its error: NAME < PARENT: ERROR. The parent that is not told of is "?".
func told(spans []*tracev1.Span) map[string]int {
	names := map[string]string{"": ""}
	for _, s := range spans {
		names[string(s.SpanId)] = s.Name
	}
	out := map[string]int{}
	for _, s := range spans {
		line := s.Name
		if parent, known := names[string(s.ParentSpanId)]; parent != "" || !known {
			if !known {
				parent = "?"
			}
			line += " < " + parent
		}
		if message := s.Status.GetMessage(); message != "" {
			line += ": " + message
		}
		out[line]++
	}
	return out
}

func TestOneTraceFromCommitToJob(t *testing.T) {
	collector := tracingtest.Start()
	defer collector.Close()
	off := switched(t, tracing.Settings{Endpoint: collector.URL, Ratio: 1, Headers: map[string]string{"Authorization": "Bearer " + canary}})

	ctx, source := tracing.Commit(t.Context(), commit, "GitSource commit", began, tracing.Text("minifleet.source", "fleet"))
	tracing.Record(ctx, "fetch", began, began.Add(time.Second))
	_, apply := tracing.Start(ctx, "apply")
	apply.End(nil)
	source.End(nil)

	// Later, in another reconciliation, or after a restart.
	ctx, run := tracing.Follow(t.Context(), commit, "reconcile FleetMiniCluster", began)
	_, job := tracing.Start(ctx, "create Job", tracing.Number("minifleet.size", 4))
	job.End(apierrors.NewForbidden(schema.GroupResource{}, "x", errors.New(canary)))
	_, other := tracing.Start(run.Context(t.Context()), "create Job")
	other.End(errors.New(canary))
	run.End(context.DeadlineExceeded)

	_, direct := tracing.Own(t.Context(), tracing.Origin{UID: "8d1e", Version: "2"}, "reconcile FleetMiniCluster", began)
	direct.End(nil)
	_, alone := tracing.Start(t.Context(), "of no trace")
	alone.End(nil)
	if err := off(); err != nil {
		t.Fatal(err)
	}

	want := map[string]int{
		"GitSource commit": 1, "fetch < GitSource commit": 1, "apply < GitSource commit": 1,
		"reconcile FleetMiniCluster < GitSource commit: DeadlineExceeded": 1, "reconcile FleetMiniCluster": 1,
		"create Job < reconcile FleetMiniCluster: Forbidden": 1, "create Job < reconcile FleetMiniCluster: *errors.errorString": 1,
	}
	if diff := cmp.Diff(want, told(collector.Spans())); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	traces := map[string]int{}
	for _, s := range collector.Spans() {
		traces[hex.EncodeToString(s.TraceId)]++
	}
	if len(traces) != 2 {
		t.Errorf("traces: %v", traces)
	}
	if bytes.Contains(collector.Bytes(), []byte(canary)) {
		t.Error("the message of an error was sent")
	}
	for _, h := range collector.Headers() {
		if h.Get("Authorization") != "Bearer "+canary {
			t.Errorf("the headers are %v", h)
		}
	}
}

// A trace is sampled as a whole, and the same whoever asks.
func TestSampling(t *testing.T) {
	for name, c := range map[string]struct {
		ratio       float64
		least, most int
	}{"none": {0, 0, 0}, "some": {0.5, 20, 80}, "all": {1, 100, 100}} {
		t.Run(name, func(t *testing.T) {
			collector := tracingtest.Start()
			defer collector.Close()
			off := switched(t, tracing.Settings{Endpoint: collector.URL, Ratio: c.ratio})
			for i := range 100 {
				o := tracing.Origin{UID: "7c0f", Version: strings.Repeat("a", i)}
				_, source := tracing.Commit(t.Context(), o, "GitSource commit", began)
				source.End(nil)
				_, run := tracing.Follow(t.Context(), o, "reconcile FleetMiniCluster", began)
				run.End(nil)
			}
			if err := off(); err != nil {
				t.Fatal(err)
			}
			got := told(collector.Spans())
			roots, runs := got["GitSource commit"], got["reconcile FleetMiniCluster < GitSource commit"]
			if roots != runs || roots < c.least || roots > c.most || len(got) > 2 {
				t.Errorf("%v", got)
			}
		})
	}
}

// A collector that never answers delays nobody: all spans have ended while its first request still hangs. What does not fit
// into the queue is lost.
func TestCollectorThatHangs(t *testing.T) {
	var asked atomic.Int32
	let := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		asked.Add(1)
		<-let
	}))
	defer server.Close()
	defer close(let)
	end, err := tracing.Switch(t.Context(), tracing.Settings{Endpoint: server.URL, Ratio: 1}, "v0", func(error) {})
	if err != nil {
		t.Fatal(err)
	}
	for range 20000 {
		_, s := tracing.Own(t.Context(), commit, "reconcile FleetMiniCluster", began)
		s.End(nil)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := end(ended); err == nil {
		t.Error("nothing was lost")
	}
	if n := asked.Load(); n > 1 {
		t.Errorf("%d requests at once", n)
	}
}

func TestOffCostsNothing(t *testing.T) {
	ctx := t.Context()
	allocations := testing.AllocsPerRun(100, func() {
		_, s := tracing.Start(ctx, "render")
		s.End(nil)
		_, s = tracing.Follow(ctx, commit, "reconcile FleetMiniCluster", began)
		s.End(nil)
		tracing.Record(ctx, "place", began, began)
	})
	if allocations != 0 {
		t.Errorf("%v allocations", allocations)
	}
	if got, _ := tracing.Follow(ctx, commit, "x", began); got != ctx {
		t.Error("the context is another")
	}
}

func TestValidate(t *testing.T) {
	for name, c := range map[string]struct {
		endpoint string
		ratio    float64
		want     string
	}{
		"http":                {"http://collector:4318", 1, ""},
		"https with a path":   {"https://collector.example.org/otlp/v1/traces", 0.1, ""},
		"no scheme":           {"collector:4318", 1, "is not http://HOST:PORT"},
		"another scheme":      {"grpc://collector:4317", 1, "is not http://HOST:PORT"},
		"a password":          {"https://me:" + canary + "@collector", 1, "has a user"},
		"a token in a query":  {"https://collector/?token=" + canary, 1, "a query"},
		"no URL":              {"http://" + canary + "\x7f", 1, "is no URL"},
		"a ratio beyond":      {"http://collector:4318", 1.5, "sampling ratio"},
		"a ratio below":       {"http://collector:4318", -1, "sampling ratio"},
		"nothing but a slash": {"/", 1, "is not http://HOST:PORT"},
	} {
		err := tracing.Settings{Endpoint: c.endpoint, Ratio: c.ratio}.Validate()
		if (err == nil) != (c.want == "") || err != nil && (!strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), canary)) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestParseHeaders(t *testing.T) {
	got, err := tracing.ParseHeaders([]byte("# of the collector\nAuthorization: Bearer a:b\n\nX-Scope: hpc\n"))
	if diff := cmp.Diff(map[string]string{"Authorization": "Bearer a:b", "X-Scope": "hpc"}, got); diff != "" || err != nil {
		t.Error(diff, err)
	}
	for name, file := range map[string]string{"no colon": "X: y\n" + canary, "a name with a space": "my header: " + canary, "a value with a control character": "X: y\n\nX: \x01" + canary} {
		if _, err := tracing.ParseHeaders([]byte(file)); err == nil || !strings.Contains(err.Error(), "line ") || strings.Contains(err.Error(), canary) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
