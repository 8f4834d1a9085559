package peers

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/minifleet/minifleet/hack/lab"
)

// others are the peers that take files.
func others() []string {
	var names []string
	for _, p := range all {
		if len(p.files) > 0 {
			names = append(names, p.name)
		}
	}
	return names
}

func TestAPeerThatIsNotThereHasARowThatSaysHowToMakeIt(t *testing.T) {
	dir := t.TempDir()
	table, err := Run(t.Context(), Options{MiniClusters: 1, WarmUp: 1, Runs: 1, Peers: others(), Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	if err := table.Failed(); err != nil {
		t.Error(err)
	}
	var text strings.Builder
	if err := table.Markdown(&text); err != nil {
		t.Fatal(err)
	}
	for _, row := range table.Rows {
		p := all[slices.IndexFunc(all, func(p *peer) bool { return p.name == row.Name })]
		if len(row.Missing) != len(p.files) {
			t.Errorf("%s: %v is missing, not all of %v", row.Title, row.Missing, p.files)
		}
		commands := strings.Join(row.Commands, "\n")
		for _, file := range append([]string{"VERSION"}, p.files...) {
			if name := strings.Trim(filepath.Base(file), "/"); !strings.Contains(commands, name) {
				t.Errorf("%s: the commands do not make %s:\n%s", row.Title, name, commands)
			}
		}
		if !strings.Contains(commands, filepath.Join(dir, p.dir)) || strings.Contains(commands, "$DIR") {
			t.Errorf("%s: the commands do not say where to: %s", row.Title, commands)
		}
		if !strings.Contains(text.String(), row.Commands[0]) {
			t.Errorf("%s: the text does not have the commands:\n%s", row.Title, &text)
		}
	}
}

func TestFilesOfAPeerAreFound(t *testing.T) {
	dir := t.TempDir()
	for _, name := range others() {
		p := all[slices.IndexFunc(all, func(p *peer) bool { return p.name == name })]
		for _, file := range p.files {
			if err := os.MkdirAll(filepath.Join(dir, p.dir, file), 0o755); err != nil {
				t.Fatal(err)
			}
		}
		if missing, err := p.missing(dir); len(missing) > 0 || err != nil {
			t.Errorf("%s: %v is missing, %v", name, missing, err)
		}
	}
}

func TestOptions(t *testing.T) {
	for name, test := range map[string]struct {
		options Options
		wrong   bool
	}{
		"a peer":        {Options{MiniClusters: 1, WarmUp: 1, Runs: 1, Peers: []string{miniFleetName}}, false},
		"all":           {Options{MiniClusters: 1, WarmUp: 1, Runs: 1}, false},
		"a typo":        {Options{MiniClusters: 1, WarmUp: 1, Runs: 1, Peers: []string{"minifleat"}}, true},
		"no run":        {Options{MiniClusters: 1, WarmUp: 1}, true},
		"no warming up": {Options{MiniClusters: 1, Runs: 1}, true},
	} {
		if err := test.options.setDefaults(); (err != nil) != test.wrong {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestWhenJobsAreReleased(t *testing.T) {
	start, yes, no, one := time.Now(), true, false, int32(1)
	j := newJobs()
	for i, job := range []batchv1.Job{
		{ObjectMeta: metav1.ObjectMeta{Name: "a"}, Spec: batchv1.JobSpec{Suspend: &yes}},
		{ObjectMeta: metav1.ObjectMeta{Name: "b"}},
		{ObjectMeta: metav1.ObjectMeta{Name: "a"}, Spec: batchv1.JobSpec{Suspend: &no}},
		{ObjectMeta: metav1.ObjectMeta{Name: "b"}, Status: batchv1.JobStatus{Ready: &one}},
		{ObjectMeta: metav1.ObjectMeta{Name: "b"}, Status: batchv1.JobStatus{Ready: &one}},
	} {
		event := "MODIFIED"
		if i < 2 {
			event = "ADDED"
		}
		j.saw(event, &job, start.Add(time.Duration(i)*time.Second))
	}
	want := times{
		created:  []time.Duration{0, time.Second},
		released: []time.Duration{2 * time.Second, time.Second},
		running:  []time.Duration{3 * time.Second},
	}
	if diff := cmp.Diff(want, j.of([]string{"a", "b", "not there"}, start), cmp.AllowUnexported(times{})); diff != "" {
		t.Errorf("times (-want +got):\n%s", diff)
	}
	if n, err := j.count([]string{"a", "b"}, true); n != 1 || err != nil {
		t.Errorf("%d run, %v; one does", n, err)
	}
	j.saw("ADDED", &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: "a"}}, start)
	if _, err := j.count(nil, false); err == nil {
		t.Error("a Job that was created twice is no error")
	}
}

func TestWhoIsNotMeasuredSaysWhyAndIsMarked(t *testing.T) {
	options := Options{MiniClusters: 1, WarmUp: 1, Runs: 1, Dir: t.TempDir()}
	for _, p := range all {
		if p.driver == nil {
			options.Peers = append(options.Peers, p.name)
		}
	}
	table, err := Run(t.Context(), options)
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range table.Rows {
		if row.NotMeasured == "" || row.Published == "" || len(row.Measurements) > 0 {
			t.Errorf("%s: not measured since %q, published: %q", row.Title, row.NotMeasured, row.Published)
		}
		if line := table.line(row); !strings.Contains(line, "not measured") {
			t.Errorf("%s is not marked: %s", row.Title, line)
		}
	}
}

func TestTallyTellsThePeersRequestsFromThoseOfOthers(t *testing.T) {
	tally := newTally("peer:x")
	for _, r := range []struct{ cluster, user, verb string }{
		{hubName, "peer:x", "create"}, {hubName, "peer:x", "watch"}, {"alpine", "peer:x", "patch"}, {"alpine", "peer:x", "patch"},
		{"alpine", "kube-controller-manager", "update"}, {"alpine", "admin", "get"}, {hubName, "system:apiserver", "get"},
	} {
		event := lab.AuditEvent{Verb: r.verb}
		event.User.Username = r.user
		tally.add(request{event, r.cluster})
	}
	if diff := cmp.Diff(map[string]int{"hub": 1, "members": 2}, tally.own); diff != "" {
		t.Errorf("its own requests (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]int{"members": 1}, tally.others); diff != "" {
		t.Errorf("those of others (-want +got):\n%s", diff)
	}
}

func TestTableHasRatiosAndFailures(t *testing.T) {
	table := &Table{Rows: []*Row{
		{Name: miniFleetName, Title: "MiniFleet", Measurements: []*Measurement{{Last: 2}, {Last: 4}, {Last: 3}}},
		{Name: "other", Title: "other", Measurements: []*Measurement{{Last: 6}, {Last: 7.5}}},
		{Name: "broken", Title: "broken", Failures: []string{"it ended"}},
	}}
	for i, want := range []string{"| MiniFleet | 1.00 | 3.00 |", "| other | 2.25 | 6.75 |", "| broken | failed, see below |"} {
		if line := table.line(table.Rows[i]); !strings.HasPrefix(line, want) {
			t.Errorf("%s does not begin with %s", line, want)
		}
	}
	if err := table.Failed(); err == nil || !strings.Contains(err.Error(), "broken") {
		t.Errorf("the failure is not told: %v", err)
	}
}

// Flux CD and others apply the objects of MiniFleet's own renderer: all four, each with its kind.
func TestPlainObjectsAreThoseOfTheRenderer(t *testing.T) {
	text, err := plain("a", "space")
	if err != nil {
		t.Fatal(err)
	}
	objects, err := decode(text, nil)
	if err != nil {
		t.Fatal(err)
	}
	var kinds []string
	for _, object := range objects {
		kinds = append(kinds, object.GetKind())
		if object.GetNamespace() != "space" || object.Object["status"] != nil {
			t.Errorf("%s is in %q, with status %v", object.GetKind(), object.GetNamespace(), object.Object["status"])
		}
	}
	if diff := cmp.Diff([]string{"Secret", "ConfigMap", "Service", "Job"}, kinds); diff != "" {
		t.Errorf("kinds (-want +got):\n%s", diff)
	}
}
