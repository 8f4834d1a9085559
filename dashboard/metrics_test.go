package dashboard

import (
	"context"
	"net/http"
	"net/http/httptest"
	"runtime"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"
)

func TestRequestsAreCountedByOperationAndNotByPath(t *testing.T) {
	s := newServer(&fakeAccess{})
	ask := func(path string) {
		s.Handler().ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, path, nil))
	}
	found, missing := requests.WithLabelValues("session", "2xx"), requests.WithLabelValues("get-minicluster", "4xx")
	before, lacking := testutil.ToFloat64(found), testutil.ToFloat64(missing)
	ask("/api/v1/session")
	ask("/api/v1/miniclusters/a/b")
	ask("/api/v1/miniclusters/a/c")
	if n := testutil.ToFloat64(found) - before; n != 1 {
		t.Errorf("session was counted %v times", n)
	}
	if n := testutil.ToFloat64(missing) - lacking; n != 2 {
		t.Errorf("what is not there was counted %v times", n)
	}
}

func TestOpenStreamsAreTold(t *testing.T) {
	_, url := streamServer(t, &fakeAccess{}, nil)
	open := func() float64 { return testutil.ToFloat64(openStreams.WithLabelValues(streamChanges)) }
	before := open()
	ctx, cancel := context.WithCancel(t.Context())
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	if n := open() - before; n != 1 {
		t.Errorf("%v streams are open", n)
	}
	cancel()
	_ = res.Body.Close()
	for open() != before { // the test ends with its timeout where that never comes
		runtime.Gosched()
	}
}
