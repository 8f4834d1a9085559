package apitest

import (
	"bufio"
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/dashboard"
	"github.com/minifleet/minifleet/hack/lab"
)

// One hub serves all of these, in this order.
func TestWithAPIServer(t *testing.T) {
	w := newWorld(t)
	t.Run("reads", w.testReads)
	t.Run("writes", w.testWrites)
	t.Run("start", w.testStart)
	t.Run("start in an empty namespace", w.testStartInEmptyNamespace)
	t.Run("a right is lost", w.testLostRight)
	t.Run("audit", w.testAudit)
}

// operation of the API.
type operation struct{ id, method, path string }

// operations are all of the API's description.
func operations(t *testing.T) (out []operation) {
	t.Helper()
	raw, err := dashboard.OpenAPI()
	must(t, err)
	var doc struct {
		Paths map[string]map[string]struct{ OperationID string }
	}
	must(t, json.Unmarshal(raw, &doc))
	for _, path := range slices.Sorted(maps.Keys(doc.Paths)) {
		for method, o := range doc.Paths[path] {
			out = append(out, operation{o.OperationID, strings.ToUpper(method), strings.TrimPrefix(path, "/api/v1")})
		}
	}
	if len(out) < 30 {
		t.Fatalf("got %d operations", len(out))
	}
	return out
}

// at is the path of an operation on what is in a namespace.
func (o operation) at(namespace string) string {
	name := map[string]string{"physics": "lammps", "canary-ns": "canary-name"}[namespace]
	switch {
	case strings.HasPrefix(o.path, "/members/"):
		name = "alpine"
	case strings.HasPrefix(o.path, "/sources/"):
		name = map[string]string{"physics": "fleet", "canary-ns": "canary-source"}[namespace]
	}
	path := strings.NewReplacer("{namespace}", namespace, "{name}", name).Replace(o.path)
	if o.id == "changes" {
		path += "?after=x"
	}
	return path
}

// about is what an operation is about: a member, one object of a namespace, or nothing of these.
func (o operation) about() string {
	switch {
	case strings.HasPrefix(o.path, "/members/"):
		return "member"
	case strings.Contains(o.path, "{name}"):
		return "object"
	}
	return ""
}

func (w *world) testReads(t *testing.T) {
	const absent = http.StatusNotFound
	// What is answered about: all, physics/lammps or physics/fleet, canary-ns/canary-name or canary-source, and alpine.
	want := map[string]struct{ all, physics, canary, member int }{
		"": {401, 401, 401, 401}, "wrong": {401, 401, 401, 401},
		"nobody": {200, absent, absent, absent}, "viewer": {200, 200, absent, 200}, "editor": {200, 200, absent, absent},
		"other": {200, absent, 200, absent}, "root": {200, 200, 200, 200},
	}
	for _, o := range operations(t) {
		if o.method != http.MethodGet || o.id == "stream" {
			continue
		}
		for who, expected := range want {
			for namespace, status := range map[string]int{"physics": expected.physics, "canary-ns": expected.canary} {
				switch o.about() {
				case "member":
					status = expected.member
				case "":
					status = expected.all
				}
				if o.id == "list-events" && who != "root" && who != "editor" && status == http.StatusOK {
					status = absent // events are a right of their own
				}
				got := w.ask(t, http.MethodGet, o.at(namespace), who, "")
				if got.code != status && got.code != http.StatusNotImplemented && o.id != "logs" {
					t.Errorf("%s of %s as %q: %d, want %d: %s", o.id, namespace, who, got.code, status, got.body)
				}
				if shows := strings.Contains(got.body, canary); shows && who != "other" && who != "root" {
					t.Errorf("%s of %s as %q shows %s", o.id, namespace, who, got.body)
				}
				if got.code != absent {
					continue
				}
				missing := w.ask(t, http.MethodGet, strings.NewReplacer("lammps", "absent", "canary-name", "absent", "canary-source", "absent", "fleet", "absent", "alpine", "absent").Replace(o.at(namespace)), who, "")
				if missing.body != got.body || missing.code != got.code {
					t.Errorf("%s as %q: %s, and for what is not there %s", o.id, who, got.body, missing.body)
				}
			}
		}
	}
	if got := w.ask(t, http.MethodGet, "/miniclusters", "root", ""); !strings.Contains(got.body, canary) {
		t.Errorf("who may see everything is shown %s", got.body)
	}
}

// startOf is a body of start.
func startOf(namespace, name string) string {
	return `{"namespace":"` + namespace + `","name":"` + name + `","miniCluster":{"size":2,"containers":[{"image":"lammps"}]},"placement":{"numberOfClusters":1}}`
}

func (w *world) testWrites(t *testing.T) {
	bodies := map[string]string{
		"scale": `{"size":6}`, "run-gone": `{"runs":["00000000aa"],"confirm":true}`, "start": startOf("physics", "matrix"),
		"forecast":      `{"namespace":"physics","items":[]}`,
		"approve-prune": `{"revision":"` + fullHash + `"}`, "approve-runs": `{"revision":"` + fullHash + `"}`,
	}
	const absent, forbidden = http.StatusNotFound, http.StatusForbidden
	// Those who may do it come last: nothing is done before.
	for _, p := range []struct {
		who                            string
		start, physics, canary, alpine int
	}{
		{"", 401, 401, 401, 401},
		{"wrong", 401, 401, 401, 401},
		{"nobody", forbidden, absent, absent, absent},
		{"other", forbidden, absent, 0, absent},
		{"viewer", forbidden, forbidden, absent, forbidden},
		{"editor", 201, 200, absent, absent},
		{"root", 409, 200, 0, 200},
	} {
		for _, o := range operations(t) {
			if o.method != http.MethodPost {
				continue
			}
			for namespace, status := range map[string]int{"physics": p.physics, "canary-ns": p.canary} {
				switch {
				case o.about() == "member":
					status = p.alpine
				case o.id == "start":
					status = p.start
				case o.id == "forecast" && (p.who == "viewer" || status < 300):
					// Who may see members may ask what room they have. None are connected here.
					status = http.StatusServiceUnavailable
				case status == 0:
					continue
				}
				if namespace != "physics" && o.about() != "object" {
					continue
				}
				before := w.versions(t)
				got := w.ask(t, http.MethodPost, o.at(namespace), p.who, bodies[o.id])
				if got.code != status {
					t.Errorf("%s of %s as %q: %d, want %d: %s", o.id, namespace, p.who, got.code, status, got.body)
				}
				if p.who != "root" && strings.Contains(got.body, canary) {
					t.Errorf("%s of %s as %q shows %s", o.id, namespace, p.who, got.body)
				}
				if got.code >= 300 && !maps.Equal(before, w.versions(t)) {
					t.Errorf("%s of %s as %q: %d, and something has changed", o.id, namespace, p.who, got.code)
				}
			}
		}
	}
	var f v1alpha1.FleetMiniCluster
	must(t, w.hub.Get(t.Context(), client.ObjectKey{Namespace: "physics", Name: "lammps"}, &f))
	if f.Annotations[v1alpha1.AnnotationCancel] != "00000000aa" || f.Annotations[v1alpha1.AnnotationRunGone] != "00000000aa" || f.Annotations[v1alpha1.AnnotationRerunAt] == "" || f.Spec.MiniCluster.Size != 6 {
		t.Errorf("got %+v of size %d", f.Annotations, f.Spec.MiniCluster.Size)
	}
}

// versions are the resource versions of all objects, by UID.
func (w *world) versions(t *testing.T) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, list := range []client.ObjectList{&v1alpha1.FleetMiniClusterList{}, &v1alpha1.GitSourceList{}, &v1alpha1.MemberClusterList{}} {
		must(t, w.hub.List(t.Context(), list))
		must(t, meta.EachListItem(list, func(o runtime.Object) error {
			object, err := meta.Accessor(o)
			if err == nil {
				out[string(object.GetUID())] = object.GetResourceVersion()
			}
			return err
		}))
	}
	return out
}

func (w *world) testStart(t *testing.T) {
	const key = "Idempotency-Key: button 7"
	body := startOf("physics", "portal")
	if got := w.ask(t, http.MethodPost, "/miniclusters?dryRun=true", "editor", body, key); got.code != http.StatusOK || !strings.Contains(got.body, `"dryRun":true`) {
		t.Errorf("dry run: %d %s", got.code, got.body)
	}
	at := client.ObjectKey{Namespace: "physics", Name: "portal"}
	if err := w.hub.Get(t.Context(), at, &v1alpha1.FleetMiniCluster{}); err == nil {
		t.Error("the dry run has created it")
	}
	first := w.ask(t, http.MethodPost, "/miniclusters", "editor", body, key)
	if first.code != http.StatusCreated || first.header.Get("Location") != "/api/v1/miniclusters/physics/portal" {
		t.Fatalf("%d %s", first.code, first.body)
	}
	if got := w.ask(t, http.MethodGet, "/miniclusters/physics/portal", "editor", ""); got.code != http.StatusOK {
		t.Errorf("what has just been created: %d %s", got.code, got.body)
	}
	var f v1alpha1.FleetMiniCluster
	must(t, w.hub.Get(t.Context(), at, &f))
	if f.Spec.MiniCluster.Size != 2 || f.Spec.Placement == nil || *f.Spec.Placement.NumberOfClusters != 1 || f.Labels[v1alpha1.LabelRequest] == "" || !strings.Contains(first.body, string(f.UID)) {
		t.Errorf("got %+v", f)
	}
	if got := w.ask(t, http.MethodPost, "/miniclusters", "editor", body, key); got.code != http.StatusOK || !strings.Contains(got.body, string(f.UID)) || !strings.Contains(got.body, `"created":false`) {
		t.Errorf("again: %d %s", got.code, got.body)
	}
	for name, c := range map[string]struct {
		body     string
		code     int
		location string
	}{
		"the key with another body":   {strings.Replace(body, `"size":2`, `"size":3`, 1), http.StatusConflict, ""},
		"a label that is none":        {strings.Replace(startOf("physics", "b"), `"name"`, `"labels":{"a":"b c"},"name"`, 1), http.StatusUnprocessableEntity, "body.labels"},
		"what only the hub refuses":   {strings.Replace(startOf("physics", "c"), `"name"`, `"retries":1000,"name"`, 1), http.StatusUnprocessableEntity, "body.retries"},
		"a name that is none":         {startOf("physics", "A_b"), http.StatusUnprocessableEntity, "body.name"},
		"a placement of another kind": {strings.Replace(startOf("physics", "d"), `"numberOfClusters":1`, `"numberOfClusters":-1`, 1), http.StatusUnprocessableEntity, "body.placement.numberOfClusters"},
	} {
		if got := w.ask(t, http.MethodPost, "/miniclusters?dryRun=true", "editor", c.body, key+name[:1]); name != "the key with another body" && (got.code != c.code || !strings.Contains(got.body, `"`+c.location)) {
			t.Errorf("%s: %d %s", name, got.code, got.body)
		}
	}
	if got := w.ask(t, http.MethodPost, "/miniclusters", "editor", strings.Replace(body, `"size":2`, `"size":3`, 1), key); got.code != http.StatusConflict {
		t.Errorf("the key with another body: %d %s", got.code, got.body)
	}
	if got := w.ask(t, http.MethodPost, "/miniclusters", "root", startOf("not-there", "a")); got.code != http.StatusUnprocessableEntity || !strings.Contains(got.body, "body.namespace") {
		t.Errorf("no such namespace: %d %s", got.code, got.body)
	}
	exists := w.ask(t, http.MethodPost, "/miniclusters", "editor", startOf("canary-ns", "a"))
	missing := w.ask(t, http.MethodPost, "/miniclusters", "editor", startOf("missing--", "a"))
	if exists.code != http.StatusForbidden || missing.code == http.StatusCreated {
		t.Errorf("%d %s, %d %s", exists.code, exists.body, missing.code, missing.body)
	}
	missing = w.ask(t, http.MethodPost, "/miniclusters", "editor", startOf("not-there", "a"))
	if strings.ReplaceAll(exists.body, "canary-ns", "X") != strings.ReplaceAll(missing.body, "not-there", "X") {
		t.Errorf("in a namespace of others: %s, and in one that is not there: %s", exists.body, missing.body)
	}
}

func (w *world) testStartInEmptyNamespace(t *testing.T) {
	if got := w.ask(t, http.MethodPost, "/miniclusters", "newcomer", startOf("empty", "first")); got.code != http.StatusCreated {
		t.Fatalf("%d %s", got.code, got.body)
	}
	if got := w.ask(t, http.MethodGet, "/miniclusters/empty/first", "newcomer", ""); got.code != http.StatusOK {
		t.Errorf("%d %s", got.code, got.body)
	}
	if got := w.ask(t, http.MethodPost, "/miniclusters/empty/first/suspend", "newcomer", ""); got.code != http.StatusOK {
		t.Errorf("%d %s", got.code, got.body)
	}
}

// A stream ends, with its reason, soon after the right to see anything is taken away.
func (w *world) testLostRight(t *testing.T) {
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, w.url+"/stream", nil)
	must(t, err)
	req.Header.Set("Authorization", "Bearer "+w.tokens["leaver"])
	res, err := http.DefaultClient.Do(req)
	must(t, err)
	defer func() { _ = res.Body.Close() }()
	if res.StatusCode != http.StatusOK {
		t.Fatal(res.Status)
	}
	lines := make(chan string)
	go func() {
		defer close(lines)
		for s := bufio.NewScanner(res.Body); s.Scan(); {
			if event, ok := strings.CutPrefix(s.Text(), "event: "); ok {
				lines <- event
			}
			if strings.Contains(s.Text(), "canary") {
				lines <- s.Text()
			}
			if strings.HasPrefix(s.Text(), "data: forbidden") {
				lines <- "forbidden"
			}
		}
	}()
	if hello := <-lines; hello != "hello" {
		t.Fatal(hello)
	}
	must(t, w.hub.Delete(t.Context(), &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: "physics", Name: "leaver-viewer"}}))
	var seen []string
	deadline := time.After(time.Minute)
	for open := true; open; {
		select {
		case event, ok := <-lines:
			if open = ok; ok {
				seen = append(seen, event)
			}
		case <-deadline:
			t.Fatalf("it is still open after %s", seen)
		}
	}
	if len(seen) < 2 || seen[len(seen)-2] != "bye" || seen[len(seen)-1] != "forbidden" || slices.ContainsFunc(seen, func(s string) bool { return strings.Contains(s, canary) }) {
		t.Errorf("got %s", seen)
	}
	if got := w.ask(t, http.MethodGet, "/miniclusters/physics/lammps", "leaver", ""); got.code != http.StatusNotFound {
		t.Errorf("%d %s", got.code, got.body)
	}
}

// Each write is that of the person, to the API server too. The dashboard itself only asks for reviews.
func (w *world) testAudit(t *testing.T) {
	events, err := lab.ReadAudit(w.cluster.AuditLog())
	must(t, err)
	done := map[string]int{}
	for i := range events {
		e := &events[i]
		if !e.Write() || e.UserAgent != "minifleet-dashboard" {
			continue
		}
		who, is := strings.CutPrefix(e.User.Username, userOf(""))
		if !is || e.Object.Group != "minifleet.dev" {
			t.Errorf("%s %s was done by %s", e.Verb, e.RequestURI, e.User.Username)
		}
		if e.Response.Code < 300 {
			done[who]++
		}
	}
	// By the editor: cancel, rerun, run-gone, scale, suspend, sync, two approvals, two starts and a dry run. There was
	// nothing to resume.
	if done["editor"] != 11 || done["root"] < 3 || done["newcomer"] != 2 || len(done) != 3 {
		t.Errorf("writes that were done: %v", done)
	}
}
