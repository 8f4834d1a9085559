package view_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/minifleet/minifleet/internal/fleet"
	"github.com/minifleet/minifleet/internal/view"
)

func node(name string, cores int64, change ...func(*fleet.Node)) fleet.Node {
	a := fleet.Amounts{corev1.ResourceCPU: cores * 1000, corev1.ResourceMemory: 64 << 30, "nvidia.com/gpu": 8, corev1.ResourcePods: 110}
	n := fleet.Node{Name: name, Total: a, Free: a}
	for _, c := range change {
		c(&n)
	}
	return n
}

func cordoned(n *fleet.Node) { n.Unschedulable = true }

func TestGangOf(t *testing.T) {
	nodes := []fleet.Node{node("c", 9, cordoned), node("n1", 1), node("n2", 5), node("n3", 0)}
	got := view.GangOf("alpine", nodes, gang(4, "2"))
	type drawn struct {
		Node            string
		Pods            int32
		Nearest         bool
		Lacks, Excluded string
	}
	var nodesOf []drawn
	for _, n := range got.Nodes {
		nodesOf = append(nodesOf, drawn{n.Node, n.Pods, n.Nearest, n.Lacks, n.Excluded})
	}
	want := []drawn{{"n2", 2, false, "", ""}, {"n1", 0, true, "1 CPU", ""}, {"n3", 0, false, "2 CPU", ""}, {"c", 0, false, "", "cordoned"}}
	if diff := cmp.Diff(want, nodesOf); diff != "" {
		t.Error(diff)
	}
	if got.Pods != 4 || got.Fits != 2 || got.Total != 4 || got.Each != (view.Amount{CPU: 2, Memory: 1 << 30, GPUs: 1}) || got.Beside != "" {
		t.Errorf("got %+v", got)
	}
	if n := got.Nodes[0]; n.Free != (view.Amount{CPU: 5, Memory: 64 << 30, GPUs: 8}) || n.Total != n.Free {
		t.Errorf("got %+v", n)
	}
	if hidden := got.WithoutNodes(); hidden.Total != 0 || hidden.Nodes == nil || len(hidden.Nodes) != 0 || len(got.Nodes) != 4 || hidden.Fits != 2 {
		t.Errorf("got %+v", hidden)
	}
}

func TestGangWithServices(t *testing.T) {
	g := gang(2, "2")
	services := gang(1, "3").Pod
	g.Beside = &services
	if got := view.GangOf("alpine", []fleet.Node{node("n1", 4), node("n2", 2)}, g); got.Fits != 2 || got.Beside == "" {
		t.Errorf("got %+v", got)
	}
	if got := view.GangOf("alpine", []fleet.Node{node("n1", 4), node("n2", 3)}, g); got.Fits != 2 || got.Beside != "" {
		t.Errorf("got %+v", got)
	}
}

func TestGangIsDrawnOnFewNodes(t *testing.T) {
	nodes := make([]fleet.Node, 1000)
	for i := range nodes {
		nodes[i] = node("n", 0)
	}
	if got := view.GangOf("alpine", nodes, gang(4, "2")); len(got.Nodes) != 200 || got.Total != 1000 {
		t.Errorf("%d of %d nodes", len(got.Nodes), got.Total)
	}
}

func TestNearestFirst(t *testing.T) {
	gangs := []view.GangFit{{Member: "unknown", Unknown: "away"}, {Member: "far", Pods: 4, Fits: 1}, {Member: "beside", Pods: 4, Fits: 4, Beside: "2 CPU"}, {Member: "fits", Pods: 4, Fits: 4}, {Member: "near", Pods: 4, Fits: 3}}
	var got []string
	for _, g := range view.NearestFirst(gangs, 4) {
		got = append(got, g.Member)
	}
	if diff := cmp.Diff([]string{"fits", "beside", "near", "far"}, got); diff != "" {
		t.Error(diff)
	}
}
