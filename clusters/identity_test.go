package clusters

import (
	"errors"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/minifleet/minifleet/api/v1alpha1"
)

// One answer does for all who ask who the member is, until there is another connection.
func TestTheIdentityIsReadOnceForAConnection(t *testing.T) {
	var uid atomic.Pointer[string]
	var asked atomic.Int64
	is := func(now string) { uid.Store(&now) }
	is("a")
	h := newHostile(t, true, func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, kubeSystem) {
			asked.Add(1)
		}
		writeJSON(w, `{"kind":"Namespace","apiVersion":"v1","metadata":{"name":"kube-system","uid":"`+*uid.Load()+`"}}`)
	})
	m := h.member(t, DefaultLimits())
	m.UID = "a"
	verify := func() []error {
		errs := make([]error, 50)
		var all sync.WaitGroup
		for i := range errs {
			all.Go(func() { errs[i] = m.Verify(t.Context()) })
		}
		all.Wait()
		return errs
	}
	for range 3 {
		if err := errors.Join(verify()...); err != nil {
			t.Fatal(err)
		}
	}
	if n := asked.Load(); n != 1 {
		t.Errorf("asked %d times", n)
	}
	is("b")
	h.CloseClientConnections()
	for m.line.dials.Load() == 1 && t.Context().Err() == nil {
		_, _ = h.ask(m, "/version") // the first may still be sent over the connection that was closed
	}
	for i, err := range verify() {
		var e *Error
		if !errors.As(err, &e) || e.Reason != v1alpha1.ReasonWrongCluster {
			t.Fatalf("the %dth is told of another cluster behind a new connection: %v", i, err)
		}
	}
}
