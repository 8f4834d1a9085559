package dashboard

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	"github.com/minifleet/minifleet/internal/view"
)

func BenchmarkList(b *testing.B) {
	for _, n := range []int{2000, 10000} {
		s := newServer(&fakeAccess{namespaces: scope{"*"}, members: true}, fleetOf(n)...)
		h := s.Handler()
		for name, path := range map[string]string{
			"page":    "/miniclusters",
			"filter":  "/miniclusters?q=state:waiting%20lammps-0&member=member-07&sort=name",
			"1000":    "/miniclusters?limit=1000",
			"fields":  "/miniclusters?limit=1000&fields=state,why,members,since",
			"summary": "/summary",
			"grid":    "/grid?limit=200",
			"line":    "/timeline",
		} {
			b.Run(fmt.Sprintf("%s/%d", name, n), func(b *testing.B) {
				var times []time.Duration
				size := 0
				for b.Loop() {
					w := httptest.NewRecorder()
					req := httptest.NewRequest(http.MethodGet, "/api/v1"+path, nil)
					req.Header.Set("Accept-Encoding", "gzip")
					start := time.Now()
					h.ServeHTTP(w, req)
					times = append(times, time.Since(start))
					if size = w.Body.Len(); w.Code != http.StatusOK {
						b.Fatal(w.Body)
					}
				}
				slices.Sort(times)
				b.ReportMetric(float64(times[len(times)*95/100].Microseconds())/1000, "p95-ms")
				b.ReportMetric(float64(size)/1024, "KB-sent")
			})
		}
	}
}

func BenchmarkRow(b *testing.B) {
	f := fleetMiniCluster("physics", "lammps", "alpine")
	for b.Loop() {
		view.EntryOf(f, view.Context{})
	}
}

func BenchmarkMemberLost(b *testing.B) {
	s := newServer(&fakeAccess{}, fleetOf(10000)...)
	for i := 0; b.Loop(); i++ {
		m := memberCluster("member-07")
		m.ResourceVersion = fmt.Sprint(i + 2)
		if i%2 == 0 {
			lost(m, time.Minute)
		}
		s.store.SetMember(m)
	}
}

// All rows of 2,000 MiniClusters, as a page that shows them all would read them.
func TestPayload(t *testing.T) {
	s := newServer(&fakeAccess{namespaces: scope{"*"}, members: true}, fleetOf(2000)...)
	total := 0
	for _, path := range []string{"/summary", "/miniclusters?limit=1000", "/miniclusters?limit=1000&offset=1000"} {
		w := httptest.NewRecorder()
		req := httptest.NewRequest(http.MethodGet, "/api/v1"+path, nil)
		req.Header.Set("Accept-Encoding", "gzip")
		s.Handler().ServeHTTP(w, req)
		if _, err := gzip.NewReader(bytes.NewReader(w.Body.Bytes())); err != nil {
			t.Fatal(err)
		}
		t.Logf("%s: %d bytes", path, w.Body.Len())
		total += w.Body.Len()
	}
	if most := 80 << 10; total > most {
		t.Errorf("%d bytes, want at most %d", total, most)
	}
}
