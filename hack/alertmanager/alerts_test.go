package alertmanager_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	apiv2 "github.com/prometheus/alertmanager/api/v2"
	"github.com/prometheus/alertmanager/config"
	"github.com/prometheus/alertmanager/eventrecorder"
	"github.com/prometheus/alertmanager/featurecontrol"
	"github.com/prometheus/alertmanager/provider/mem"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/model"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/internal/notify"
)

// server is Alertmanager's API with its own store of alerts.
func server(t *testing.T) (url string, active func() []string) {
	t.Helper()
	log := slog.New(slog.NewTextHandler(io.Discard, nil))
	alerts, err := mem.NewAlerts(t.Context(), time.Hour, 0, nil, log, eventrecorder.NopRecorder(), prometheus.NewRegistry(), featurecontrol.NoopFlags{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(alerts.Close)
	api, err := apiv2.NewAPI(alerts, nil, nil, nil, nil, log, prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	conf, err := config.Load("route: {receiver: a}\nreceivers: [{name: a}]")
	if err != nil {
		t.Fatal(err)
	}
	api.Update(conf, func(context.Context, model.LabelSet) {})
	s := httptest.NewServer(api.Handler)
	t.Cleanup(s.Close)
	return s.URL + "/api/v2/alerts", func() (out []string) {
		t.Helper()
		found := alerts.GetPending()
		defer found.Close()
		for a := range found.Next() {
			if !a.Data.Resolved() {
				out = append(out, string(a.Data.Labels["alertname"])+" "+string(a.Data.Labels["name"]))
			}
		}
		return out
	}
}

// Alerts are taken by Alertmanager, and what recovers ends them.
func TestAlerts(t *testing.T) {
	url, active := server(t)
	now := time.Now()
	at := func(ago time.Duration) *metav1.Time { t := metav1.NewTime(now.Add(-ago)); return &t }
	tell := func(found []notify.Transition) {
		t.Helper()
		if len(found) != 1 {
			t.Fatalf("%d transitions", len(found))
		}
		body, err := notify.Alerts(&found[0], "https://fleet.example.org", now)
		if err != nil {
			t.Fatal(err)
		}
		res, err := http.Post(url, "application/json", bytes.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = res.Body.Close() }()
		if said, _ := io.ReadAll(res.Body); res.StatusCode != http.StatusOK {
			t.Fatalf("%d: %s: %s", res.StatusCode, said, body)
		}
	}
	expect := func(want ...string) {
		t.Helper()
		got, _ := json.Marshal(active())
		if wanted, _ := json.Marshal(want); string(got) != string(wanted) {
			t.Fatalf("active are %s, want %s", got, wanted)
		}
	}
	events := func(v1alpha1.NotificationEvent) bool { return true }
	ends := func(e v1alpha1.NotificationEvent) bool { return e != v1alpha1.EventRunStarted }
	m := notify.NewMemory(now.Add(-time.Hour))
	m.Began()

	f := &v1alpha1.FleetMiniCluster{ObjectMeta: metav1.ObjectMeta{Namespace: "physics", Name: "lammps", UID: "1"}}
	run := func(id string, state v1alpha1.RunState, ago time.Duration) []notify.Transition {
		f.Status.Runs = []v1alpha1.Run{{ID: id, Cluster: "alpine", State: state, JobUID: "job", StartTime: at(ago), CompletionTime: at(ago - time.Minute)}}
		return m.Runs(f, ends)
	}
	tell(run("a", v1alpha1.RunFailed, 10*time.Minute))
	expect("MiniFleetRunFailed lammps")
	tell(run("b", v1alpha1.RunSucceeded, 5*time.Minute))
	expect()

	s := &v1alpha1.GitSource{ObjectMeta: metav1.ObjectMeta{Namespace: "physics", Name: "fleet", UID: "2"}}
	ready := func(status metav1.ConditionStatus, ago time.Duration, more ...metav1.Condition) []notify.Transition {
		s.Status.Conditions = append([]metav1.Condition{{Type: v1alpha1.ConditionReady, Status: status, Reason: "X", LastTransitionTime: *at(ago)}}, more...)
		found := m.Source(s, events)
		for i := range found {
			m.Queued(&found[i])
			m.Done(&found[i], now)
		}
		return found
	}
	tell(ready(metav1.ConditionFalse, 5*time.Minute))
	expect("MiniFleetSourceFailed fleet")
	tell(ready(metav1.ConditionTrue, time.Minute))
	expect()
	tell(ready(metav1.ConditionTrue, time.Minute, metav1.Condition{Type: v1alpha1.ConditionPruneBlocked, Status: metav1.ConditionTrue, LastTransitionTime: *at(time.Minute)}))
	expect("MiniFleetApprovalNeeded fleet")
	tell(ready(metav1.ConditionTrue, time.Minute))
	expect()
}
