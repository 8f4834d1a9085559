package dashboard

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/go-logr/logr"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/clusters"
	"github.com/minifleet/minifleet/internal/queue"
)

func forecastOf(s *Server, body string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	req := httptest.NewRequest(http.MethodPost, "/api/v1/forecasts", strings.NewReader(body))
	req.Header.Set("Content-Type", "application/json")
	handlerOf(s).ServeHTTP(w, req)
	return w
}

const forecastBody = `{"namespace":"physics","items":[
	{"name":"new","spec":{"miniCluster":{"size":2,"containers":[{"image":"lammps"}]}},"placement":{"numberOfClusters":1}},
	{"name":"lammps","spec":{"miniCluster":{"size":2,"containers":[{"image":"lammps"}]}},"placement":{}}]}`

func TestForecast(t *testing.T) {
	cases := map[string]struct {
		access *fakeAccess
		body   string
		status int
		says   string
	}{
		"who sees members":     {&fakeAccess{namespaces: scope{"physics"}, members: true, refuse: "create"}, forecastBody, http.StatusOK, ""},
		"who may create":       {&fakeAccess{namespaces: scope{"physics"}}, forecastBody, http.StatusOK, ""},
		"who may do neither":   {&fakeAccess{namespaces: scope{"physics"}, refuse: "create"}, forecastBody, http.StatusForbidden, "the right to list memberclusters, or to create"},
		"somebody else":        {&fakeAccess{namespaces: scope{"canary-ns"}, members: true}, forecastBody, http.StatusNotFound, "not found"},
		"no answer to who may": {&fakeAccess{namespaces: scope{"physics"}, err: errReviews}, forecastBody, http.StatusServiceUnavailable, ""},
		"a field that is not known": {&fakeAccess{namespaces: scope{"physics"}, members: true}, strings.Replace(forecastBody, `"size"`, `"sise"`, 1), http.StatusUnprocessableEntity,
			"body.items[0].spec.miniCluster.sise: there is no such field"},
		"too many": {&fakeAccess{namespaces: scope{"physics"}, members: true}, `{"namespace":"physics","items":[` + strings.Repeat(`{"name":"a","spec":{}},`, 100) + `{"name":"a","spec":{}}]}`, http.StatusUnprocessableEntity, "items"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			s := newServer(c.access, canaries()...)
			hidden := memberCluster("canary-member")
			hidden.Spec.Namespaces = &v1alpha1.NamespaceAccess{From: v1alpha1.NamespacesFromNames, Names: []string{"canary-ns"}}
			s.store.SetMember(hidden)
			s.o.Members = clusters.NewProvider(logr.Discard(), s.o.Now, func(string, bool) {})
			w := forecastOf(s, c.body)
			if w.Code != c.status || !strings.Contains(w.Body.String(), c.says) {
				t.Fatalf("%d %s", w.Code, w.Body)
			}
			if strings.Contains(w.Body.String(), canary) {
				t.Error(w.Body)
			}
			if w.Code != http.StatusOK {
				return
			}
			var out ForecastAnswer
			if err := json.Unmarshal(w.Body.Bytes(), &out); err != nil || len(out.Items) != 2 || out.Items[0].State == "" {
				t.Errorf("%v %s", err, w.Body)
			}
			if s.o.Queue.Pending(queue.Key{Namespace: "physics", Name: "new"}) != nil {
				t.Error("what was asked about waits in the line")
			}
		})
	}
}

// One question is answered at a time, and who gives up waits no longer.
func TestForecastWaitsForItsTurn(t *testing.T) {
	s := newServer(&fakeAccess{namespaces: scope{"physics"}, members: true}, canaries()...)
	s.o.Members = clusters.NewProvider(logr.Discard(), s.o.Now, func(string, bool) {})
	s.foreseeing <- struct{}{}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	r, err := s.read(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.forecast(ctx, r, "", &forecastRequest{ForecastQuestion{Namespace: "physics"}}); err == nil {
		t.Error("it was answered while another one was")
	}
	<-s.foreseeing
	if out, err := s.forecast(t.Context(), r, "", &forecastRequest{ForecastQuestion{Namespace: "physics"}}); err != nil || out.Items == nil {
		t.Errorf("%v %v", out, err)
	}
}
