package fit_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/minifleet/minifleet/internal/fit"
	"github.com/minifleet/minifleet/internal/fleet"
)

// drawn is what is drawn of nodes: NAME PODS/TAKES and what there is to say.
func drawn(nodes []fit.NodeFit) []string {
	var out []string
	for _, n := range nodes {
		line := fmt.Sprintf("%s %d/%d", n.Name, n.Pods, n.Takes)
		if n.Beside {
			line += " +services"
		}
		if n.Excluded != "" {
			line += " " + n.Excluded
		}
		if n.Lacks != "" {
			line += " lacks " + n.Lacks
		}
		if n.Nearest {
			line += " (nearest)"
		}
		out = append(out, line)
	}
	return out
}

func TestNodes(t *testing.T) {
	services := func(kv ...string) *fit.Pod { return ptr.To(fit.PodOf(podSpec(kv...))) }
	a, b, c := node("a", "cpu", "8"), node("b", "cpu", "15"), node("c", "cpu", "3")
	onSSD := podSpec("cpu", "4")
	onSSD.NodeSelector = map[string]string{"disk": "ssd"}
	cases := map[string]struct {
		nodes []fleet.Node
		gang  fit.Gang
		want  []string
	}{
		"spread, the roomiest first": {[]fleet.Node{a, b, c}, gang(3, "cpu", "4"), []string{"a 1/2", "b 2/3", "c 0/0 lacks 1 CPU"}},
		"more room than it takes":    {[]fleet.Node{a, b}, gang(1, "cpu", "4"), []string{"a 0/2", "b 1/3"}},
		"all that there is":          {[]fleet.Node{a, b, c}, gang(5, "cpu", "4"), []string{"a 2/2", "b 3/3", "c 0/0 lacks 1 CPU"}},
		"one too many":               {[]fleet.Node{a, b}, gang(6, "cpu", "4"), []string{"a 2/2", "b 3/3 lacks 1 CPU (nearest)"}},
		"none takes any":             {[]fleet.Node{a, c}, gang(1, "cpu", "9"), []string{"a 0/0 lacks 1 CPU (nearest)", "c 0/0 lacks 6 CPU"}},
		"none may":                   {[]fleet.Node{a, c}, gangOf(1, onSSD), []string{"a 0/0 without the labels asked for", "c 0/0 without the labels asked for"}},
		"cordoned and tainted": {
			[]fleet.Node{with(a, func(n *fleet.Node) { n.Unschedulable = true }), with(b, tainted("gpu")), c},
			gang(2, "cpu", "2"), []string{"a 0/0 cordoned", "b 0/0 tainted gpu:NoSchedule", "c 1/1 lacks 1 CPU (nearest)"},
		},
		"services beside them":  {[]fleet.Node{a, b}, fit.Gang{Pod: gang(0, "cpu", "4").Pod, Size: 5, Beside: services("cpu", "3")}, []string{"a 2/2", "b 3/3 +services"}},
		"services in the way":   {[]fleet.Node{a, b}, fit.Gang{Pod: gang(0, "cpu", "4").Pod, Size: 4, Beside: services("cpu", "4")}, []string{"a 1/2 +services", "b 3/3"}},
		"no room for services":  {[]fleet.Node{a, b}, fit.Gang{Pod: gang(0, "cpu", "4").Pod, Size: 5, Beside: services("cpu", "4")}, []string{"a 2/2", "b 3/3 lacks 1 CPU (nearest)"}},
		"services, and no room": {[]fleet.Node{a}, fit.Gang{Pod: gang(0, "cpu", "4").Pod, Size: 3, Beside: services("cpu", "4")}, []string{"a 2/2 lacks 4 CPU (nearest)"}},
		"no nodes":              {nil, gang(1), nil},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, drawn(fit.Nodes(c.nodes, c.gang))); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestShares(t *testing.T) {
	all := fleet.Amounts{"cpu": 8000, "memory": 32 << 30, "nvidia.com/gpu": 4, "amd.com/gpu": 1, "pods": 110}
	n := fleet.Node{Name: "a", Allocatable: all, Total: fleet.Amounts{"cpu": 7000}, Free: fleet.Amounts{"cpu": 2500, "memory": -1, "nvidia.com/gpu": 1, "pods": 1}}
	got := fit.Nodes([]fleet.Node{n}, gang(1))[0]
	want := fit.NodeFit{
		Name: "a", Pods: 1, Takes: 1, CPU: fit.Share{Used: 5500, Free: 2500, Total: 8000},
		Memory: fit.Share{Used: 32<<30 + 1, Free: -1, Total: 32 << 30}, GPUs: fit.Share{Used: 4, Free: 1, Total: 5},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// What is drawn agrees with what is told, and with what a reservation would take.
func TestNodesAgreeWithCheck(t *testing.T) {
	r := rand.New(rand.NewPCG(11, 12))
	for range 5000 {
		var nodes []fleet.Node
		for i := range r.IntN(6) {
			n := node(fmt.Sprint(i), "cpu", fmt.Sprint(r.IntN(12)), "memory", fmt.Sprint(r.IntN(12)))
			n.Unschedulable = r.IntN(5) == 0
			if r.IntN(5) == 0 {
				tainted("gpu")(&n)
			}
			nodes = append(nodes, n)
		}
		g := gang(r.IntN(9), "cpu", fmt.Sprint(r.IntN(4)), "memory", fmt.Sprint(r.IntN(4)))
		if r.IntN(2) == 0 {
			g.Beside = ptr.To(fit.PodOf(podSpec("cpu", fmt.Sprint(1+r.IntN(4)))))
		}
		checkNodes(t, nodes, g)
	}
}

func checkNodes(t *testing.T, nodes []fleet.Node, g fit.Gang) {
	t.Helper()
	result, got := fit.Check(nodes, g), fit.Nodes(nodes, g)
	pods, besides, nearest := 0, 0, ""
	for i, n := range got {
		free := fit.Clone(nodes)[i].Free
		for name, amount := range g.Pod.Requests {
			free[name] -= int64(n.Pods) * amount
		}
		if n.Beside {
			besides++
			for name, amount := range g.Beside.Requests {
				free[name] -= amount
			}
		}
		for name, amount := range free {
			if amount < 0 {
				t.Fatalf("more %s is taken on %s than there is: %v", name, n.Name, drawn(got))
			}
		}
		if pods += n.Pods; n.Nearest {
			nearest += n.Lacks + " short on " + n.Name
		}
		if n.Pods > n.Takes || n.Excluded != "" && n.Takes > 0 || n.Lacks == "" && n.Excluded == "" && n.Takes == 0 {
			t.Fatalf("%v", drawn(got))
		}
	}
	if pods != result.Pods {
		t.Fatalf("%d pods are drawn, and %d fit: %v", pods, result.Pods, drawn(got))
	}
	if g.Beside != nil && result.Fits != (besides == 1) || besides > 1 {
		t.Fatalf("fits %v, services on %d nodes: %v", result.Fits, besides, drawn(got))
	}
	if (nearest != "") == result.Fits && !strings.Contains(result.Miss, "no nodes") && !strings.Contains(result.Miss, "may run them") || !strings.Contains(result.Miss, nearest) {
		t.Fatalf("%q is drawn, and %q told", nearest, result.Miss)
	}
	if g.Beside != nil {
		return
	}
	rest := fit.Clone(nodes)
	fit.Reserve(rest, g.Pod, g.Size)
	for i, n := range got {
		if taken := nodes[i].Free[corev1.ResourcePods] - rest[i].Free[corev1.ResourcePods]; taken != int64(n.Pods) {
			t.Fatalf("%d pods are drawn on %s, and %d reserved", n.Pods, n.Name, taken)
		}
	}
}
