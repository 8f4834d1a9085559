package dashboard

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/internal/view"
)

// writable are objects with which everything can be done.
func writable() []any {
	lammps := fleetMiniCluster("physics", "lammps", "alpine")
	lammps.Spec.MiniCluster.MaxSize = 8
	lammps.Status.Clusters[0].Run, lammps.Status.Clusters[0].Sync = lammps.Status.Runs[0].ID, v1alpha1.SyncUnknown
	lammps.Status.Clusters[0].LastHeardTime = ago(12 * time.Minute)
	source := gitSource("physics", "fleet")
	source.Spec.Interval = metav1.Duration{Duration: time.Minute}
	source.Status.Revision, source.Status.Commit = "main@1a2b3c4", fullHash
	for _, blocked := range []string{v1alpha1.ConditionPruneBlocked, v1alpha1.ConditionRunsBlocked} {
		source.Status.Conditions = append(source.Status.Conditions, metav1.Condition{Type: blocked, Status: metav1.ConditionTrue, Message: "2 objects"})
	}
	return []any{lammps, source, lost(memberCluster("alpine"), 12*time.Minute), fleetMiniCluster("canary-ns", "canary-name", "alpine")}
}

// fullHash is that of the commit that is applied.
const fullHash = "1a2b3c4d1a2b3c4d1a2b3c4d1a2b3c4d1a2b3c4d"

const startBody = `{"namespace":"physics","name":"new","miniCluster":{"size":2,"containers":[{"image":"lammps","resources":{"limits":{"cpu":4}}}]},"placement":{"numberOfClusters":1}}`

// writeBodies are those of writes that want one, by operation.
var writeBodies = map[string]string{
	"start": startBody, "scale": `{"size":6}`, "run-gone": `{"runs":["00000000aa"],"confirm":true}`,
	"approve-prune": `{"revision":"` + fullHash + `"}`, "approve-runs": `{"revision":"` + fullHash + `"}`,
}

// writePaths are those of all writes in the API's description.
func writePaths(t *testing.T) map[string]string {
	t.Helper()
	raw, err := OpenAPI()
	if err != nil {
		t.Fatal(err)
	}
	var doc struct {
		Paths map[string]map[string]struct{ OperationID string }
	}
	if err := json.Unmarshal(raw, &doc); err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for path, operations := range doc.Paths {
		op, ok := operations["post"]
		if !ok || op.OperationID == "forecast" { // which writes nothing: TestForecast has it
			continue
		}
		name := "lammps"
		switch {
		case strings.Contains(path, "/members/"):
			name = "alpine"
		case strings.Contains(path, "/sources/"):
			name = "fleet"
		}
		out[op.OperationID] = strings.NewReplacer("{namespace}", "physics", "{name}", name, "/api/v1", "").Replace(path)
	}
	if len(out) != 13 {
		t.Fatalf("%d writes", len(out))
	}
	return out
}

func problemOf(t *testing.T, w *httptest.ResponseRecorder) (detail string, locations []string) {
	t.Helper()
	var out struct {
		Detail string
		Status int
		Errors []struct{ Location, Message string }
	}
	if err := json.Unmarshal(w.Body.Bytes(), &out); err != nil || out.Status != w.Code || w.Header().Get("Content-Type") != "application/problem+json" {
		t.Fatalf("%d %v is no problem: %s", w.Code, w.Header(), w.Body)
	}
	for _, e := range out.Errors {
		locations = append(locations, e.Location)
	}
	return out.Detail, locations
}

// Whoever asks, the hub is asked with their own token and no other, or not at all.
func TestWritesAreThePersonsOwn(t *testing.T) {
	isMember := func(path string) bool { return strings.HasPrefix(path, "/members/") }
	ok := func(operation string) int {
		if operation == "start" {
			return http.StatusCreated
		}
		return http.StatusOK
	}
	people := map[string]struct {
		who  string
		off  bool
		want func(operation, path string) int
	}{
		"no token":    {"", false, func(string, string) int { return http.StatusUnauthorized }},
		"wrong token": {"nobody", false, func(string, string) int { return http.StatusUnauthorized }},
		"other namespace": {"other", false, func(operation, _ string) int {
			if operation == "start" {
				return http.StatusForbidden // it says nothing of what is there
			}
			return http.StatusNotFound
		}},
		"reader": {"reader", false, func(string, string) int { return http.StatusForbidden }},
		"writer": {"writer", false, func(operation, path string) int {
			if isMember(path) {
				return http.StatusNotFound
			}
			return ok(operation)
		}},
		"admin":      {"admin", false, func(operation, _ string) int { return ok(operation) }},
		"writes off": {"admin", true, func(string, string) int { return http.StatusForbidden }},
	}
	for name, p := range people {
		t.Run(name, func(t *testing.T) {
			for operation, path := range writePaths(t) {
				s := newSite(t, !p.off, writable()...)
				w := s.post(path, p.who, writeBodies[operation])
				if want := p.want(operation, path); w.Code != want {
					t.Errorf("%s: %d, want %d: %s", operation, w.Code, want, w.Body)
				}
				asked := s.hub.asked()
				for _, r := range asked {
					if r.Authorization != "Bearer "+tokenFor(p.who) || r.UserAgent != "minifleet-dashboard" {
						t.Errorf("%s: the hub was asked as %+v", operation, r)
					}
				}
				if silent := w.Code == http.StatusUnauthorized || w.Code == http.StatusNotFound || p.off; silent != (len(asked) == 0) {
					t.Errorf("%s: the hub was asked %+v", operation, asked)
				}
				if p.who != "admin" && strings.Contains(w.Body.String(), canary) {
					t.Errorf("%s shows %s", operation, w.Body)
				}
				switch w.Code {
				case http.StatusForbidden:
					detail, _ := problemOf(t, w)
					own := strings.Contains(detail, fmt.Sprintf("User %q cannot", p.who)) || strings.HasPrefix(detail, "You may not change")
					if p.off && detail != readOnly || !p.off && !own {
						t.Errorf("%s: %s", operation, detail)
					}
				case http.StatusNotFound:
					if absent := s.post(strings.NewReplacer("lammps", "absent", "alpine", "absent", "fleet", "absent").Replace(path), p.who, writeBodies[operation]); absent.Body.String() != w.Body.String() {
						t.Errorf("%s: %s, and for what is not there %s", operation, w.Body, absent.Body)
					}
				}
			}
		})
	}
}

// Where writes are off, that is said before anything about the request.
func TestReadOnly(t *testing.T) {
	s := newSite(t, false, writable()...)
	for _, body := range []string{"{", `{"size":"x"}`, `{"size":6}`} {
		w := s.post("/miniclusters/physics/lammps/scale", "writer", body)
		if detail, _ := problemOf(t, w); w.Code != http.StatusForbidden || detail != readOnly {
			t.Errorf("%s: %d %s", body, w.Code, detail)
		}
	}
}

// The hub's API server may know less than the store, or say otherwise than the reviews.
func TestAnswersOfTheHub(t *testing.T) {
	cases := map[string]struct {
		answer func(http.ResponseWriter)
		want   int
		says   string
	}{
		"token expired":  {func(w http.ResponseWriter) { status(w, 401, metav1.StatusReasonUnauthorized, "Unauthorized") }, 401, "log in again"},
		"absent by now":  {func(w http.ResponseWriter) { status(w, 404, metav1.StatusReasonNotFound, "not found") }, 404, "not found"},
		"a webhook":      {func(w http.ResponseWriter) { status(w, 400, "", "admission webhook \"x\" denied\x1b[2J the request") }, 422, "denied\uFFFD[2J the request"},
		"a policy":       {func(w http.ResponseWriter) { status(w, 403, metav1.StatusReasonForbidden, "denied by a policy") }, 403, "denied by a policy"},
		"internal error": {func(w http.ResponseWriter) { status(w, 500, metav1.StatusReasonInternalError, "canary") }, 503, "did not answer"},
		"no JSON":        {func(w http.ResponseWriter) { w.WriteHeader(http.StatusBadGateway); _, _ = w.Write([]byte("canary")) }, 503, "did not answer"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			s := newSite(t, true, writable()...)
			s.hub.answer = func(w http.ResponseWriter, _ *http.Request) bool { c.answer(w); return true }
			w := s.post("/miniclusters/physics/lammps/suspend", "writer", "")
			if detail, _ := problemOf(t, w); w.Code != c.want || !strings.Contains(detail, c.says) || strings.Contains(w.Body.String(), canary) {
				t.Errorf("%d %s", w.Code, w.Body)
			}
		})
	}
	t.Run("nobody there", func(t *testing.T) {
		s := newSite(t, true, writable()...)
		s.hub.Close()
		w := s.post("/miniclusters/physics/lammps/suspend", "writer", "")
		if w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") == "" {
			t.Errorf("%d %s", w.Code, w.Body)
		}
	})
	t.Run("conflicts without end", func(t *testing.T) {
		s := newSite(t, true, writable()...)
		s.hub.answer = func(w http.ResponseWriter, req *http.Request) bool {
			if req.Method == http.MethodPatch {
				status(w, 409, metav1.StatusReasonConflict, "conflict")
			}
			return req.Method == http.MethodPatch
		}
		if w := s.post("/miniclusters/physics/lammps/suspend", "writer", ""); w.Code != http.StatusConflict {
			t.Errorf("%d %s", w.Code, w.Body)
		}
	})
}

func doneBy(t *testing.T, w *httptest.ResponseRecorder) Done {
	t.Helper()
	var out Done
	if err := json.Unmarshal(w.Body.Bytes(), &out); err != nil || w.Code != http.StatusOK {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	return out
}

func TestDone(t *testing.T) {
	const lammps = "namespaces/physics/fleetminiclusters/lammps"
	cases := map[string]struct {
		path, body string
		headers    []string
		message    string
		object     string
		annotation string
		value      string
	}{
		"cancel all":  {path: "/miniclusters/physics/lammps/cancel", message: "Cancels run 00000000aa on alpine: its 4 pods are", object: lammps, annotation: v1alpha1.AnnotationCancel, value: "00000000aa"},
		"cancel one":  {path: "/miniclusters/physics/lammps/cancel", body: `{"runs":["00000000aa"]}`, message: "Cancels run", object: lammps, annotation: v1alpha1.AnnotationCancel, value: "00000000aa"},
		"suspend":     {path: "/miniclusters/physics/lammps/suspend", body: "{}", message: "Starts nothing new and suspends run", object: lammps, annotation: v1alpha1.AnnotationHold, value: "true"},
		"rerun":       {path: "/miniclusters/physics/lammps/rerun", message: "Runs it once more", object: lammps, annotation: v1alpha1.AnnotationRerunAt, value: "2026-03-04T12:00:00Z"},
		"rerun, key":  {path: "/miniclusters/physics/lammps/rerun", headers: []string{"Idempotency-Key: a b"}, message: "Runs it once more", object: lammps, annotation: v1alpha1.AnnotationRerunAt, value: tokenOf("a b")},
		"run gone":    {path: "/miniclusters/physics/lammps/run-gone", body: writeBodies["run-gone"], message: "Gives up run 00000000aa on alpine (last heard of 12m ago, with 4 pods)", object: lammps, annotation: v1alpha1.AnnotationRunGone, value: "00000000aa"},
		"sync":        {path: "/sources/physics/fleet/sync", message: "Reads the repository now", object: "namespaces/physics/gitsources/fleet", annotation: v1alpha1.AnnotationReconcileAt, value: "2026-03-04T12:00:00Z"},
		"prune":       {path: "/sources/physics/fleet/approve-prune", body: writeBodies["approve-prune"], message: "Deletes from the hub", object: "namespaces/physics/gitsources/fleet", annotation: v1alpha1.AnnotationApprovePrune, value: fullHash},
		"drain":       {path: "/members/alpine/drain", message: "Stops what runs on alpine (canary-ns/canary-name", object: "memberclusters/alpine", annotation: v1alpha1.AnnotationDrain, value: "true"},
		"scale":       {path: "/miniclusters/physics/lammps/scale", body: `{"size":6}`, message: "Adds 2 pods on each member (6, not 4)"},
		"cordon":      {path: "/members/alpine/cordon", message: "Starts nothing new on alpine; what runs there"},
		"nothing new": {path: "/members/alpine/uncordon", message: "Nothing: the member is neither drained nor cordoned."},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			s := newSite(t, true, writable()...)
			dry := doneBy(t, s.post(c.path+"?dryRun=true", "admin", c.body, c.headers...))
			if !dry.DryRun || !strings.HasPrefix(dry.Message, c.message) || c.object != "" && s.hub.annotations(c.object)[c.annotation] != nil {
				t.Errorf("dry run: %+v", dry)
			}
			if asked := s.hub.asked(); dry.Changed && !slices.ContainsFunc(asked, func(r hubRequest) bool { return r.Method == http.MethodPatch && r.DryRun }) {
				t.Errorf("dry run: %+v", asked)
			}
			done := doneBy(t, s.post(c.path, "admin", c.body, c.headers...))
			if done.DryRun || done.Changed != dry.Changed || done.Message != dry.Message {
				t.Errorf("%+v, and the dry run %+v", done, dry)
			}
			if c.object == "" {
				return
			}
			if got := s.hub.annotations(c.object)[c.annotation]; got != c.value || !done.Changed {
				t.Errorf("%s is %v", c.annotation, got)
			}
			again := doneBy(t, s.post(c.path, "admin", c.body, c.headers...))
			if again.Changed || s.hub.annotations(c.object)[c.annotation] != c.value || !strings.HasPrefix(again.Message, "Nothing: ") {
				t.Errorf("again: %+v", again)
			}
		})
	}
}

func TestRefusedWrites(t *testing.T) {
	cases := map[string]struct {
		path, body string
		code       int
		says       string
		locations  []string
	}{
		"run gone, not confirmed": {"/miniclusters/physics/lammps/run-gone", `{"runs":["00000000aa"],"confirm":false}`, 422, "Gives up run 00000000aa on alpine (last heard of 12m ago, with 4 pods), and what that was for starts on another member", []string{"body.confirm"}},
		"run gone, no run":        {"/miniclusters/physics/lammps/run-gone", `{"runs":["x"],"confirm":true}`, 422, `there is no run "x" on record`, []string{"body.runs"}},
		"cancel, no run":          {"/miniclusters/physics/lammps/cancel", `{"runs":["x"]}`, 422, "there is no run", []string{"body.runs"}},
		"scale, too large":        {"/miniclusters/physics/lammps/scale", `{"size":9}`, 422, "FleetMiniCluster physics/lammps: spec.miniCluster.size: 9 is above maxSize, 8: choose a smaller one", []string{"body.size"}},
		"scale, zero":             {"/miniclusters/physics/lammps/scale", `{"size":0}`, 422, "validation failed", []string{"body.size"}},
		"scale, unknown field":    {"/miniclusters/physics/lammps/scale", `{"size":6,"sise":6}`, 422, "validation failed", []string{"body.sise"}},
		"suspend, a body":         {"/miniclusters/physics/lammps/suspend", `{"size":6}`, 422, "takes no body", []string{"body"}},
		"suspend, two bodies":     {"/miniclusters/physics/lammps/suspend", `{}{}`, 422, "takes no body", []string{"body"}},
		"prune, another revision": {"/sources/physics/fleet/approve-prune", `{"revision":"main@0000000"}`, 409, `"main@0000000" is not what waits for approval`, nil},
		"prune, a short hash":     {"/sources/physics/fleet/approve-prune", `{"revision":"main@1a2b3c4"}`, 409, "which is the commit " + fullHash, nil},
		"a path in a name":        {"/miniclusters/physics/..%2f..%2fphysics%2flammps/suspend", "", 404, "not found", nil},
		"absent":                  {"/miniclusters/physics/absent/suspend", "", 404, "not found", nil},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			s := newSite(t, true, writable()...)
			w := s.post(c.path, "writer", c.body)
			detail, locations := problemOf(t, w)
			if w.Code != c.code || !strings.Contains(detail, c.says) || !slices.Equal(locations, c.locations) {
				t.Errorf("%d %q at %q", w.Code, detail, locations)
			}
			for _, r := range s.hub.asked() {
				if r.Method != http.MethodGet && !r.DryRun {
					t.Errorf("the hub was asked %+v", r)
				}
			}
		})
	}
}

// Bodies are small, JSON, and of the page itself.
func TestBodies(t *testing.T) {
	s := newSite(t, true, writable()...)
	large := `{"size":6,"x":"` + strings.Repeat("x", 1<<20) + `"}`
	cases := map[string]struct {
		body    string
		headers []string
		want    int
	}{
		"JSON":              {`{"size":6}`, nil, 200},
		"not JSON":          {`size=6`, []string{"Content-Type: application/x-www-form-urlencoded"}, 415},
		"text":              {`{"size":6}`, []string{"Content-Type: text/plain"}, 415},
		"CBOR":              {"\xa1dsize\x06", []string{"Content-Type: application/cbor"}, 415},
		"broken":            {`{"size":`, nil, 400},
		"none":              {"", nil, 400},
		"large":             {large, nil, 413},
		"large, in pieces":  {large, []string{"Transfer-Encoding: chunked"}, 413},
		"another origin":    {`{"size":6}`, []string{"Sec-Fetch-Site: cross-site", "Origin: https://evil.example"}, 403},
		"two tokens":        {`{"size":6}`, []string{"Authorization: Bearer a b"}, 401},
		"a session, absent": {`{"size":6}`, []string{"Authorization: ", "Cookie: __Host-minifleet=x"}, 401},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			w := s.post("/miniclusters/physics/lammps/scale?dryRun=true", "writer", c.body, c.headers...)
			if w.Code != c.want {
				t.Errorf("%d %s", w.Code, w.Body)
			}
			if w.Code != http.StatusOK {
				problemOf(t, w)
			}
		})
	}
}

// What details offer is enabled exactly where asking for it changes something.
func TestOffersAgreeWithWrites(t *testing.T) {
	state := func(change func(*v1alpha1.FleetMiniCluster)) []any {
		all := writable()
		change(all[0].(*v1alpha1.FleetMiniCluster))
		return all
	}
	annotated := func(key, value string) []any {
		return state(func(f *v1alpha1.FleetMiniCluster) { f.Annotations = map[string]string{key: value} })
	}
	approved := writable()
	approved[1].(*v1alpha1.GitSource).Annotations = map[string]string{v1alpha1.AnnotationApprovePrune: fullHash, v1alpha1.AnnotationReconcileAt: "7"}
	stopped := writable()
	stopped[1].(*v1alpha1.GitSource).Spec.Suspend = true
	stopped[1].(*v1alpha1.GitSource).Status.Conditions = nil
	stopped[2].(*v1alpha1.MemberCluster).Spec.Suspend = true
	drained := writable()
	drained[2].(*v1alpha1.MemberCluster).Annotations = map[string]string{v1alpha1.AnnotationDrain: "true"}
	states := map[string][]any{
		"running":  writable(),
		"ended":    state(func(f *v1alpha1.FleetMiniCluster) { succeeded(f) }),
		"reached":  state(func(f *v1alpha1.FleetMiniCluster) { f.Status.Clusters[0].Sync = v1alpha1.Synced }),
		"rigid":    state(func(f *v1alpha1.FleetMiniCluster) { f.Spec.MiniCluster.MaxSize = 0 }),
		"one size": state(func(f *v1alpha1.FleetMiniCluster) { f.Spec.MiniCluster.MaxSize, f.Spec.MiniCluster.MinSize = 4, 4 }),
		"in Git": state(func(f *v1alpha1.FleetMiniCluster) {
			f.Spec.Suspend, f.Annotations = true, map[string]string{v1alpha1.AnnotationSourceSuspend: "true"}
		}),
		"deleting": state(func(f *v1alpha1.FleetMiniCluster) {
			f.DeletionTimestamp, f.Finalizers = ago(time.Minute), []string{"a/b"}
		}),
		"waiting": state(func(f *v1alpha1.FleetMiniCluster) { waiting(f, "2 CPU are missing") }),
		"held":    annotated(v1alpha1.AnnotationHold, "true"), "cancelled": annotated(v1alpha1.AnnotationCancel, "00000000aa"),
		"declared": annotated(v1alpha1.AnnotationRunGone, "00000000aa"), "asked": annotated(v1alpha1.AnnotationRerunAt, "7"),
		"approved": approved, "stopped": stopped, "drained": drained,
	}
	bodies := map[string]string{"scale": `{"size":6}`, "run-gone": writeBodies["run-gone"], "approve-prune": writeBodies["approve-prune"], "approve-runs": writeBodies["approve-runs"]}
	for name, objects := range states {
		for _, who := range []string{"admin", "reader"} {
			t.Run(name+", "+who, func(t *testing.T) {
				s := newSite(t, true, objects...)
				for _, at := range []string{"/miniclusters/physics/lammps", "/sources/physics/fleet", "/members/alpine"} {
					var detail struct{ Actions []view.Action }
					if err := json.Unmarshal(s.send(http.MethodGet, at, who, "").Body.Bytes(), &detail); err != nil || len(detail.Actions) < 3 {
						t.Fatal(detail, err)
					}
					for _, a := range detail.Actions {
						w := s.post(at+"/"+a.Name+"?dryRun=true", who, bodies[a.Name])
						var done Done
						_ = json.Unmarshal(w.Body.Bytes(), &done)
						if does := w.Code == http.StatusOK && done.Changed; does != a.Enabled || (a.Reason == "") != a.Enabled {
							t.Errorf("%s: %+v, and asking for it: %d %s", at, a, w.Code, w.Body)
						}
						if a.Enabled && a.Name != "scale" && a.Effect != done.Message {
							t.Errorf("%s: %q, and asking for it: %q", a.Name, a.Effect, done.Message)
						}
					}
				}
			})
		}
	}
	off := newSite(t, false, writable()...)
	var detail struct{ Actions []view.Action }
	_ = json.Unmarshal(off.send(http.MethodGet, "/miniclusters/physics/lammps", "admin", "").Body.Bytes(), &detail)
	for _, a := range detail.Actions {
		if a.Enabled || a.Reason != readOnly {
			t.Errorf("writes are off, and there is %+v", a)
		}
	}
}
