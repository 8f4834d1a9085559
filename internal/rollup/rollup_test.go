package rollup_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/internal/rollup"
	"github.com/minifleet/minifleet/internal/runs"
)

var now = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)

// input is of members that are all chosen and wanted, and what their runs did.
func input(members ...rollup.Member) rollup.Input {
	in := rollup.Input{
		Generation: 3, Revision: "main@1a2b3c4", Now: now, Members: members,
		Wanted:   runs.Wanted{Digest: "1", Size: 4, Chosen: true},
		Decision: &v1alpha1.PlacementDecision{Digest: "1", Clusters: []string{}},
	}
	for _, m := range members {
		if m.Chosen {
			in.Decision.Clusters = append(in.Decision.Clusters, m.Name)
		}
		if m.Run != nil {
			in.Ledger = append(in.Ledger, *m.Run)
		}
	}
	in.Decision.Wanted = int32(len(in.Decision.Clusters))
	return in
}

func with(in rollup.Input, change func(*rollup.Input)) rollup.Input {
	change(&in)
	return in
}

func member(name string, state v1alpha1.RunState, change ...func(*rollup.Member)) rollup.Member {
	m := rollup.Member{Name: name, Chosen: true}
	if state != "" {
		m.Run = &v1alpha1.Run{ID: "run-" + name, Cluster: name, Digest: "1", State: state, Message: "its message"}
		m.Job = &runs.Job{RunID: m.Run.ID, Size: 4, Pods: v1alpha1.PodCounts{Desired: 4, Ready: 3, Active: 4}}
	}
	for _, c := range change {
		c(&m)
	}
	return m
}

func lost(m *rollup.Member) {
	m.Lost, m.Job = &rollup.Problem{Reason: v1alpha1.ReasonMemberUnreachable, Message: "no answer"}, nil
	m.LastHeard = now.Add(-time.Minute)
}
func conflict(m *rollup.Member) {
	m.Failed = &rollup.Problem{Reason: v1alpha1.ReasonConflict, Message: "Job hpc/n already exists"}
}
func outdated(m *rollup.Member) { m.Run.Digest = "0" }
func retryWaiting(m *rollup.Member) {
	m.Step = runs.Step{Action: runs.Nothing, Reason: v1alpha1.ReasonRetryWaiting, Message: "retry 1 of 1"}
}
func lastAttempt(m *rollup.Member) { m.Run.Attempt = 1 }
func removed(m *rollup.Member)     { m.Chosen = false }
func torn(m *rollup.Member) {
	m.Step = runs.Step{Action: runs.Nothing, Reason: v1alpha1.ReasonDeleting, Message: "its pod is still there"}
}

func suspended(in *rollup.Input) { in.Wanted.Suspend, in.Suspension = true, "held by hand" }
func paused(m *rollup.Member)    { m.Job.Suspended = true }

const (
	starting, running     = v1alpha1.RunStarting, v1alpha1.RunRunning
	succeeded, failed     = v1alpha1.RunSucceeded, v1alpha1.RunFailed
	yes, no, dunno        = "True", "False", "Unknown"
	synced, out, unsynced = v1alpha1.Synced, v1alpha1.SyncUnknown, v1alpha1.OutOfSync
)

var cases = map[string]struct {
	in                        rollup.Input
	sync                      v1alpha1.SyncStatus
	health                    v1alpha1.HealthStatus
	clusters, pods            string
	ready, reason, message    string
	healthy, complete, failed string
	reconciling, stalled      bool
}{
	"running": {
		in: input(member("a", running)), sync: synced, health: v1alpha1.Progressing, clusters: "1/1", pods: "3/4",
		ready: yes, reason: v1alpha1.ReasonSynced, message: "running on a", healthy: yes, complete: no, failed: no,
	},
	"starting": {
		in: input(member("a", starting)), sync: unsynced, health: v1alpha1.Progressing, clusters: "0/1", pods: "3/4",
		ready: no, reason: v1alpha1.ReasonProgressing, message: "a: the run is about to start", healthy: yes, complete: no, failed: no, reconciling: true,
	},
	"nothing yet": {
		in: input(member("a", "")), sync: unsynced, health: v1alpha1.Missing, clusters: "0/1", pods: "0/4",
		ready: no, reason: v1alpha1.ReasonProgressing, message: "a: the run is about to start", healthy: yes, complete: no, failed: no, reconciling: true,
	},
	"its Job was deleted, and pods remain": {
		in: input(member("a", running, torn)), sync: unsynced, health: v1alpha1.Progressing, clusters: "0/1", pods: "3/4",
		ready: no, reason: v1alpha1.ReasonDeleting, message: "a: its pod is still there", healthy: yes, complete: no, failed: no, reconciling: true,
	},
	"one done, one running": {
		in: input(member("a", succeeded), member("b", running)), sync: synced, health: v1alpha1.Progressing, clusters: "2/2", pods: "7/8",
		ready: yes, reason: v1alpha1.ReasonSynced, message: "running on b; completed on a", healthy: yes, complete: no, failed: no,
	},
	"all done": {
		in: input(member("b", succeeded), member("a", succeeded)), sync: synced, health: v1alpha1.Healthy, clusters: "2/2", pods: "8/8",
		ready: yes, reason: v1alpha1.ReasonSucceeded, message: "completed on a, b", healthy: yes, complete: yes, failed: no,
	},
	"one failed, one running": {
		in: input(member("a", failed), member("b", running)), sync: synced, health: v1alpha1.Degraded, clusters: "2/2", pods: "3/8",
		ready: no, reason: v1alpha1.ReasonRunFailed, message: "a: its message", healthy: no, complete: no, failed: no,
	},
	"one failed, one done": {
		in: input(member("a", failed), member("b", succeeded)), sync: synced, health: v1alpha1.Degraded, clusters: "2/2", pods: "4/8",
		ready: no, reason: v1alpha1.ReasonRunFailed, message: "a: its message", healthy: no, complete: no, failed: yes, stalled: true,
	},
	"one failed and will be tried again, one done": {
		in:   with(input(member("a", failed, retryWaiting), member("b", succeeded)), func(in *rollup.Input) { in.Wanted.Retries = 1 }),
		sync: unsynced, health: v1alpha1.Progressing, clusters: "1/2", pods: "4/8",
		ready: no, reason: v1alpha1.ReasonRetryWaiting, message: "a: its message; retry 1 of 1", healthy: yes, complete: no, failed: no, reconciling: true,
	},
	"one failed for the last time": {
		in:   with(input(member("a", failed, lastAttempt)), func(in *rollup.Input) { in.Wanted.Retries = 1 }),
		sync: synced, health: v1alpha1.Degraded, clusters: "1/1", pods: "0/4",
		ready: no, reason: v1alpha1.ReasonRunFailed, message: "a: its message", healthy: no, complete: no, failed: yes, stalled: true,
	},
	"one cancelled, one done": {
		in: input(member("a", v1alpha1.RunCancelled), member("b", succeeded)), sync: synced, health: v1alpha1.Degraded, clusters: "2/2", pods: "4/8",
		ready: no, reason: v1alpha1.ReasonRunCancelled, message: "a: run run-a was its message; to run again, set the annotation minifleet.dev/rerun-at", healthy: no, complete: no, failed: yes, stalled: true,
	},
	"an outdated one failed": {
		in: input(member("a", failed, outdated)), sync: unsynced, health: v1alpha1.Degraded, clusters: "0/1", pods: "0/4",
		ready: no, reason: v1alpha1.ReasonRunFailed, message: "a: its message", healthy: no, complete: no, failed: no, reconciling: true,
	},
	"an outdated one succeeded": {
		in: input(member("a", succeeded, outdated)), sync: unsynced, health: v1alpha1.Healthy, clusters: "0/1", pods: "4/4",
		ready: no, reason: v1alpha1.ReasonRunSucceeded, message: "a: its message", healthy: yes, complete: no, failed: no, reconciling: true,
	},
	"lost while running": {
		in: input(member("a", running, lost)), sync: out, health: v1alpha1.HealthUnknown, clusters: "0/1", pods: "0/4",
		ready: dunno, reason: v1alpha1.ReasonMemberUnreachable, message: "a: no answer", healthy: dunno, complete: no, failed: no, reconciling: true,
	},
	"lost after it succeeded": {
		in: input(member("a", succeeded, lost)), sync: out, health: v1alpha1.Healthy, clusters: "0/1", pods: "4/4",
		ready: dunno, reason: v1alpha1.ReasonMemberUnreachable, message: "a: no answer", healthy: dunno, complete: yes, failed: no, reconciling: true,
	},
	"lost after it failed": {
		in: input(member("a", failed, lost)), sync: out, health: v1alpha1.Degraded, clusters: "0/1", pods: "0/4",
		ready: no, reason: v1alpha1.ReasonRunFailed, message: "a: its message", healthy: no, complete: no, failed: yes, reconciling: true,
	},
	"lost before it ran": {
		in: input(member("a", "", lost)), sync: out, health: v1alpha1.HealthUnknown, clusters: "0/1", pods: "0/4",
		ready: dunno, reason: v1alpha1.ReasonMemberUnreachable, message: "a: no answer", healthy: dunno, complete: no, failed: no, reconciling: true,
	},
	"one lost, the other running": {
		in: input(member("a", running, lost), member("b", running)), sync: out, health: v1alpha1.HealthUnknown, clusters: "1/2", pods: "3/8",
		ready: dunno, reason: v1alpha1.ReasonMemberUnreachable, message: "a: no answer", healthy: dunno, complete: no, failed: no, reconciling: true,
	},
	"a name in use": {
		in: input(member("a", starting, conflict)), sync: unsynced, health: v1alpha1.Degraded, clusters: "0/1", pods: "3/4",
		ready: no, reason: v1alpha1.ReasonConflict, message: "a: Job hpc/n already exists", healthy: no, complete: no, failed: no, reconciling: true,
	},
	"a name in use after it succeeded": {
		in: input(member("a", succeeded, conflict)), sync: unsynced, health: v1alpha1.Healthy, clusters: "0/1", pods: "4/4",
		ready: no, reason: v1alpha1.ReasonConflict, message: "a: Job hpc/n already exists", healthy: yes, complete: yes, failed: no, reconciling: true,
	},
	"suspended before it ran": {
		in:   with(input(member("a", "")), suspended),
		sync: unsynced, health: v1alpha1.Suspended, clusters: "0/1", pods: "0/4",
		ready: no, reason: v1alpha1.ReasonSuspended, message: "suspended: no new run starts; held by hand", healthy: yes, complete: no, failed: no,
	},
	"suspended while running": {
		in:   with(input(member("a", running, paused)), suspended),
		sync: synced, health: v1alpha1.Suspended, clusters: "1/1", pods: "3/4",
		ready: yes, reason: v1alpha1.ReasonSuspended, message: "suspended on a; held by hand", healthy: yes, complete: no, failed: no,
	},
	"to be resumed, without room": {
		in: input(member("a", running, paused, func(m *rollup.Member) {
			m.Step = runs.Step{Action: runs.Nothing, Reason: v1alpha1.ReasonInsufficientCapacity, Message: "2 of 4 pods fit"}
		})),
		sync: v1alpha1.OutOfSync, health: v1alpha1.Suspended, clusters: "0/1", pods: "3/4",
		ready: no, reason: v1alpha1.ReasonInsufficientCapacity, message: "a: 2 of 4 pods fit", healthy: yes, complete: no, failed: no, reconciling: true,
	},
	"not enough": {
		in: with(input(member("a", running)), func(in *rollup.Input) {
			in.Decision.Wanted = 2
			in.Decision.Rejected = []v1alpha1.RejectedCluster{{Name: "b", Reason: "is suspended"}}
		}),
		sync: synced, health: v1alpha1.Progressing, clusters: "1/2", pods: "3/4",
		ready: no, reason: v1alpha1.ReasonNotEnoughClusters, message: "1 of 2 members could be chosen (a); b: is suspended", healthy: yes, complete: no, failed: no,
	},
	"not enough, and what there is has succeeded": {
		in:   with(input(member("a", succeeded)), func(in *rollup.Input) { in.Decision.Wanted = 2 }),
		sync: synced, health: v1alpha1.Healthy, clusters: "1/2", pods: "4/4",
		ready: no, reason: v1alpha1.ReasonNotEnoughClusters, message: "1 of 2 members could be chosen (a); there are no more MemberClusters: register more, or ask for fewer (numberOfClusters)", healthy: yes, complete: no, failed: no,
	},
	"no member": {
		in: with(input(), func(in *rollup.Input) {
			in.Problem = &rollup.Problem{Reason: v1alpha1.ReasonNoClusterMatches, Message: "none"}
		}),
		sync: unsynced, health: v1alpha1.Missing, clusters: "0/0", pods: "0/0",
		ready: no, reason: v1alpha1.ReasonNoClusterMatches, message: "none", healthy: dunno, complete: no, failed: no, reconciling: true,
	},
	"invalid": {
		in: with(input(), func(in *rollup.Input) {
			in.Problem, in.Stalled, in.Decision = &rollup.Problem{Reason: v1alpha1.ReasonInvalidSpec, Message: "size"}, true, nil
		}),
		sync: unsynced, health: v1alpha1.Missing, clusters: "0/0", pods: "0/0",
		ready: no, reason: v1alpha1.ReasonInvalidSpec, message: "size", healthy: dunno, complete: no, failed: no, stalled: true,
	},
	"removed from the placement, still live": {
		in: input(member("a", running), member("z", running, removed)), sync: unsynced, health: v1alpha1.Progressing, clusters: "1/1", pods: "3/4",
		ready: no, reason: v1alpha1.ReasonProgressing, message: "z is no longer in the placement, and its run is still live", healthy: yes, complete: no, failed: no, reconciling: true,
	},
}

func TestStatus(t *testing.T) {
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			s := rollup.Status(c.in)
			condition := func(kind string) string {
				if c := meta.FindStatusCondition(s.Conditions, kind); c != nil {
					if c.ObservedGeneration != 3 || c.Reason == "" || c.Message == "" {
						t.Errorf("the condition %s is incomplete: %+v", kind, c)
					}
					return string(c.Status)
				}
				return ""
			}
			ready := meta.FindStatusCondition(s.Conditions, v1alpha1.ConditionReady)
			there := map[bool]string{true: yes, false: ""}
			want := []string{
				string(c.sync), string(c.health), c.clusters, c.pods, c.ready, c.reason, c.message,
				c.healthy, c.complete, c.failed, there[c.reconciling], there[c.stalled],
			}
			got := []string{
				string(s.Sync), string(s.Health), s.Summary.Clusters, s.Summary.Pods, condition(v1alpha1.ConditionReady), ready.Reason, ready.Message,
				condition(v1alpha1.ConditionHealthy), condition(v1alpha1.ConditionComplete), condition(v1alpha1.ConditionFailed),
				condition(v1alpha1.ConditionReconciling), condition(v1alpha1.ConditionStalled),
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
			if s.ObservedGeneration != 3 || s.Revision != "main@1a2b3c4" || s.Digest != "1" || s.Replicas != 4 {
				t.Errorf("got %+v", s)
			}
		})
	}
}

// What is said once is not said again: an idle fleet writes nothing. And whatever came before, the same
// input gives the same messages.
func TestStatusIsIdempotent(t *testing.T) {
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			for before, other := range cases {
				in := c.in
				in.Previous = rollup.Status(other.in)
				in.Now = now.Add(time.Hour)
				second := rollup.Status(in)
				in.Previous, in.Now = second, now.Add(2*time.Hour)
				if third := rollup.Status(in); !equality.Semantic.DeepEqual(second, third) {
					t.Fatalf("after %q: %s", before, cmp.Diff(second, third))
				}
			}
		})
	}
}

func TestTransitionsKeepTheirTime(t *testing.T) {
	first := rollup.Status(input(member("a", running, lost)))
	in := input(member("a", running, lost), member("b", starting))
	in.Previous, in.Now = first, now.Add(time.Hour)
	second := rollup.Status(in)
	in = input(member("a", running), member("b", running))
	in.Previous, in.Now = second, now.Add(2*time.Hour)
	third := rollup.Status(in)
	at := func(s v1alpha1.FleetMiniClusterStatus, kind string) metav1.Time {
		return meta.FindStatusCondition(s.Conditions, kind).LastTransitionTime
	}
	for _, kind := range []string{v1alpha1.ConditionReady, v1alpha1.ConditionReconciling, v1alpha1.ConditionComplete} {
		if got := at(second, kind); !got.Time.Equal(now) {
			t.Errorf("%s did not change, and its time is %v", kind, got)
		}
	}
	if got := at(third, v1alpha1.ConditionReady); !got.Time.Equal(now.Add(2 * time.Hour)) {
		t.Errorf("Ready changed, and its time is %v", got)
	}
	if meta.FindStatusCondition(third.Conditions, v1alpha1.ConditionReconciling) != nil {
		t.Error("Reconciling is there though nothing is")
	}
}

func TestPodsAreRemembered(t *testing.T) {
	in := input(member("a", running))
	before := rollup.Status(in)
	in = input(member("a", running, lost))
	in.Previous = before
	s := rollup.Status(in)
	if s.Summary.Pods != "3/4" || !s.Clusters[0].LastHeardTime.Time.Equal(now.Add(-time.Minute)) {
		t.Errorf("lost: %s, %v", s.Summary.Pods, s.Clusters[0].LastHeardTime)
	}
	in = input(member("a", succeeded, func(m *rollup.Member) { m.Job = nil }))
	in.Previous = s
	if s = rollup.Status(in); s.Summary.Pods != "4/4" || s.Clusters[0].LastHeardTime != nil {
		t.Errorf("its Job has expired: %s, %v", s.Summary.Pods, s.Clusters[0].LastHeardTime)
	}
}

// A run that has ended without success has no ready pods, though they were the last that was seen of it.
func TestPodsOfRunsThatEndedWithoutSuccess(t *testing.T) {
	before := rollup.Status(input(member("a", running)))
	for _, state := range []v1alpha1.RunState{failed, v1alpha1.RunCancelled, v1alpha1.RunReplaced} {
		for name, job := range map[string]*runs.Job{"Job deleted": nil, "Job kept": member("a", state).Job} {
			in := input(member("a", state, func(m *rollup.Member) { m.Job = job }))
			in.Previous = before
			s := rollup.Status(in)
			if got := s.Clusters[0].Pods; got.Ready != 0 || got.Active != 0 || s.Summary.Pods != "0/4" {
				t.Errorf("%s, %s: %s, %+v", state, name, s.Summary.Pods, got)
			}
		}
	}
}

// Whoever is not chosen anew since it cannot be reached, or has a live run that is yet to end, is named all the same.
func TestMembersOfARerun(t *testing.T) {
	cases := map[string]struct {
		members []rollup.Member
		want    string
	}{
		"chosen":                                     {[]rollup.Member{member("b", running), member("a", succeeded)}, "a, b"},
		"ended, its member cannot be reached":        {[]rollup.Member{member("a", succeeded, lost, removed)}, "a"},
		"live, its member cannot be reached":         {[]rollup.Member{member("a", running, lost, removed)}, "a"},
		"live, and another one follows it":           {[]rollup.Member{member("a", running, removed), member("b", "")}, "a, b"},
		"ended, on a member that is no longer in it": {[]rollup.Member{member("a", succeeded, removed), member("b", "")}, "b"},
	}
	for name, c := range cases {
		if got := rollup.Status(input(c.members...)).Summary.Members; got != c.want {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
}

func TestHandledToken(t *testing.T) {
	in := input(member("a", succeeded), member("b", succeeded))
	in.Wanted.RerunAt, in.Members[0].Run.RerunAt = "t", "t"
	if got := rollup.Status(in).LastHandledRerunAt; got != "" {
		t.Errorf("one of two members has answered, and %q counts as handled", got)
	}
	in.Members[1].Run.RerunAt = "t"
	s := rollup.Status(in)
	if s.LastHandledRerunAt != "t" {
		t.Errorf("got %q", s.LastHandledRerunAt)
	}
	in.Wanted.RerunAt, in.Previous = "", s
	if got := rollup.Status(in).LastHandledRerunAt; got != "t" {
		t.Errorf("a token that was taken away, and %q counts as handled", got)
	}
}

func TestStatusSharesNothing(t *testing.T) {
	in := input(member("a", running))
	s := rollup.Status(in)
	s.Placement.Clusters[0], s.Runs[0].ID = "x", "x"
	if in.Decision.Clusters[0] != "a" || in.Ledger[0].ID != "run-a" {
		t.Error("a change of the status reaches the input")
	}
}
