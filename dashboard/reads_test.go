package dashboard

import (
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/internal/view"
)

func all() *fakeAccess { return &fakeAccess{namespaces: scope{"*"}, members: true} }

func TestSession(t *testing.T) {
	s := newServer(all())
	want := Session{Name: "ada", Groups: []string{"hpc"}, Members: true, Version: "v0", Now: noon}
	if diff := cmp.Diff(want, read[Session](t, s, "/session")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestList(t *testing.T) {
	s := newServer(all(), fleetOf(100)...)
	page := read[view.Rows](t, s, "/miniclusters?limit=10&offset=95&sort=name")
	if page.Total != 100 || len(page.Items) != 5 || page.Items[0].Name != "lammps-00095" || page.Cursor != s.store.Cursor() {
		t.Errorf("got %+v", page)
	}
	if got := read[view.Rows](t, s, "/miniclusters?sort=name&order=desc&limit=1&state=running&state=failed"); got.Items[0].Name != "lammps-00099" || got.Total != 38 {
		t.Errorf("got %+v", got)
	}
	if got := read[view.Rows](t, s, "/miniclusters?limit=0"); got.Total != 100 || len(got.Items) != 0 {
		t.Errorf("got %+v", got)
	}
	projected := read[struct {
		Items []map[string]any
		Total int
	}](t, s, "/miniclusters?fields=state,pods&limit=2&sort=name")
	if len(projected.Items) != 2 || len(projected.Items[0]) != 4 || projected.Items[1]["name"] != "lammps-00001" || projected.Items[1]["state"] != "Succeeded" {
		t.Errorf("got %+v", projected)
	}
}

func TestRefusals(t *testing.T) {
	s := newServer(all(), fleetOf(1)...)
	for path, want := range map[string]string{
		"/miniclusters?q=colour:red":                                  "there is no colour:",
		"/miniclusters?state=lost":                                    "use one of failed",
		"/miniclusters?fields=secrets":                                "a row has no secrets",
		"/miniclusters?limit=1001":                                    "1000",
		"/miniclusters?sort=colour":                                   "sort",
		"/timeline?from=2026-03-04T12:00:00Z&to=2026-03-04T11:00:00Z": "exchange them",
		"/timeline?from=yesterday":                                    "from",
		"/miniclusters?q=" + strings.Repeat("x", 600):                 "512",
		"/miniclusters/" + strings.Repeat("x", 70) + "/lammps":        "63",
		"/changes": "after",
		"/summary?" + strings.Repeat("namespace=a&", 65) + "namespace=last": "64",
	} {
		if w := request(s, path); w.Code != http.StatusUnprocessableEntity || !strings.Contains(w.Body.String(), want) {
			t.Errorf("%.80s: got %d %s", path, w.Code, w.Body)
		}
	}
}

// Until the cache is filled nothing is answered: an empty list would be a lie.
func TestNotFilled(t *testing.T) {
	s := newServer(all(), fleetOf(1)...)
	filled := false
	is := func() bool { return filled }
	s.filled.Store(&is)
	if w := request(s, "/miniclusters"); w.Code != http.StatusServiceUnavailable {
		t.Errorf("got %d", w.Code)
	}
	filled = true
	if w := request(s, "/miniclusters"); w.Code != http.StatusOK {
		t.Errorf("got %d", w.Code)
	}
}

func TestDetailOverAPI(t *testing.T) {
	s := newServer(all(), canaries()...)
	d := read[view.MiniCluster](t, s, "/miniclusters/physics/lammps")
	if d.State != "Running" || d.Runs[0].Commit.Subject != "Use more ranks" || !d.MayReadLogs || d.Cursor != s.store.Cursor() || d.Command != "lmp -in in.reaxff" {
		t.Errorf("got %+v", d)
	}
	m := read[view.Manifest](t, s, "/miniclusters/physics/lammps/manifest")
	if !strings.HasPrefix(m.YAML, "apiVersion: minifleet.dev/v1alpha1\nkind: FleetMiniCluster\n") || !strings.Contains(m.YAML, "command: lmp -in in.reaxff") {
		t.Errorf("got %s", m.YAML)
	}
}

func TestActions(t *testing.T) {
	silent := fleetMiniCluster("physics", "silent", "cinder")
	silent.Status.Clusters[0].Sync, silent.Status.Clusters[0].LastHeardTime = v1alpha1.SyncUnknown, ago(time.Hour)
	cinder := memberCluster("cinder")
	lost(cinder, time.Hour)
	elastic := succeeded(fleetMiniCluster("physics", "elastic", "alpine"))
	elastic.Spec.MiniCluster.MaxSize = 8
	held := fleetMiniCluster("physics", "held", "alpine")
	held.Annotations = map[string]string{v1alpha1.AnnotationHold: "true"}
	access := &fakeAccess{namespaces: scope{"physics"}}
	s := newServer(access, fleetMiniCluster("physics", "lammps", "alpine"), silent, elastic, held, cinder, gitSource("physics", "fleet"))
	enabled := func(path string) []string {
		out := []string{}
		for _, a := range read[struct{ Actions []view.Action }](t, s, path).Actions {
			switch {
			case a.Enabled && (a.Effect == "" || a.Reason != ""), !a.Enabled && a.Reason == "":
				t.Errorf("%s: got %+v", path, a)
			case a.Enabled:
				out = append(out, a.Name)
			}
		}
		return out
	}
	if got := enabled("/miniclusters/physics/lammps"); len(got) > 0 {
		t.Errorf("a dashboard that only shows lets people %s", got)
	}
	s.o.Writes = true
	for path, want := range map[string][]string{
		"/miniclusters/physics/lammps":  {"rerun", "cancel", "suspend"},
		"/miniclusters/physics/silent":  {"rerun", "cancel", "suspend", "run-gone"},
		"/miniclusters/physics/elastic": {"rerun", "suspend", "scale"},
		"/miniclusters/physics/held":    {"rerun", "cancel", "resume"},
		"/sources/physics/fleet":        {"sync"},
	} {
		if diff := cmp.Diff(want, enabled(path)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", path, diff)
		}
	}
	access.set(func(a *fakeAccess) { a.refuse = "patch" })
	if got := enabled("/miniclusters/physics/lammps"); len(got) > 0 {
		t.Errorf("who may not change it may %s", got)
	}
}

func TestCompression(t *testing.T) {
	s := newServer(all(), fleetOf(50)...)
	for name, c := range map[string]struct {
		path, accept string
		compressed   bool
	}{
		"large":               {"/miniclusters", "gzip, deflate, br", true},
		"small":               {"/session", "gzip", false},
		"not accepted":        {"/miniclusters", "br", false},
		"refused":             {"/miniclusters", "gzip;q=0", false},
		"accepted with a q":   {"/miniclusters", "br, GZIP;q=0.5", true},
		"nothing is accepted": {"/miniclusters", "", false},
	} {
		w := httptest.NewRecorder()
		req := httptest.NewRequest(http.MethodGet, "/api/v1"+c.path, nil)
		req.Header.Set("Accept-Encoding", c.accept)
		handlerOf(s).ServeHTTP(w, req)
		if (w.Header().Get("Content-Encoding") == "gzip") != c.compressed || w.Code != http.StatusOK || w.Header().Get("Vary") == "" {
			t.Errorf("%s: got %d %s", name, w.Code, w.Header())
		}
		var body io.Reader = w.Body
		if c.compressed {
			var err error
			if body, err = gzip.NewReader(w.Body); err != nil {
				t.Fatal(err)
			}
		}
		if err := json.NewDecoder(body).Decode(&map[string]any{}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestTimelineAndGrid(t *testing.T) {
	s := newServer(all(), fleetOf(40)...)
	line := read[view.Timeline](t, s, "/timeline?limit=7")
	bars := 0
	for _, l := range line.Lanes {
		bars += len(l.Bars)
	}
	if bars != 7 || line.Total != 40 || len(line.Lanes) < 50 || line.To.Sub(line.From) != 2*time.Hour || !line.Now.Equal(noon) {
		t.Errorf("got %d of %d bars in %d lanes", bars, line.Total, len(line.Lanes))
	}
	grid := read[view.Grid](t, s, "/grid?limit=3&state=running")
	if len(grid.Columns) != 50 || len(grid.Rows) != 3 || len(grid.Revisions) != 1 || grid.Revisions[0].Subject != "Use more ranks" {
		t.Errorf("got %d columns, %d rows and %+v", len(grid.Columns), len(grid.Rows), grid.Revisions)
	}
}

func TestChangesOverAPI(t *testing.T) {
	s := newServer(all(), fleetOf(1)...)
	cursor := s.store.Cursor()
	f := fleetMiniCluster("team-00", "another", "member-00")
	s.store.SetMiniCluster(f)
	if got := read[view.Change](t, s, "/changes?after="+cursor); len(got.MiniClusters) != 1 || got.Cursor == cursor || got.Reset || !got.Now.Equal(noon) {
		t.Errorf("got %+v", got)
	}
	if got := read[view.Change](t, s, "/changes?after=x-1"); !got.Reset {
		t.Errorf("got %+v", got)
	}
}

// A store of many that change all the time answers as one that rests does.
func TestReadsWhileThingsChange(t *testing.T) {
	s := newServer(all(), fleetOf(200)...)
	stop := make(chan struct{})
	done := make(chan struct{})
	go func() {
		defer close(done)
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			f := fleetMiniCluster("team-00", fmt.Sprintf("lammps-%05d", i%10*20), "member-07")
			f.ResourceVersion = fmt.Sprint("x", i)
			s.store.SetMiniCluster(f)
		}
	}()
	for range 3 {
		for _, path := range []string{"/miniclusters", "/summary", "/grid", "/timeline", "/members", "/members/member-07", "/miniclusters/team-00/lammps-00000"} {
			if w := request(s, path); w.Code != http.StatusOK {
				t.Errorf("%s: %d %s", path, w.Code, w.Body)
			}
		}
	}
	close(stop)
	<-done
}

// What waits for the removal of what runs have left names whose it is, though none is live.
func TestMemberThatIsRemoved(t *testing.T) {
	m := lost(memberCluster("alpine"), time.Minute)
	m.Status.Conditions = append(m.Status.Conditions, metav1.Condition{
		Type: v1alpha1.ConditionDrained, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonDrained,
		Message: "no run of MiniFleet is live there; the deletion waits for it to remove what is left there of chemistry/secret",
	})
	for name, want := range map[string]bool{"physics": false, "chemistry": true} {
		s := newServer(&fakeAccess{namespaces: scope{name}, members: true}, m, succeeded(fleetMiniCluster("chemistry", "secret", "alpine")))
		if w := request(s, "/members/alpine"); w.Code != http.StatusOK || strings.Contains(w.Body.String(), "chemistry/secret") != want {
			t.Errorf("to who sees %s: %d %s", name, w.Code, w.Body)
		}
	}
}
