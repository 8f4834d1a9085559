package view_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/internal/fleet"
	"github.com/minifleet/minifleet/internal/view"
)

func memberCluster(edits ...func(*v1alpha1.MemberCluster)) *v1alpha1.MemberCluster {
	m := &v1alpha1.MemberCluster{
		ObjectMeta: metav1.ObjectMeta{Name: "alpine", CreationTimestamp: *stamp(100 * time.Hour)},
		Status: v1alpha1.MemberClusterStatus{
			Capacity:   &v1alpha1.MemberCapacity{Nodes: 3, CPU: "4.5/16", Memory: "10Gi/64Gi", GPUs: "1/2"},
			Conditions: []metav1.Condition{{Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonConnected, LastTransitionTime: *stamp(time.Hour)}},
		},
	}
	for _, e := range edits {
		e(m)
	}
	return m
}

func unreachable(m *v1alpha1.MemberCluster) {
	m.Status.LastHeardTime = stamp(time.Minute)
	m.Status.Conditions[0] = metav1.Condition{Type: v1alpha1.ConditionReady, Status: metav1.ConditionUnknown, Reason: v1alpha1.ReasonUnreachable, Message: "no answer\x1b[2J"}
}

func TestMemberOf(t *testing.T) {
	room := view.Room{Nodes: 3, Free: view.Amount{CPU: 4.5, Memory: 10 << 30, GPUs: 1}, Total: view.Amount{CPU: 16, Memory: 64 << 30, GPUs: 2}}
	m := view.MemberOf(memberCluster(), 1, 2, nil)
	if !m.Ready || m.LastHeard != nil || m.Live != 1 || m.Waiting != 2 || !cmp.Equal(*m.Room, room) {
		t.Errorf("got %+v", m)
	}
	m = view.MemberOf(memberCluster(unreachable), 0, 0, nil)
	if m.Ready || m.LastHeard == nil || m.Room != nil || m.Message != "no answer\uFFFD[2J" {
		t.Errorf("what is free on a member that cannot be reached is not known: %+v", m)
	}
	if m = view.MemberOf(&v1alpha1.MemberCluster{}, 0, 0, nil); m.Ready || m.Reason != "Connecting" || m.Labels == nil || m.Taints == nil {
		t.Errorf("got %+v", m)
	}
}

func TestMemberDetailOf(t *testing.T) {
	object := memberCluster(func(m *v1alpha1.MemberCluster) {
		m.Status.Conditions = append(m.Status.Conditions, metav1.Condition{Type: v1alpha1.ConditionDrained, Status: metav1.ConditionFalse, Message: "bio/x is live"})
		m.Status.UnownedJobs = []v1alpha1.UnownedJob{{Namespace: "hpc", Name: "j", Owner: "hpc/j"}, {Namespace: "bio", Name: "k"}}
	})
	nodes := []fleet.Node{
		{Name: "b", Total: fleet.Amounts{corev1.ResourceCPU: 8000}, Free: fleet.Amounts{corev1.ResourceCPU: 1500, "nvidia.com/gpu": 2}},
		{Name: "a", Unschedulable: true, Taints: []corev1.Taint{{Key: "k", Effect: corev1.TaintEffectNoSchedule}}},
	}
	for name, c := range map[string]struct {
		sees    view.Sees
		others  bool
		unowned int
		drained string
	}{
		"all":          {nil, false, 2, "bio/x is live"},
		"a part":       {only("hpc"), true, 1, "it is about runs of others as well"},
		"all unowned":  {only("hpc", "bio"), false, 2, "bio/x is live"},
		"not the runs": {only("hpc", "bio"), true, 2, "it is about runs of others as well"},
	} {
		d := view.MemberDetailOf(view.MemberOf(object, 0, 0, c.sees), object, nodes, c.others, c.sees)
		if len(d.UnownedJobs) != c.unowned || d.Unowned != c.unowned || d.Conditions[1].Message != c.drained {
			t.Errorf("%s: got %+v", name, d)
		}
		if len(d.Nodes) != 2 || d.Nodes[0].Name != "a" || !d.Nodes[0].Unschedulable || d.Nodes[1].Free != (view.Amount{CPU: 1.5, GPUs: 2}) {
			t.Errorf("%s: got %+v", name, d.Nodes)
		}
	}
}

func TestSourceOf(t *testing.T) {
	s := &v1alpha1.GitSource{
		ObjectMeta: metav1.ObjectMeta{Namespace: "hpc", Name: "fleet"},
		Spec:       v1alpha1.GitSourceSpec{URL: "https://example.org/x", Ref: &v1alpha1.GitRef{Branch: "main"}},
		Status: v1alpha1.GitSourceStatus{
			Revision: "main@1a2b3c4", Commit: "1a2b3c4d", MiniClusters: 3, ProblemCount: 1,
			Commits:    []v1alpha1.Commit{{Hash: "1a2b3c4d", Revision: "main@1a2b3c4", Subject: "Use\nmore ranks", Author: "Ada"}},
			Problems:   []v1alpha1.FileProblem{{Path: "a.yaml", Line: 3, Message: "is\x1b odd"}},
			Prune:      []string{"FleetMiniCluster/a", "FleetMiniCluster/b", "Placement/a"},
			Conditions: []metav1.Condition{{Type: v1alpha1.ConditionPruneBlocked, Status: metav1.ConditionTrue}, {Type: v1alpha1.ConditionReady, Status: metav1.ConditionFalse, Reason: "PruneBlocked"}},
		},
	}
	d := view.SourceDetailOf(s, func(name string) int { return len(name) })
	if d.Ref != "main" || d.Ready || !d.PruneBlocked || d.RunsBlocked || d.PruneRuns != 2 || len(d.Prune) != 3 || d.Commit.Subject != "Use more ranks" || d.ProblemList[0].Message != "is\uFFFD odd" {
		t.Errorf("got %+v", d)
	}
	s.Status.Commits = nil
	if got := view.SourceOf(s); got.Commit.Hash != "1a2b3c4d" || got.Commit.Subject != "" {
		t.Errorf("got %+v", got.Commit)
	}
	if got := view.SourceOf(&v1alpha1.GitSource{}); got.Commit != nil || got.Ref != "the default branch" || got.Reason != "Reconciling" {
		t.Errorf("got %+v", got)
	}
}

func TestGridOf(t *testing.T) {
	f := miniCluster(on("alpine", "r3", v1alpha1.RunRunning))
	var earlier []v1alpha1.Run
	for i := range 3 {
		earlier = append(earlier, v1alpha1.Run{
			ID: fmt.Sprint("r", i), Cluster: []string{"alpine", "birch", "alpine"}[i], Revision: fmt.Sprint("main@", i), State: v1alpha1.RunSucceeded,
			StartTime: stamp(time.Duration(10-i) * time.Hour), CompletionTime: stamp(time.Duration(9-i) * time.Hour),
		})
	}
	f.Status.Runs = append(earlier, f.Status.Runs...)
	g := view.GridOf(entries(f, miniCluster(named("bio", "x"))), []string{"cinder"}, 2, func(*view.Entry) view.Context { return losing("birch") })
	var columns, runs, revisions []string
	for _, c := range g.Columns {
		columns = append(columns, strings.TrimSpace(c.Member+" "+map[bool]string{true: "stale"}[c.StaleSince != nil]))
	}
	for _, r := range g.Rows[0].Runs {
		runs = append(runs, r.Member+" "+r.ID)
	}
	for _, r := range g.Revisions {
		revisions = append(revisions, r.Revision)
	}
	want := [][]string{{"alpine", "birch stale", "cinder"}, {"birch r1", "alpine r2", "alpine r3"}, {"main@2", "main@1"}}
	if diff := cmp.Diff(want, [][]string{columns, runs, revisions}); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestTimelineOf(t *testing.T) {
	list := entries(
		miniCluster(named("hpc", "runs"), state(v1alpha1.StateRunning), on("alpine", "a", v1alpha1.RunRunning)),
		miniCluster(named("hpc", "ended"), state(v1alpha1.StateSucceeded), on("birch", "b", v1alpha1.RunSucceeded)),
		miniCluster(named("hpc", "before"), state(v1alpha1.StateSucceeded), on("birch", "c", v1alpha1.RunSucceeded, func(r *v1alpha1.Run) {
			r.StartTime, r.RunningTime, r.CompletionTime = stamp(9*time.Hour), nil, stamp(8*time.Hour)
		})),
		miniCluster(named("hpc", "waits"), state(v1alpha1.StateWaiting), waitsFor("alpine", "no room")),
	)
	lanes := func(l view.Timeline) []string {
		var out []string
		for _, lane := range l.Lanes {
			text := lane.Member + ":"
			for _, b := range lane.Bars {
				text += fmt.Sprintf(" %s %s %t", b.Name, noon.Sub(*b.Start), b.Waiting)
			}
			out = append(out, text)
		}
		return out
	}
	got := view.TimelineOf(list, noon.Add(-2*time.Hour), noon, noon, 100, noContext)
	if diff := cmp.Diff([]string{": waits 1h0m0s true", "alpine: runs 20m0s false", "birch: ended 20m0s false"}, lanes(got)); diff != "" || got.Total != 3 {
		t.Errorf("%d bars (-want +got):\n%s", got.Total, diff)
	}
	got = view.TimelineOf(list, noon.Add(-2*time.Hour), noon, noon, 1, noContext)
	if got.Total != 3 || len(got.Lanes) != 1 {
		t.Errorf("got %+v", got)
	}
	got.AddMembers([]*v1alpha1.MemberCluster{memberCluster(), memberCluster(unreachable, func(m *v1alpha1.MemberCluster) { m.Name = "cinder" })})
	for _, lane := range got.Lanes {
		if (lane.Member == "alpine") != (lane.Room != nil) || (lane.Member == "cinder") != (lane.StaleSince != nil) {
			t.Errorf("got %+v", lane)
		}
	}
}

func TestSummaryOf(t *testing.T) {
	list := entries(miniCluster(state(v1alpha1.StateWaiting), waitsFor("alpine", "no room")), miniCluster(on("birch", "b", v1alpha1.RunRunning)))
	members := []*v1alpha1.MemberCluster{
		memberCluster(), memberCluster(unreachable, func(m *v1alpha1.MemberCluster) { m.Name = "birch" }),
		memberCluster(unreachable, func(m *v1alpha1.MemberCluster) {
			m.Name, m.Status.Conditions[0].Reason, m.Status.Conditions[0].Message = "cinder", v1alpha1.ReasonFenced, "hub x leads"
		}),
	}
	all := view.SummaryOf(view.Fleet{Matched: list, Members: members, MayMembers: true, Now: noon})
	if all.Queue != 1 || all.MiniClusters != 2 || *all.Members != (view.Ready{Ready: 1, Total: 3}) || all.Room.Nodes != 3 || len(all.Stale) != 2 || all.Fenced != "hub x leads" {
		t.Errorf("got %+v", all)
	}
	own := view.SummaryOf(view.Fleet{Matched: list, Members: members, Now: noon})
	if own.Members != nil || own.Room != nil || len(own.Stale) != 1 || own.Stale[0].Member != "birch" || own.Stale[0].Message != "cannot be reached" || strings.Contains(own.Fenced, "hub x") {
		t.Errorf("got %+v", own)
	}
}
