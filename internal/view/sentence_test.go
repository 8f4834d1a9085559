package view_test

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/internal/rollup"
	"github.com/minifleet/minifleet/internal/runs"
	"github.com/minifleet/minifleet/internal/view"
)

var noon = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)

func before(d time.Duration) *metav1.Time { return ptr.To(metav1.NewTime(noon.Add(-d))) }

// object has the status that the hub makes of an input.
func object(in rollup.Input, change ...func(*v1alpha1.FleetMiniCluster)) *v1alpha1.FleetMiniCluster {
	in.Wanted.Digest, in.Wanted.Size, in.Now = "1", 4, noon
	for _, m := range in.Members {
		if m.Run != nil {
			in.Ledger = append(in.Ledger, *m.Run)
		}
	}
	if in.Decision == nil {
		in.Decision = &v1alpha1.PlacementDecision{}
		for _, m := range in.Members {
			in.Decision.Clusters = append(in.Decision.Clusters, m.Name)
		}
		in.Decision.Wanted = int32(len(in.Members))
	}
	f := &v1alpha1.FleetMiniCluster{ObjectMeta: metav1.ObjectMeta{Namespace: "hpc", Name: "lammps"}}
	f.Spec.Retries = in.Wanted.Retries
	for _, c := range change {
		c(f)
	}
	f.Status = rollup.Status(in)
	return f
}

func member(state v1alpha1.RunState, change ...func(*rollup.Member)) rollup.Member {
	m := rollup.Member{Name: "alpine", Chosen: true}
	if state != "" {
		m.Run = &v1alpha1.Run{ID: "00000000aa", Cluster: m.Name, Digest: "1", State: state, StartTime: before(20 * time.Minute)}
		if !state.Ended() {
			m.Job = &runs.Job{RunID: m.Run.ID, Size: 4, Pods: v1alpha1.PodCounts{Desired: 4, Ready: 4, Active: 4}}
		}
	}
	for _, c := range change {
		c(&m)
	}
	return m
}

func running(m *rollup.Member) { m.Run.RunningTime = before(90 * time.Second) }
func ended(m *rollup.Member)   { m.Run.CompletionTime = before(4 * time.Second) }
func lost(m *rollup.Member) {
	m.Lost, m.Job = &rollup.Problem{Reason: v1alpha1.ReasonMemberUnreachable, Message: "no answer"}, nil
	m.LastHeard = noon.Add(-time.Minute)
}
func crashed(m *rollup.Member) {
	m.Run.Exit = &v1alpha1.RunExit{Pod: "lammps-0-x7k2p", Container: "lammps", ExitCode: ptr.To(int32(137)), Reason: "OOMKilled", Message: "out of memory"}
	m.Run.Message = "pod lammps-0-x7k2p, container lammps, exit code 137 (OOMKilled): out of memory"
}
func step(reason, message string) func(*rollup.Member) {
	return func(m *rollup.Member) {
		m.Step = runs.Step{Action: runs.Nothing, Reason: reason, Message: message}
	}
}
func fails(reason, message string) func(*rollup.Member) {
	return func(m *rollup.Member) { m.Failed = &rollup.Problem{Reason: reason, Message: message} }
}

// turn is what the hub says of who comes first.
const turn = "its room is kept for physics/hpcg-large, which waits for it and comes first (priority 5, created 2026-05-01T11:00:00Z)"

func waitingFor(reason string) rollup.Input {
	return rollup.Input{Decision: &v1alpha1.PlacementDecision{
		Wanted: 1, Waiting: []v1alpha1.RejectedCluster{{Name: "basalt", Reason: reason}, {Name: "alpine", Reason: "0 of 4 pods fit; 1 nvidia.com/gpu short on n1"}},
		Rejected: []v1alpha1.RejectedCluster{
			{Name: "basalt", Reason: reason}, {Name: "cinder", Reason: "is not connected"}, {Name: "onyx", Reason: "not needed: 1 of 1 chosen"},
		},
	}}
}

func nodesOf(fits int32, nodes ...view.NodeFit) []view.GangFit {
	return []view.GangFit{{Member: "basalt", Pods: 4, Fits: fits, Nodes: nodes}}
}

func behind(who *view.Ref) *view.Line {
	return &view.Line{Member: "basalt", Places: []view.Place{{Place: 1, Hidden: true}, {Place: 2, Namespace: "hpc", Name: "lammps", Behind: who}}}
}

func only(namespaces ...string) view.Sees {
	return func(namespace string) bool { return strings.Contains(strings.Join(namespaces, " "), namespace) }
}

var sentenceCases = map[string]struct {
	object *v1alpha1.FleetMiniCluster
	parts  view.WhyParts
	want   string
}{
	"not read yet": {&v1alpha1.FleetMiniCluster{}, view.WhyParts{}, "MiniFleet has not read it yet."},
	"room, from the status alone": {
		object(waitingFor("3 of 4 pods fit; 2 CPU short on node-7")), view.WhyParts{},
		"It waits for room on basalt: 3 of 4 pods fit; 2 CPU short on node-7. alpine: 0 of 4 pods fit; 1 nvidia.com/gpu short on n1; cinder is not connected.",
	},
	"room, one pod short": {
		object(waitingFor("x")), view.WhyParts{Gangs: nodesOf(3, view.NodeFit{Node: "node-7", Nearest: true, Lacks: "2 CPU"}), Line: behind(&view.Ref{Namespace: "physics", Name: "hpcg-large"})},
		"It starts when 2 CPU more are free on node-7 of basalt, after physics/hpcg-large has started. alpine: 0 of 4 pods fit; 1 nvidia.com/gpu short on n1; cinder is not connected.",
	},
	"room, several pods short": {
		object(waitingFor("x")), view.WhyParts{Gangs: nodesOf(1, view.NodeFit{Node: "node-7", Nearest: true, Lacks: "2 CPU"})},
		"It starts when 3 more of its 4 pods have room on basalt, where node-7 lacks 2 CPU for one of them. alpine: 0 of 4 pods fit; 1 nvidia.com/gpu short on n1; cinder is not connected.",
	},
	"room, for the pod of services": {
		object(waitingFor("x")), view.WhyParts{Gangs: []view.GangFit{{Member: "basalt", Pods: 4, Fits: 4, Beside: "2 CPU on node-7"}}},
		"It starts when there is room on basalt for the pod of services beside its pods: it lacks 2 CPU on node-7. alpine: 0 of 4 pods fit; 1 nvidia.com/gpu short on n1; cinder is not connected.",
	},
	"room, no node may run them": {
		object(waitingFor("x")), view.WhyParts{Gangs: nodesOf(0, view.NodeFit{Node: "node-7", Excluded: "cordoned"})},
		"It starts when 4 more of its 4 pods have a node of basalt that may run them. alpine: 0 of 4 pods fit; 1 nvidia.com/gpu short on n1; cinder is not connected.",
	},
	"room, its turn, by the status, hidden": {
		object(waitingFor(turn)), view.WhyParts{Sees: only("hpc")},
		"It waits for room on basalt: its room is kept for another MiniCluster, which comes first. alpine: 0 of 4 pods fit; 1 nvidia.com/gpu short on n1; cinder is not connected.",
	},
	"room, its turn, by the line, hidden": {
		object(waitingFor(turn)), view.WhyParts{Sees: only("hpc"), Gangs: nodesOf(4), Line: behind(&view.Ref{})},
		"All of its pods have room on basalt, and it starts after another MiniCluster has started there. alpine: 0 of 4 pods fit; 1 nvidia.com/gpu short on n1; cinder is not connected.",
	},
	"room, and it would exceed what its namespace may use": {
		object(waitingFor("quota exceeded: it asks for 1 run")),
		view.WhyParts{Gangs: nodesOf(4), Line: &view.Line{Member: "basalt", Places: []view.Place{{Place: 1, Namespace: "hpc", Name: "lammps", Quota: true}}}},
		"It waits for room on basalt: quota exceeded: it asks for 1 run. alpine: 0 of 4 pods fit; 1 nvidia.com/gpu short on n1; cinder is not connected.",
	},
	"room, nodes not known": {
		object(waitingFor("2 of 4 pods fit")), view.WhyParts{Gangs: []view.GangFit{{Member: "basalt", Unknown: "no answer"}}},
		"It waits for room on basalt: 2 of 4 pods fit. alpine: 0 of 4 pods fit; 1 nvidia.com/gpu short on n1; cinder is not connected.",
	},
	"a Secret": {
		object(rollup.Input{Members: []rollup.Member{member("", fails(v1alpha1.ReasonReferenceMissing, "Secret token, named by containers[0].environment, is missing: create it there"))}}), view.WhyParts{},
		"It waits for a Secret or ConfigMap: alpine: Secret token, named by containers[0].environment, is missing: create it there.",
	},
	"permission": {
		object(rollup.Input{Stalled: true, Problem: &rollup.Problem{Reason: v1alpha1.ReasonPolicyDenied, Message: "not allowed: spec.miniCluster.pod. Remove it, or allow it: kubectl annotate namespace hpc x=y"}}), view.WhyParts{},
		"It waits for permission: not allowed: spec.miniCluster.pod. Remove it, or allow it: kubectl annotate namespace hpc x=y.",
	},
	"another run": {
		object(rollup.Input{Members: []rollup.Member{member("", step(v1alpha1.ReasonWaitingForCompletion, "waiting for the run on z to end, which is no longer in the placement"))}}), view.WhyParts{},
		"It waits for another of its runs: alpine: waiting for the run on z to end, which is no longer in the placement.",
	},
	"retry": {
		object(rollup.Input{Wanted: runs.Wanted{Retries: 3}, Members: []rollup.Member{member(v1alpha1.RunFailed, ended, crashed, step(v1alpha1.ReasonRetryWaiting, "retry 1 of 3 at 12:00:06 UTC"))}}),
		view.WhyParts{Now: noon},
		"It failed on alpine: pod lammps-0-x7k2p, container lammps, exit code 137 (OOMKilled): out of memory, and is tried again in 6 s, at 12:00:06 UTC (retry 1 of 3).",
	},
	"a member that was not asked": {
		object(rollup.Input{Unasked: []string{"cinder"}, Members: []rollup.Member{member("", step(v1alpha1.ReasonMemberNotAsked, "cinder may hold a run"))}}), view.WhyParts{},
		"Something of it may run on a member that cannot be asked, and nothing new starts until that is known: alpine: cinder may hold a run.",
	},
	"starting": {
		object(rollup.Input{Members: []rollup.Member{member(v1alpha1.RunRunning)}}), view.WhyParts{Now: noon},
		"Run 00000000aa was begun on alpine at 11:40:00 UTC, 20 min ago: 4 of 4 pods are ready.",
	},
	"running, and why there": {
		object(rollup.Input{Members: []rollup.Member{member(v1alpha1.RunRunning, running)}, Decision: &v1alpha1.PlacementDecision{
			Wanted: 1, Clusters: []string{"alpine"}, Decisions: []v1alpha1.ClusterDecision{{Name: "alpine", Score: 100, Reason: "FreeCPU 100 (452 of 512 CPU)"}},
		}}), view.WhyParts{Now: noon},
		"It runs on alpine since 11:58:30 UTC (1 min 30 s): 4 of 4 pods are ready. alpine was chosen: FreeCPU 100 (452 of 512 CPU).",
	},
	"running, without the time": {
		object(rollup.Input{Members: []rollup.Member{member(v1alpha1.RunRunning, running)}}), view.WhyParts{},
		"It runs on alpine since 2026-05-01 11:58:30 UTC: 4 of 4 pods are ready.",
	},
	"stopping": {
		object(rollup.Input{Members: []rollup.Member{member(v1alpha1.RunStopping, func(m *rollup.Member) { m.Run.Stop = v1alpha1.StopCancelled })}}), view.WhyParts{},
		"Run 00000000aa on alpine is being stopped because somebody has cancelled it, and its pods are ending.",
	},
	"suspended": {
		object(rollup.Input{Wanted: runs.Wanted{Suspend: true}, Suspension: "held by hand (annotation minifleet.dev/hold); to go on: kubectl annotate", Members: []rollup.Member{member("")}}), view.WhyParts{},
		"It is suspended and does not start: held by hand (annotation minifleet.dev/hold); to go on: kubectl annotate.",
	},
	"suspended while it ran": {
		object(rollup.Input{Wanted: runs.Wanted{Suspend: true}, Suspension: "held by hand", Members: []rollup.Member{member(v1alpha1.RunRunning, func(m *rollup.Member) { m.Job.Suspended = true })}}), view.WhyParts{},
		"It is suspended on alpine; held by hand.",
	},
	"succeeded": {
		object(rollup.Input{Members: []rollup.Member{member(v1alpha1.RunSucceeded, running, ended)}}), view.WhyParts{Now: noon},
		"It succeeded on alpine at 11:59:56 UTC, after 1 min 26 s.",
	},
	"succeeded before": {
		object(rollup.Input{Members: []rollup.Member{member(v1alpha1.RunSucceeded, ended, func(m *rollup.Member) {
			m.Run.RestoredTime, m.Run.Message = before(0), "succeeded before, as run 00000000aa of revision main@1a2b3c4; to run it again: kubectl annotate"
		})}}), view.WhyParts{},
		"On alpine it has succeeded before, as run 00000000aa of revision main@1a2b3c4; to run it again: kubectl annotate.",
	},
	"failed": {
		object(rollup.Input{Members: []rollup.Member{member(v1alpha1.RunFailed, ended, crashed)}}), view.WhyParts{Now: noon},
		"It failed on alpine at 11:59:56 UTC: pod lammps-0-x7k2p, container lammps, exit code 137 (OOMKilled): out of memory.",
	},
	"failed for the last time": {
		object(rollup.Input{Wanted: runs.Wanted{Retries: 2}, Members: []rollup.Member{member(v1alpha1.RunFailed, func(m *rollup.Member) { m.Run.Attempt, m.Run.Message = 2, "the Job failed" })}}), view.WhyParts{},
		"It failed on alpine: the Job failed. It was tried 3 times.",
	},
	"its Job was deleted": {
		object(rollup.Input{Members: []rollup.Member{member(v1alpha1.RunFailed, func(m *rollup.Member) {
			m.Run.Stop, m.Run.Message = v1alpha1.StopDeleted, "somebody has deleted the Job"
		})}}), view.WhyParts{},
		"It failed on alpine: somebody has deleted the Job. It is not repeated by itself, because somebody has deleted it.",
	},
	"cancelled": {
		object(rollup.Input{Members: []rollup.Member{member(v1alpha1.RunCancelled, ended)}}), view.WhyParts{Now: noon},
		"Run 00000000aa on alpine was cancelled at 11:59:56 UTC. It is not run again until it changes or somebody asks for it.",
	},
	"unknown": {
		object(rollup.Input{Members: []rollup.Member{member(v1alpha1.RunRunning, running, lost)}}), view.WhyParts{Now: noon},
		"alpine has not been heard of since 11:59:00 UTC (1 min). Run 00000000aa was running there then, and may go on. It is not repeated elsewhere before alpine answers, unless somebody declares it gone.",
	},
	"unknown, with failover": {
		object(rollup.Input{Members: []rollup.Member{member(v1alpha1.RunRunning, lost, func(m *rollup.Member) { m.Run.LostTime = before(0) })}}), view.WhyParts{Now: noon},
		"alpine has not been heard of since 11:59:00 UTC (1 min). Run 00000000aa was starting there then, and may go on. It starts elsewhere once it is proven gone: when alpine answers that nothing is left of it, or somebody declares it gone.",
	},
	"invalid": {
		object(rollup.Input{Stalled: true, Problem: &rollup.Problem{Reason: v1alpha1.ReasonInvalidSpec, Message: "spec.miniCluster.size: Invalid value: 0: must be at least 1"}}), view.WhyParts{},
		"It cannot run as it is: spec.miniCluster.size: Invalid value: 0: must be at least 1.",
	},
	"a name in use, hidden": {
		object(rollup.Input{Members: []rollup.Member{member("", fails(v1alpha1.ReasonConflict, "Job hpc/lammps already exists on the member and belongs to FleetMiniCluster secret/lammps: rename one of the two"))}}),
		view.WhyParts{Sees: only("hpc")},
		"It has not begun yet: alpine: Job hpc/lammps already exists on the member and belongs to another FleetMiniCluster: rename one of the two.",
	},
	"hostile text": {
		object(rollup.Input{Stalled: true, Problem: &rollup.Problem{Reason: v1alpha1.ReasonInvalidSpec, Message: "bad \x1b[2J\u202e name"}}), view.WhyParts{},
		"It cannot run as it is: bad \uFFFD[2J\uFFFD name.",
	},
}

func TestWhySentence(t *testing.T) {
	for name, c := range sentenceCases {
		t.Run(name, func(t *testing.T) {
			if got := view.WhySentence(c.object, c.parts); got != c.want {
				t.Errorf("\n got %s\nwant %s", got, c.want)
			}
		})
	}
}

func TestWhySentenceOfADeletion(t *testing.T) {
	f := object(rollup.Input{})
	f.DeletionTimestamp = before(time.Minute)
	if got, want := view.WhySentence(f, view.WhyParts{Now: noon}), "It is being deleted since 11:59:00 UTC (1 min)."; got != want {
		t.Errorf("got %s", got)
	}
	f.SetConditions([]metav1.Condition{{Type: v1alpha1.ConditionReady, Reason: v1alpha1.ReasonDeleting, Message: "deleting: alpine: the member does not answer"}})
	if got, want := view.WhySentence(f, view.WhyParts{Now: noon}), "It is being deleted since 11:59:00 UTC (1 min), and waits for alpine: the member does not answer."; got != want {
		t.Errorf("got %s", got)
	}
}
