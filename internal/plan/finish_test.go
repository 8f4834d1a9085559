package plan_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/internal/plan"
)

// The ledger tells how live runs get on, and of which nothing is heard.
func TestFinish(t *testing.T) {
	type outcome struct {
		Running, Pending, Lost *metav1.Time
		Told                   []string
		After                  time.Duration
	}
	proven, manual := failover(v1alpha1.FenceProvenGone), failover(v1alpha1.FenceManual)
	run := func() *RunWrapper { return MakeRun("aa", "alpine", v1alpha1.RunRunning) }
	cases := map[string]struct {
		run    *RunWrapper
		change func(*v1alpha1.FleetMiniCluster)
		alpine *MemberWrapper // nil: not registered
		job    *JobWrapper
		want   outcome
	}{
		"its pods wait":            {run(), resumed, MakeMember("alpine"), MakeJob("aa"), outcome{}},
		"its pods run":             {run(), resumed, MakeMember("alpine"), MakeJob("aa").Running(), outcome{Running: at(0)}},
		"its pods are lost":        {run().RunningSince(-time.Hour), resumed, MakeMember("alpine"), MakeJob("aa"), outcome{Running: at(-time.Hour), Pending: at(0)}},
		"it was lost, and goes on": {run().Lost(-time.Hour).RunningSince(-time.Hour), proven, MakeMember("alpine"), MakeJob("aa").Running(), outcome{Running: at(-time.Hour)}},
		"lost for a moment":        {run(), proven, MakeMember("alpine").Unreachable(20 * time.Second), nil, outcome{After: 40 * time.Second}},
		"lost for long":            {run(), proven, MakeMember("alpine").Unreachable(2 * time.Minute), nil, outcome{Lost: at(-2 * time.Minute), Told: []string{v1alpha1.ReasonRunLost}}},
		"told before":              {run().Lost(-time.Hour), proven, MakeMember("alpine").Unreachable(2 * time.Minute), nil, outcome{Lost: at(-time.Hour)}},
		"no failover":              {run(), resumed, MakeMember("alpine").Unreachable(2 * time.Minute), nil, outcome{}},
		"people decide":            {run(), manual, MakeMember("alpine").Unreachable(2 * time.Minute), nil, outcome{}},
		"not registered":           {run(), proven, nil, nil, outcome{}},
		"another cluster":          {run(), proven, MakeMember("alpine").UID("other"), nil, outcome{}},
		"being connected":          {run(), proven, MakeMember("alpine").Connecting(), nil, outcome{}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			members := []*MemberWrapper{MakeMember("basalt")}
			if c.alpine != nil {
				members = append(members, c.alpine)
			}
			s := MakeSnapshot(MakeObject("run").With(c.change).Runs(c.run).Placed("alpine").Obj(), members...)
			anyRoom(s)
			fact(s, "alpine", func(f *plan.Facts) { f.Cached = none() })
			if c.job != nil {
				fact(s, "alpine", func(f *plan.Facts) { f.Cached, f.Observed = c.job.Observation(), c.job.Observation() })
			}
			d := decided(t, s)
			round := next(t, s, d)
			round.After = 0
			round.Finish(s, d)
			got := outcome{round.Ledger.Last("alpine").RunningTime, round.Ledger.Last("alpine").PendingSince, round.Ledger.Last("alpine").LostTime, nil, round.After}
			for _, e := range round.Events {
				got.Told = append(got.Told, e.Reason)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff(c.run.Run, s.Object.Status.Runs[0]); diff != "" {
				t.Errorf("the object has changed: %s", diff)
			}
		})
	}
}

// Events tell of members that get into trouble, or out of it, once.
func TestStatusEvents(t *testing.T) {
	line := func(sync v1alpha1.SyncStatus, reason string) v1alpha1.ClusterStatus {
		return v1alpha1.ClusterStatus{Name: "alpine", Sync: sync, Reason: reason}
	}
	fine, lost := line(v1alpha1.Synced, ""), line(v1alpha1.SyncUnknown, v1alpha1.ReasonUnreachable)
	cases := map[string]struct {
		before, after v1alpha1.ClusterStatus
		want          []string
	}{
		"all is well": {fine, fine, nil},
		"lost":        {fine, lost, []string{v1alpha1.ReasonUnreachable}},
		"still lost":  {lost, lost, nil},
		"back":        {lost, fine, []string{v1alpha1.ReasonConnected}},
		"refused":     {fine, line(v1alpha1.OutOfSync, v1alpha1.ReasonApplyFailed), []string{v1alpha1.ReasonApplyFailed}},
	}
	for name, c := range cases {
		var got []string
		for _, e := range plan.StatusEvents(&v1alpha1.FleetMiniClusterStatus{Clusters: []v1alpha1.ClusterStatus{c.before}}, &v1alpha1.FleetMiniClusterStatus{Clusters: []v1alpha1.ClusterStatus{c.after}}) {
			got = append(got, e.Reason)
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}
