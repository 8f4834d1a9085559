package dashboard

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/internal/fit"
	"github.com/minifleet/minifleet/internal/queue"
	"github.com/minifleet/minifleet/internal/view"
)

// canary is in everything of a namespace that most readers may not see.
const canary = "canary"

// canaries are a fleet in which physics and canary-ns share members, and whose texts name each other.
func canaries() []any {
	turn := "its room is kept for canary-ns/canary-name, which waits for it and comes first (priority 7, created 2026-01-02T03:04:05Z)"
	hidden := fleetMiniCluster("canary-ns", "canary-name", "alpine")
	hidden.Labels["canary-label"] = "canary-value"
	hidden.Status.Conditions[0].Message = "canary message"
	hidden.Status.Clusters[0].Message = "canary message"
	hidden.Status.Revision = "canary@0123456"
	hidden.Status.Runs[0].Revision, hidden.Status.Runs[0].Message = "canary@0123456", "canary message"
	elsewhere := fleetMiniCluster("canary-ns", "canary-elsewhere", "birch")
	behind := waiting(fleetMiniCluster("physics", "behind", "alpine"), turn)
	behind.Status.Conditions[0].Message = "0 of 1 members chosen (none); waits for room; alpine: " + turn
	behind.Status.Placement.Rejected = []v1alpha1.RejectedCluster{{Name: "birch", Reason: "Job physics/behind already exists on the member and belongs to FleetMiniCluster canary-ns/canary-name: rename one of the two"}}
	alpine := memberCluster("alpine")
	alpine.Status.Conditions = append(alpine.Status.Conditions,
		metav1.Condition{Type: v1alpha1.ConditionDrained, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonRunsLive, Message: "canary-ns/canary-name is live"},
		metav1.Condition{Type: v1alpha1.ConditionUnownedJobs, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonOwnerNotFound, Message: "canary-ns/canary-job"})
	alpine.Status.UnownedJobs = []v1alpha1.UnownedJob{{Namespace: "canary-ns", Name: "canary-job", Owner: "canary-ns/canary-job", Since: *ago(time.Hour)}}
	alpine.Status.Orphans = []v1alpha1.Orphan{{Owner: "canary-ns/canary-orphan", Namespace: "canary-ns", Name: "canary-orphan"}}
	source := gitSource("canary-ns", "canary-source", v1alpha1.Commit{Hash: "canary", Revision: "canary@0123456", Subject: "canary subject", Author: "canary author"})
	source.Status.Problems = []v1alpha1.FileProblem{{Path: "canary.yaml", Message: "canary problem"}}
	return []any{
		alpine, memberCluster("birch"), fleetMiniCluster("physics", "lammps", "alpine"), behind, hidden, elsewhere,
		waitingLine(), gitSource("physics", "fleet", v1alpha1.Commit{Hash: "1a2b3c4d", Revision: "main@1a2b3c4", Subject: "Use more ranks", Author: "Ada"}), source,
	}
}

// document is the API's description, which takes a while to make.
var document = sync.OnceValues(OpenAPI)

// waitingLine is that for room on alpine, in which one waits that most may not see.
func waitingLine() *queue.Queue {
	q := queue.New()
	for name, priority := range map[queue.Key]int32{{Namespace: "canary-ns", Name: "canary-name"}: 7, {Namespace: "physics", Name: "behind"}: 0} {
		q.Update(name, nil, &queue.Entry{Rank: queue.Rank{Priority: priority, Key: name}, Gangs: map[string]fit.Gang{"alpine": {Size: 4}}})
	}
	return q
}

// getPaths are those of all reads in the API's description, with the parameters given.
func getPaths(t *testing.T, namespace, name, member string) map[string]string {
	t.Helper()
	raw, err := document()
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
		op, ok := operations["get"]
		if !ok || op.OperationID == "stream" {
			continue // TestStream has the stream
		}
		at := name
		switch {
		case strings.Contains(path, "/members/"):
			at = member
		case strings.Contains(path, "/sources/"):
			at = map[string]string{"physics": "fleet", "canary-ns": "canary-source"}[namespace]
		}
		path = strings.NewReplacer("{namespace}", namespace, "{name}", at, "/api/v1", "").Replace(path)
		if op.OperationID == "changes" {
			path += "?after=CURSOR"
		}
		out[op.OperationID] = path
	}
	return out
}

func TestReadsShowOnlyWhatMayBeSeen(t *testing.T) {
	readers := map[string]struct {
		access *fakeAccess
		own    int // status of reads of what is in physics
		member int
	}{
		"nothing":                     {&fakeAccess{}, http.StatusNotFound, http.StatusNotFound},
		"one namespace":               {&fakeAccess{namespaces: scope{"physics"}}, http.StatusOK, http.StatusNotFound},
		"one namespace and members":   {&fakeAccess{namespaces: scope{"physics"}, members: true}, http.StatusOK, http.StatusOK},
		"members only":                {&fakeAccess{members: true}, http.StatusNotFound, http.StatusOK},
		"no answer of the API server": {&fakeAccess{namespaces: scope{"*"}, err: errReviews}, http.StatusServiceUnavailable, http.StatusServiceUnavailable},
	}
	for name, r := range readers {
		t.Run(name, func(t *testing.T) {
			s := newServer(r.access, canaries()...)
			cursor := first(s)
			for _, of := range []struct{ namespace, name string }{{"physics", "lammps"}, {"physics", "behind"}, {"canary-ns", "canary-name"}} {
				for operation, path := range getPaths(t, of.namespace, of.name, "alpine") {
					path = strings.Replace(path, "CURSOR", cursor, 1)
					w := request(s, path)
					if body := w.Body.String(); strings.Contains(body, canary) {
						t.Errorf("%s %s shows %s", operation, path, body)
					}
					if want := wantedStatus(operation, of.namespace, r.own, r.member); w.Code != want && operation != "list-events" && (operation != "logs" || !noLog(w.Code, want)) {
						t.Errorf("%s %s: %d, want %d: %s", operation, path, w.Code, want, w.Body)
					}
					absent := request(s, strings.Replace(path, of.name, "absent", 1))
					if w.Code == http.StatusNotFound && absent.Body.String() != w.Body.String() {
						t.Errorf("%s %s: %s, and for what is not there %s", operation, path, w.Body, absent.Body)
					}
				}
			}
		})
	}
}

func wantedStatus(operation, namespace string, own, member int) int {
	switch {
	case own == http.StatusServiceUnavailable:
		return own
	case operation == "get-member":
		return member
	case !strings.HasPrefix(operation, "get-") && operation != "logs":
		return http.StatusOK
	case namespace != "physics":
		return http.StatusNotFound
	default:
		return own
	}
}

// noLog says whether an answer is one of those where there is no log, for it has not run, or its member is not connected.
func noLog(code, want int) bool {
	return want == http.StatusOK && (code == http.StatusConflict || code == http.StatusServiceUnavailable)
}

// Who may see everything is shown all of it, so that the test above means something.
func TestReadsShowWhatMayBeSeen(t *testing.T) {
	s := newServer(&fakeAccess{namespaces: scope{"*"}, members: true}, canaries()...)
	for operation, path := range getPaths(t, "canary-ns", "canary-name", "alpine") {
		path = strings.Replace(path, "CURSOR", first(s), 1)
		w := request(s, path)
		silent := []string{"session", "list-members", "list-events"}
		if w.Code == http.StatusOK && !strings.Contains(w.Body.String(), canary) && !slices.Contains(silent, operation) {
			t.Errorf("%s %s does not show it: %s", operation, path, w.Body)
		}
	}
}

func TestCountsAreOfWhatMayBeSeen(t *testing.T) {
	s := newServer(&fakeAccess{namespaces: scope{"physics"}, members: true}, canaries()...)
	if got := read[view.Rows](t, s, "/miniclusters?limit=1"); got.Total != 2 || len(got.Items) != 1 || len(got.Facets.Namespaces) != 1 {
		t.Errorf("got %+v", got)
	}
	if got := read[view.Summary](t, s, "/summary"); got.MiniClusters != 2 || got.Queue != 1 || *got.Members != (view.Ready{Ready: 2, Total: 2}) || got.Sources.Total != 1 || got.Room.Nodes != 8 {
		t.Errorf("got %+v", got)
	}
	alpine := read[view.MemberDetail](t, s, "/members/alpine")
	if alpine.Live != 1 || alpine.Waiting != 1 || alpine.Unowned != 0 || alpine.Orphans != 0 || len(alpine.Runs) != 1 {
		t.Errorf("got %+v", alpine)
	}
	if !strings.Contains(alpine.Actions[0].Effect, "runs that you may not see") {
		t.Errorf("a drain would %s", alpine.Actions[0].Effect)
	}
	s = newServer(&fakeAccess{namespaces: scope{"physics"}}, canaries()...)
	if got := read[view.Summary](t, s, "/summary"); got.Members != nil || got.Room != nil {
		t.Errorf("got %+v", got)
	}
	for _, path := range []string{"/miniclusters?q=canary", "/miniclusters?q=canary-label", "/miniclusters?namespace=canary-ns", "/miniclusters?q=commit:0123456"} {
		if got := read[view.Rows](t, s, path); got.Total != 0 || len(got.Facets.States) > 0 && !strings.Contains(path, "namespace=") {
			t.Errorf("%s: got %+v", path, got)
		}
	}
}

// first is the cursor before all that the store holds.
func first(s *Server) string {
	epoch, _, _ := strings.Cut(s.store.Cursor(), "-")
	return epoch + "-0"
}
