package dashboard

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/dashboard/auth"
	"github.com/minifleet/minifleet/dashboard/auth/authtest"
)

// may says whether somebody may do something, in a namespace or, with none, on the hub.
func may(who, verb, resource, namespace string) bool {
	reads := slices.Contains([]string{"get", "list"}, verb)
	switch who {
	case "admin":
		return true
	case "reader":
		return reads && (namespace == "physics" || resource == "memberclusters")
	case "writer":
		return namespace == "physics"
	case "other":
		return namespace == "chemistry"
	}
	return false
}

// tokenFor is the token of somebody whom the hub knows.
func tokenFor(who string) string { return "token-of-" + who }

// hubRequest is what an API server was asked.
type hubRequest struct {
	Method, Path, Authorization, UserAgent string
	DryRun                                 bool
}

// fakeHub is an API server that has objects of minifleet.dev, and lets those do who may.
type fakeHub struct {
	*httptest.Server
	mu       sync.Mutex
	objects  map[string]map[string]any // by path
	requests []hubRequest
	version  int
	created  func(*v1alpha1.FleetMiniCluster)
	answer   func(http.ResponseWriter, *http.Request) bool // instead of what follows
}

func newFakeHub(t *testing.T, objects ...any) *fakeHub {
	t.Helper()
	h := &fakeHub{objects: map[string]map[string]any{}}
	for _, o := range objects {
		h.put(t, o)
	}
	h.Server = httptest.NewServer(h)
	t.Cleanup(h.Close)
	return h
}

const hubAPI = "/apis/minifleet.dev/v1alpha1/"

func (h *fakeHub) put(t *testing.T, o any) {
	t.Helper()
	raw, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	var fields map[string]any
	if err := json.Unmarshal(raw, &fields); err != nil {
		t.Fatal(err)
	}
	kind := map[string]string{
		"*v1alpha1.FleetMiniCluster": "FleetMiniCluster", "*v1alpha1.GitSource": "GitSource", "*v1alpha1.MemberCluster": "MemberCluster",
	}[fmt.Sprintf("%T", o)]
	fields["apiVersion"], fields["kind"] = "minifleet.dev/v1alpha1", kind
	meta := fields["metadata"].(map[string]any)
	at := hubAPI
	if namespace, ok := meta["namespace"].(string); ok {
		at += "namespaces/" + namespace + "/"
	}
	h.objects[at+strings.ToLower(kind)+"s/"+meta["name"].(string)] = fields
}

// asked are the requests since it was last called.
func (h *fakeHub) asked() []hubRequest {
	h.mu.Lock()
	defer h.mu.Unlock()
	out := h.requests
	h.requests = nil
	return out
}

func (h *fakeHub) annotations(at string) map[string]any {
	h.mu.Lock()
	defer h.mu.Unlock()
	out, _ := h.objects[hubAPI+at]["metadata"].(map[string]any)["annotations"].(map[string]any)
	return out
}

func (h *fakeHub) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	h.mu.Lock()
	defer h.mu.Unlock()
	token := req.Header.Get("Authorization")
	h.requests = append(h.requests, hubRequest{req.Method, req.URL.Path, token, req.UserAgent(), req.URL.Query().Get("dryRun") == "All"})
	if h.answer != nil && h.answer(w, req) {
		return
	}
	namespace, resource, name := parts(req.URL.Path)
	verb := map[string]string{http.MethodGet: "get", http.MethodPatch: "patch", http.MethodPost: "create"}[req.Method]
	if verb == "get" && name == "" {
		verb = "list"
	}
	who, known := strings.CutPrefix(token, "Bearer "+tokenFor(""))
	switch {
	case !known || req.Header.Get("Impersonate-User") != "":
		status(w, http.StatusUnauthorized, metav1.StatusReasonUnauthorized, "Unauthorized")
	case !may(who, verb, resource, namespace):
		status(w, http.StatusForbidden, metav1.StatusReasonForbidden, fmt.Sprintf("User %q cannot %s resource %q in API group \"minifleet.dev\" in the namespace %q", who, verb, resource, namespace))
	case verb == "list":
		h.list(w, req)
	case verb == "create":
		h.create(w, req)
	case h.objects[req.URL.Path] == nil:
		status(w, http.StatusNotFound, metav1.StatusReasonNotFound, resource+` "`+name+`" not found`)
	case verb == "patch":
		h.patch(w, req)
	default:
		respond(w, http.StatusOK, h.objects[req.URL.Path])
	}
}

func parts(at string) (namespace, resource, name string) {
	segments := strings.Split(strings.TrimPrefix(at, hubAPI), "/")
	if segments[0] == "namespaces" {
		namespace, segments = segments[1], segments[2:]
	}
	if len(segments) > 1 {
		name = segments[1]
	}
	return namespace, segments[0], name
}

func (h *fakeHub) list(w http.ResponseWriter, req *http.Request) {
	items := []any{}
	key, value, _ := strings.Cut(req.URL.Query().Get("labelSelector"), "=")
	for at, o := range h.objects {
		labels, _ := o["metadata"].(map[string]any)["labels"].(map[string]any)
		if path.Dir(at) == req.URL.Path && labels[key] == value {
			items = append(items, o)
		}
	}
	respond(w, http.StatusOK, map[string]any{"apiVersion": "minifleet.dev/v1alpha1", "kind": "FleetMiniClusterList", "metadata": map[string]any{}, "items": items})
}

func (h *fakeHub) create(w http.ResponseWriter, req *http.Request) {
	var fields map[string]any
	_ = json.NewDecoder(req.Body).Decode(&fields)
	meta := fields["metadata"].(map[string]any)
	h.version++
	if prefix, ok := meta["generateName"].(string); ok && meta["name"] == nil {
		meta["name"] = fmt.Sprintf("%sx%04d", prefix, h.version)
	}
	at := req.URL.Path + "/" + meta["name"].(string)
	if h.objects[at] != nil {
		status(w, http.StatusConflict, metav1.StatusReasonAlreadyExists, "exists")
		return
	}
	meta["uid"], meta["resourceVersion"] = fmt.Sprintf("uid-%d", h.version), fmt.Sprint(h.version)
	if req.URL.Query().Get("dryRun") == "" {
		h.objects[at] = fields
		raw, _ := json.Marshal(fields)
		f := &v1alpha1.FleetMiniCluster{}
		if err := json.Unmarshal(raw, f); err == nil && h.created != nil {
			go h.created(f)
		}
	}
	respond(w, http.StatusCreated, fields)
}

func (h *fakeHub) patch(w http.ResponseWriter, req *http.Request) {
	var change map[string]any
	_ = json.NewDecoder(req.Body).Decode(&change)
	have := h.objects[req.URL.Path]
	if change["metadata"].(map[string]any)["resourceVersion"] != have["metadata"].(map[string]any)["resourceVersion"] {
		status(w, http.StatusConflict, metav1.StatusReasonConflict, "conflict")
		return
	}
	next := merged(have, change)
	h.version++
	next["metadata"].(map[string]any)["resourceVersion"] = fmt.Sprint("v", h.version)
	if req.URL.Query().Get("dryRun") == "" {
		h.objects[req.URL.Path] = next
	}
	respond(w, http.StatusOK, next)
}

// merged is a JSON merge patch.
func merged(have, change map[string]any) map[string]any {
	out := map[string]any{}
	for k, v := range have {
		out[k] = v
	}
	for k, v := range change {
		part, nested := v.(map[string]any)
		before, _ := out[k].(map[string]any)
		switch {
		case v == nil:
			delete(out, k)
		case nested:
			out[k] = merged(before, part)
		default:
			out[k] = v
		}
	}
	return out
}

func respond(w http.ResponseWriter, code int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(body)
}

func status(w http.ResponseWriter, code int32, reason metav1.StatusReason, message string) {
	respond(w, int(code), metav1.Status{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusFailure, Code: code, Reason: reason, Message: message,
	})
}

// site is a whole dashboard, as browsers and portals reach it, with the hub that it asks.
type site struct {
	*Server
	handler http.Handler
	hub     *fakeHub
}

func newSite(t *testing.T, writes bool, objects ...any) *site {
	t.Helper()
	hub := newFakeHub(t, objects...)
	reviews := &authtest.Reviews{}
	for _, who := range []string{"admin", "reader", "writer", "other"} {
		reviews.SetUser(tokenFor(who), authenticationv1.UserInfo{Username: who, UID: who})
	}
	reviews.SetAllow(func(spec authorizationv1.SubjectAccessReviewSpec) bool {
		return may(spec.User, spec.ResourceAttributes.Verb, spec.ResourceAttributes.Resource, spec.ResourceAttributes.Namespace)
	})
	everything := auth.Rate{PerSecond: 1e6, Burst: 1e6}
	who, err := auth.New(auth.Options{Reviews: reviews, Now: time.Now, Requests: everything, PersonRequests: everything, Logins: everything})
	if err != nil {
		t.Fatal(err)
	}
	s := New(Options{
		Auth: who, Writes: writes, Version: "v0", Now: func() time.Time { return noon },
		// Of this nothing but the host may be used.
		Config: &rest.Config{Host: hub.URL, BearerToken: "of-the-hub", UserAgent: "hub", Impersonate: rest.ImpersonationConfig{UserName: "root"}},
	})
	fill(s, objects...)
	hub.created = s.store.SetMiniCluster
	return &site{s, s.Site(http.NotFoundHandler()), hub}
}

func fill(s *Server, objects ...any) {
	for _, o := range objects {
		switch o := o.(type) {
		case *v1alpha1.FleetMiniCluster:
			s.store.SetMiniCluster(o)
		case *v1alpha1.MemberCluster:
			s.store.SetMember(o)
		case *v1alpha1.GitSource:
			s.store.SetSource(o)
		}
	}
	filled := func() bool { return true }
	s.filled.Store(&filled)
}

// send asks as somebody; headers as "Name: value".
func (s *site) send(method, at, who, body string, headers ...string) *httptest.ResponseRecorder {
	var reader io.Reader
	if body != "" {
		reader = strings.NewReader(body)
	}
	req := httptest.NewRequest(method, "/api/v1"+at, reader)
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	if who != "" {
		req.Header.Set("Authorization", "Bearer "+tokenFor(who))
	}
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		req.Header.Set(name, value)
	}
	w := httptest.NewRecorder()
	s.handler.ServeHTTP(w, req)
	return w
}

func (s *site) post(at, who, body string, headers ...string) *httptest.ResponseRecorder {
	return s.send(http.MethodPost, at, who, body, headers...)
}
