package metricsauth_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/go-logr/logr"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/minifleet/minifleet/controllers/internal/metricsauth"
)

// hub knows the tokens reader and other, lets reader get /metrics, and counts what it is asked.
type hub struct {
	asked int
	fails bool
}

func (h *hub) handler(now func() time.Time) http.Handler {
	c := fake.NewClientset()
	c.PrependReactor("create", "tokenreviews", func(a clienttesting.Action) (bool, runtime.Object, error) {
		h.asked++
		if h.fails {
			return true, nil, errors.New("no answer")
		}
		review := a.(clienttesting.CreateAction).GetObject().(*authenticationv1.TokenReview).DeepCopy()
		review.Status.Authenticated = review.Spec.Token == "reader" || review.Spec.Token == "other"
		review.Status.User.Username = review.Spec.Token
		return true, review, nil
	})
	c.PrependReactor("create", "subjectaccessreviews", func(a clienttesting.Action) (bool, runtime.Object, error) {
		review := a.(clienttesting.CreateAction).GetObject().(*authorizationv1.SubjectAccessReview).DeepCopy()
		path := review.Spec.NonResourceAttributes
		review.Status.Allowed = review.Spec.User == "reader" && path.Path == "/metrics" && path.Verb == "get"
		return true, review, nil
	})
	return metricsauth.New(c, now, logr.Discard(), http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("metrics")) }))
}

func TestMetricsAreForThoseWhomTheHubLets(t *testing.T) {
	for name, tc := range map[string]struct {
		method, path, authorization string
		fails                       bool
		want                        int
	}{
		"nobody":           {want: http.StatusUnauthorized},
		"a password":       {authorization: "Basic YTpi", want: http.StatusUnauthorized},
		"an empty token":   {authorization: "Bearer ", want: http.StatusUnauthorized},
		"a stranger":       {authorization: "Bearer stranger", want: http.StatusUnauthorized},
		"without a right":  {authorization: "Bearer other", want: http.StatusForbidden},
		"another path":     {authorization: "Bearer reader", path: "/debug/pprof", want: http.StatusForbidden},
		"another method":   {authorization: "Bearer reader", method: http.MethodPost, want: http.StatusMethodNotAllowed},
		"the hub is away":  {authorization: "Bearer reader", fails: true, want: http.StatusServiceUnavailable},
		"one who may read": {authorization: "Bearer reader", want: http.StatusOK},
	} {
		t.Run(name, func(t *testing.T) {
			method, path := tc.method, tc.path
			if method == "" {
				method = http.MethodGet
			}
			if path == "" {
				path = "/metrics"
			}
			req := httptest.NewRequest(method, path, nil)
			if tc.authorization != "" {
				req.Header.Set("Authorization", tc.authorization)
			}
			w := httptest.NewRecorder()
			(&hub{fails: tc.fails}).handler(time.Now).ServeHTTP(w, req)
			if w.Code != tc.want || (w.Body.String() == "metrics") != (tc.want == http.StatusOK) {
				t.Errorf("%d: %s", w.Code, w.Body)
			}
		})
	}
}

func TestAPermissionIsRememberedForAMinute(t *testing.T) {
	now := time.Unix(1000, 0)
	h := &hub{}
	handler := h.handler(func() time.Time { return now })
	get := func() {
		req := httptest.NewRequest(http.MethodGet, "/metrics", nil)
		req.Header.Set("Authorization", "Bearer reader")
		handler.ServeHTTP(httptest.NewRecorder(), req)
	}
	get()
	now = now.Add(59 * time.Second)
	get()
	if h.asked != 1 {
		t.Errorf("asked %d times within a minute", h.asked)
	}
	now = now.Add(time.Second)
	get()
	if h.asked != 2 {
		t.Errorf("asked %d times in all", h.asked)
	}
}
