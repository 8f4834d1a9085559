package metrics

import (
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/clusters"
	"github.com/minifleet/minifleet/internal/queue"
)

var noon = time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)

// leading makes a state the one that is told of, for a test.
func leading(t testing.TB, now func() time.Time, objects ...client.Object) *State {
	t.Helper()
	s := &State{
		Hub: hubOf(t, objects...), Members: clusters.NewProvider(logr.Discard(), now, func(string, bool) {}), Queue: queue.New(), Now: now, Log: logr.Discard(),
	}
	theCollector.state.Store(s)
	t.Cleanup(func() { theCollector.state.Store(nil) })
	return s
}

func hubOf(t testing.TB, objects ...client.Object) client.Client {
	t.Helper()
	scheme := newScheme(t)
	return fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).Build()
}

func member(name string) *v1alpha1.MemberCluster {
	m := &v1alpha1.MemberCluster{ObjectMeta: metav1.ObjectMeta{Name: name}}
	m.Status.Capacity = &v1alpha1.MemberCapacity{Nodes: 2, CPU: "4/8", Memory: "1Gi/2Gi", GPUs: "1/4"}
	m.Status.Conditions = []metav1.Condition{{Type: "Ready", Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonConnected}}
	return m
}

// everything has every series at least once.
func everything(t *testing.T) {
	t.Helper()
	f := &v1alpha1.FleetMiniCluster{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "b"}}
	f.Spec.PlacementRef = &v1alpha1.LocalReference{Name: "p"}
	f.Status.Runs = []v1alpha1.Run{{ID: "1", Cluster: "east", State: v1alpha1.RunRunning}}
	f.Status.State = v1alpha1.StateWaiting
	source := &v1alpha1.GitSource{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "science"}}
	s := leading(t, func() time.Time { return noon }, member("east"), f, source)
	s.Arrivals = &Arrivals{}
	s.Arrivals.Read(client.ObjectKeyFromObject(source), "", noon, noon)
	RunStarted("east")
	Applied("east", time.Second, true)
	DriftRepaired("east")
	StaleRequestRefused("east")
	PolicyDenied("FleetMiniCluster", 1)
	RunsChanged(nil, []v1alpha1.Run{{ID: "2", Cluster: "east", State: v1alpha1.RunFailed}})
	GitRead(time.Second, false, v1alpha1.ReasonFetchFailed)
}

func names(t *testing.T) map[string]int {
	t.Helper()
	families, err := ctrlmetrics.Registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]int{}
	for _, f := range families {
		if strings.HasPrefix(f.GetName(), "minifleet_") {
			out[f.GetName()] = len(f.GetMetric())
		}
	}
	return out
}

func TestMetricsFollowTheConventions(t *testing.T) {
	everything(t)
	problems, err := testutil.GatherAndLint(ctrlmetrics.Registry)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		if strings.HasPrefix(p.Metric, "minifleet_") {
			t.Errorf("%s: %s", p.Metric, p.Text)
		}
	}
	told := names(t)
	for _, g := range described {
		name := g.String()[strings.Index(g.String(), `"`)+1:]
		if name = name[:strings.Index(name, `"`)]; told[name] == 0 {
			t.Errorf("%s is described, and not collected", name)
		}
	}
}

func TestTheStateOfTheFleetIsToldByTheLeaderAlone(t *testing.T) {
	everything(t)
	if told := names(t); told["minifleet_member_ready"] != 1 || told["minifleet_fleetminiclusters"] != 11 {
		t.Errorf("%v", told)
	}
	theCollector.state.Store(nil)
	told := names(t)
	for _, name := range []string{"minifleet_member_ready", "minifleet_fleetminiclusters", "minifleet_waiting", "minifleet_source_ready"} {
		if told[name] != 0 {
			t.Errorf("%s is told by one that does not lead", name)
		}
	}
	if told["minifleet_leader"] != 1 || told["minifleet_build_info"] != 1 {
		t.Errorf("%v", told)
	}
}

func TestGaugesAreMadeAnewAfterSeconds(t *testing.T) {
	now := noon
	s := leading(t, func() time.Time { return now }, member("east"))
	ready := func() int { return names(t)["minifleet_member_ready"] }
	if n := ready(); n != 1 {
		t.Fatalf("%d members", n)
	}
	if err := s.Hub.(client.Client).Create(t.Context(), member("west")); err != nil {
		t.Fatal(err)
	}
	now = now.Add(freshness - time.Millisecond)
	if n := ready(); n != 1 {
		t.Errorf("%d members: they were counted again", n)
	}
	now = now.Add(time.Millisecond)
	if n := ready(); n != 2 {
		t.Errorf("%d members: they were not counted again", n)
	}
}

func TestTheSeriesOfADeletedMemberAreDeleted(t *testing.T) {
	now := noon
	s := leading(t, func() time.Time { return now }, member("east"), member("west"))
	for _, name := range []string{"east", "west"} {
		RunStarted(name)
		Applied(name, time.Second, true)
		RunsChanged(nil, []v1alpha1.Run{{ID: "2", Cluster: name, State: v1alpha1.RunFailed}})
	}
	of := func(member string) (out []string) {
		now = now.Add(time.Minute)
		if _, err := ctrlmetrics.Registry.Gather(); err != nil { // what is deleted in one scrape is absent from the next
			t.Fatal(err)
		}
		families, err := ctrlmetrics.Registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range families {
			for _, m := range f.GetMetric() {
				for _, l := range m.GetLabel() {
					if l.GetName() == "member" && l.GetValue() == member {
						out = append(out, f.GetName())
					}
				}
			}
		}
		return out
	}
	if got := of("west"); len(got) < 15 {
		t.Fatalf("%v", got)
	}
	if err := s.Hub.(client.Client).Delete(t.Context(), member("west")); err != nil {
		t.Fatal(err)
	}
	if got := of("west"); len(got) > 0 {
		t.Errorf("a deleted member still has %v", got)
	}
	if got := of("east"); len(got) < 15 {
		t.Errorf("the other one has %v", got)
	}
}

func TestTheCountersOfAMemberBeginAtZero(t *testing.T) {
	leading(t, func() time.Time { return noon }, member("fresh"))
	for range 2 { // the first scrape finds the member
		if _, err := ctrlmetrics.Registry.Gather(); err != nil {
			t.Fatal(err)
		}
	}
	expected := `# HELP minifleet_runs_started_total Runs whose Job was created, by member.
# TYPE minifleet_runs_started_total counter
minifleet_runs_started_total{member="fresh"} 0
`
	if err := testutil.CollectAndCompare(runsStarted, strings.NewReader(expected)); err != nil {
		t.Error(err)
	}
}

func TestTheEndOfARunIsCountedOnce(t *testing.T) {
	at := func(d time.Duration) *metav1.Time { return &metav1.Time{Time: noon.Add(d)} }
	started := v1alpha1.Run{ID: "1", Cluster: "once", State: v1alpha1.RunStarting, StartTime: at(0)}
	running, succeeded := started, started
	running.State, running.RunningTime = v1alpha1.RunRunning, at(3*time.Second)
	succeeded.State, succeeded.RunningTime, succeeded.CompletionTime = v1alpha1.RunSucceeded, at(3*time.Second), at(time.Minute)
	restored := v1alpha1.Run{ID: "0", Cluster: "once", State: v1alpha1.RunSucceeded, RestoredTime: at(0)}

	ledgers := [][]v1alpha1.Run{nil, {restored}, {restored, started}, {restored, running}, {restored, succeeded}, {restored, succeeded}, {succeeded}}
	before := testutil.CollectAndCount(runStart)
	for i := range ledgers[1:] {
		RunsChanged(ledgers[i], ledgers[i+1])
	}
	if got := testutil.ToFloat64(runsEnded.WithLabelValues("once", "Succeeded")); got != 1 {
		t.Errorf("the run has ended %v times", got)
	}
	if after := testutil.CollectAndCount(runStart); after != before {
		t.Errorf("%d series, then %d", before, after)
	}
}

// observed is how often pushes were measured, by trigger, and their sum in seconds.
func observed(t *testing.T, by Trigger) (n uint64, sum float64) {
	t.Helper()
	families, err := prometheus.Gatherers{ctrlmetrics.Registry}.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() != "minifleet_push_to_job_duration_seconds" {
			continue
		}
		for _, m := range f.GetMetric() {
			if m.GetLabel()[0].GetValue() == string(by) {
				return m.GetHistogram().GetSampleCount(), m.GetHistogram().GetSampleSum()
			}
		}
	}
	return 0, 0
}

func TestPushesAreMeasuredFromWhenTheyWereKnown(t *testing.T) {
	source := types.NamespacedName{Namespace: "a", Name: "science"}
	after := func(d time.Duration) time.Time { return noon.Add(d) }
	for name, tc := range map[string]struct {
		do       func(*Arrivals)
		by       Trigger
		measured float64
		nothing  bool
	}{
		"found at the interval": {
			do: func(a *Arrivals) { a.Read(source, "c1", after(time.Second), after(2*time.Second)) },
			by: ByInterval, measured: 9,
		},
		"told by a webhook": {
			do: func(a *Arrivals) {
				a.Webhook(source, after(0))
				a.Read(source, "c1", after(time.Second), after(2*time.Second))
			},
			by: ByWebhook, measured: 10,
		},
		"told while the repository was read, which found it the next time": {
			do: func(a *Arrivals) {
				a.Webhook(source, after(2*time.Second))
				a.Read(source, "", after(time.Second), after(3*time.Second))
				a.Read(source, "c1", after(3*time.Second), after(4*time.Second))
			},
			by: ByWebhook, measured: 8,
		},
		"told by a webhook of another push, which the commit before has answered": {
			do: func(a *Arrivals) {
				a.Webhook(source, after(0))
				a.Read(source, "c0", after(time.Second), after(2*time.Second))
				a.Read(source, "c1", after(4*time.Second), after(5*time.Second))
			},
			by: ByInterval, measured: 6,
		},
		"of another source": {
			do:      func(a *Arrivals) { a.Read(types.NamespacedName{Namespace: "a", Name: "b"}, "c1", after(0), after(0)) },
			by:      ByInterval,
			nothing: true,
		},
		"of a source that was deleted": {
			do: func(a *Arrivals) {
				a.Read(source, "c1", after(0), after(0))
				a.Forget(source)
			},
			by: ByInterval, nothing: true,
		},
		"from before the hub was started": {do: func(*Arrivals) {}, by: ByInterval, nothing: true},
	} {
		t.Run(name, func(t *testing.T) {
			n, sum := observed(t, tc.by)
			a := &Arrivals{}
			tc.do(a)
			a.JobCreated(source, "c1", after(10*time.Second))
			more, total := observed(t, tc.by)
			if want := n + 1; tc.nothing && more != n || !tc.nothing && (more != want || total-sum != tc.measured) {
				t.Errorf("%d more, of %v seconds", more-n, total-sum)
			}
		})
	}
}

func TestOldCommitsAreForgotten(t *testing.T) {
	source := types.NamespacedName{Namespace: "a", Name: "science"}
	a := &Arrivals{}
	a.Read(source, "old", noon, noon)
	a.Read(source, "new", noon.Add(commitLifetime+time.Second), noon.Add(commitLifetime+time.Second))
	if len(a.commits) != 1 {
		t.Errorf("%v", a.commits)
	}
	for i := range maxCommits + 10 {
		a.Read(source, strings.Repeat("x", i), noon, noon)
	}
	if len(a.commits) > maxCommits {
		t.Errorf("%d are remembered", len(a.commits))
	}
	want := map[string]time.Time{"a/science": noon}
	if diff := cmp.Diff(want, a.LastRead()); diff != "" {
		t.Error(diff)
	}
}
