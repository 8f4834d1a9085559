package dashboard

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/minifleet/minifleet/internal/view"
)

// hub answers lists of events, for who bears the token t.
var hub = sync.OnceValue(func() *httptest.Server {
	return httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if req.URL.Path == "/apis/events.k8s.io/v1/namespaces/slow/events" {
			<-req.Context().Done()
			return
		}
		if req.Header.Get("Authorization") != "Bearer t" || req.Header.Get("Impersonate-User") != "" {
			w.WriteHeader(http.StatusForbidden)
			_ = json.NewEncoder(w).Encode(metav1.Status{Status: "Failure", Code: http.StatusForbidden, Reason: metav1.StatusReasonForbidden})
			return
		}
		about := func(uid string, at time.Duration, note string) eventsv1.Event {
			return eventsv1.Event{
				Regarding: corev1.ObjectReference{UID: types.UID(uid)}, EventTime: metav1.NewMicroTime(noon.Add(-at)), Reason: "RunStarted", Type: "Normal", Note: note,
			}
		}
		list := eventsv1.EventList{Items: []eventsv1.Event{
			about("physics-lammps", 2*time.Minute, "older\x1b[2J"), about("another", time.Minute, "of a predecessor"),
			about("physics-lammps", time.Minute, "Job x belongs to FleetMiniCluster chemistry/secret: rename one of the two"),
		}}
		if req.URL.Query().Get("fieldSelector") != "regarding.kind=FleetMiniCluster,regarding.name=lammps" {
			list.Items = nil
		}
		list.APIVersion, list.Kind = "events.k8s.io/v1", "EventList"
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(list)
	}))
})

// hubConfig has credentials of the hub's own, which must not be used for people.
func hubConfig() *rest.Config {
	return &rest.Config{Host: hub().URL, BearerToken: "the hub's own", Impersonate: rest.ImpersonationConfig{UserName: "root"}}
}

func TestEvents(t *testing.T) {
	s := newServer(&fakeAccess{namespaces: scope{"physics", "slow"}}, fleetMiniCluster("physics", "lammps", "alpine"), fleetMiniCluster("slow", "lammps", "alpine"))
	want := []view.Event{
		{Time: noon.Add(-time.Minute), First: noon.Add(-time.Minute), Count: 1, Type: "Normal", Reason: "RunStarted", Message: "Job x belongs to another FleetMiniCluster: rename one of the two"},
		{Time: noon.Add(-2 * time.Minute), First: noon.Add(-2 * time.Minute), Count: 1, Type: "Normal", Reason: "RunStarted", Message: "older\uFFFD[2J"},
	}
	if diff := cmp.Diff(want, read[view.Events](t, s, "/miniclusters/physics/lammps/events").Items); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
	start := time.Now()
	if w := request(s, "/miniclusters/slow/lammps/events"); w.Code != http.StatusServiceUnavailable || time.Since(start) > 5*hubTimeout {
		t.Errorf("got %d after %s from a hub that hangs", w.Code, time.Since(start))
	}
	s.o.Person = func(context.Context) (Person, error) {
		return Person{Name: "bob", Token: func() string { return "another" }}, nil
	}
	if w := request(s, "/miniclusters/physics/lammps/events"); w.Code != http.StatusNotFound {
		t.Errorf("got %d for who may not list events", w.Code)
	}
}
