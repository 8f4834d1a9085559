package fit_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"

	"github.com/minifleet/minifleet/internal/fit"
	"github.com/minifleet/minifleet/internal/fleet"
)

func list(kv ...string) corev1.ResourceList {
	out := corev1.ResourceList{}
	for i := 0; i < len(kv); i += 2 {
		out[corev1.ResourceName(kv[i])] = resource.MustParse(kv[i+1])
	}
	return out
}

// node has 110 places for pods, all of it free.
func node(name string, kv ...string) fleet.Node {
	free := fleet.AmountsOf(list(append([]string{"pods", "110"}, kv...)...))
	return fleet.Node{Name: name, Total: free, Free: free}
}

func with(n fleet.Node, change func(*fleet.Node)) fleet.Node {
	change(&n)
	return n
}

func podSpec(kv ...string) *corev1.PodSpec {
	return &corev1.PodSpec{Containers: []corev1.Container{{Resources: corev1.ResourceRequirements{Requests: list(kv...)}}}}
}

func gang(size int, kv ...string) fit.Gang {
	return fit.Gang{Pod: fit.PodOf(podSpec(kv...)), Size: size}
}

func gangOf(size int, spec *corev1.PodSpec) fit.Gang {
	return fit.Gang{Pod: fit.PodOf(spec), Size: size}
}

func TestPodOf(t *testing.T) {
	cases := map[string]struct {
		spec corev1.PodSpec
		want fleet.Amounts
	}{
		"nothing": {*podSpec(), fleet.Amounts{"pods": 1}},
		"containers add up": {
			corev1.PodSpec{Containers: append(podSpec("cpu", "1500m").Containers, podSpec("cpu", "1", "memory", "1Gi").Containers...)},
			fleet.Amounts{"pods": 1, "cpu": 2500, "memory": 1 << 30},
		},
		"the greatest init container": {
			corev1.PodSpec{Containers: podSpec("cpu", "1").Containers, InitContainers: podSpec("cpu", "4", "memory", "1Mi").Containers},
			fleet.Amounts{"pods": 1, "cpu": 4000, "memory": 1 << 20},
		},
		"overhead": {
			corev1.PodSpec{Containers: podSpec("cpu", "1").Containers, Overhead: list("cpu", "250m")},
			fleet.Amounts{"pods": 1, "cpu": 1250},
		},
		"a limit is a request where there is none": {
			corev1.PodSpec{Containers: []corev1.Container{{Resources: corev1.ResourceRequirements{
				Limits: list("cpu", "2", "nvidia.com/gpu", "4"), Requests: list("cpu", "1"),
			}}}},
			fleet.Amounts{"pods": 1, "cpu": 1000, "nvidia.com/gpu": 4},
		},
		"zero is nothing": {*podSpec("cpu", "0"), fleet.Amounts{"pods": 1}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			before := c.spec.DeepCopy()
			if diff := cmp.Diff(c.want, fit.PodOf(&c.spec).Requests); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff(*before, c.spec); diff != "" {
				t.Error("the spec has changed: " + diff)
			}
		})
	}
}

func tainted(key string) func(*fleet.Node) {
	return func(n *fleet.Node) { n.Taints = []corev1.Taint{{Key: key, Effect: corev1.TaintEffectNoSchedule}} }
}

func TestCheck(t *testing.T) {
	gpu := func(n *fleet.Node) { n.Taints = []corev1.Taint{{Key: "gpu", Effect: corev1.TaintEffectNoSchedule}} }
	small := node("a", "cpu", "8", "memory", "16Gi")
	big := node("b", "cpu", "15", "memory", "16Gi")
	needs := func(change func(*corev1.PodSpec)) *corev1.PodSpec {
		s := podSpec("cpu", "4")
		change(s)
		return s
	}
	labelled := with(small, func(n *fleet.Node) { n.Labels = map[string]string{"zone": "x", "disk": "ssd"} })
	affinity := func(zone string) *corev1.PodSpec {
		return needs(func(s *corev1.PodSpec) {
			s.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
				NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{
					{Key: "zone", Operator: corev1.NodeSelectorOpIn, Values: []string{zone}},
				}}},
			}}}
		})
	}
	cases := map[string]struct {
		nodes []fleet.Node
		gang  fit.Gang
		miss  string
	}{
		"fits to the last core":       {[]fleet.Node{small, big}, gang(5, "cpu", "4"), ""},
		"one core short":              {[]fleet.Node{small, big}, gang(6, "cpu", "4"), "5 of 6 pods fit; 1 CPU short on b"},
		"a part of a core short":      {[]fleet.Node{node("a", "cpu", "47650m", "memory", "1Gi")}, gang(1, "cpu", "452", "memory", "2561Mi"), "0 of 1 pods fit; 404.35 CPU and 1.51Gi memory short on a"},
		"scattered room is no room":   {[]fleet.Node{small, big}, gang(2, "cpu", "9"), "1 of 2 pods fit; 1 CPU short on a"},
		"memory":                      {[]fleet.Node{small}, gang(3, "cpu", "1", "memory", "6Gi"), "2 of 3 pods fit; 2Gi memory short on a"},
		"two resources":               {[]fleet.Node{small}, gang(2, "cpu", "5", "memory", "9Gi"), "1 of 2 pods fit; 2 CPU and 2Gi memory short on a"},
		"GPUs that nobody has":        {[]fleet.Node{small}, gang(1, "nvidia.com/gpu", "2"), "0 of 1 pods fit; 2 nvidia.com/gpu short on a"},
		"GPUs of another make":        {[]fleet.Node{node("a", "amd.com/gpu", "8")}, gang(1, "nvidia.com/gpu", "1"), "0 of 1 pods fit; 1 nvidia.com/gpu short on a"},
		"the limit of pods":           {[]fleet.Node{with(small, func(n *fleet.Node) { n.Free = fleet.Amounts{"pods": 2, "cpu": 8000} })}, gang(3), "2 of 3 pods fit; 1 pods (the limit of the node) short on a"},
		"more is used than there is":  {[]fleet.Node{with(small, func(n *fleet.Node) { n.Free = fleet.Amounts{"pods": 2, "cpu": -1000} })}, gang(1, "cpu", "1"), "0 of 1 pods fit; 2 CPU short on a"},
		"a taint":                     {[]fleet.Node{with(small, gpu), with(big, gpu)}, gang(1), "0 of 1 pods fit; none of 2 nodes may run them (2 tainted gpu:NoSchedule)"},
		"a taint that is tolerated":   {[]fleet.Node{with(small, gpu)}, gangOf(2, needs(func(s *corev1.PodSpec) { s.Tolerations = []corev1.Toleration{{Key: "gpu", Operator: "Exists"}} })), ""},
		"a taint that merely prefers": {[]fleet.Node{with(small, func(n *fleet.Node) { n.Taints = []corev1.Taint{{Key: "x", Effect: "PreferNoSchedule"}} })}, gang(1), ""},
		"a cordoned node":             {[]fleet.Node{with(small, func(n *fleet.Node) { n.Unschedulable = true }), big}, gang(4, "cpu", "4"), "3 of 4 pods fit; 1 CPU short on b (1 of 2 nodes may not run them: 1 cordoned)"},
		"a node that is not ready":    {[]fleet.Node{with(small, tainted(corev1.TaintNodeNotReady)), with(big, tainted(corev1.TaintNodeUnreachable))}, gang(1), "0 of 1 pods fit; none of 2 nodes may run them (1 not ready, 1 unreachable)"},
		"a cordoned node whose taint is tolerated": {[]fleet.Node{with(small, func(n *fleet.Node) { n.Unschedulable = true; tainted(corev1.TaintNodeUnschedulable)(n) })}, gangOf(1, needs(func(s *corev1.PodSpec) {
			s.Tolerations = []corev1.Toleration{{Key: corev1.TaintNodeUnschedulable, Operator: "Exists"}}
		})), ""},
		"the node selector":            {[]fleet.Node{labelled, big}, gangOf(3, needs(func(s *corev1.PodSpec) { s.NodeSelector = map[string]string{"disk": "ssd"} })), "2 of 3 pods fit; 4 CPU short on a (1 of 2 nodes may not run them: 1 without the labels asked for)"},
		"node affinity":                {[]fleet.Node{labelled, big}, gangOf(2, affinity("x")), ""},
		"node affinity without match":  {[]fleet.Node{labelled, big}, gangOf(1, affinity("y")), "0 of 1 pods fit; none of 2 nodes may run them (2 without the labels asked for)"},
		"no nodes":                     {nil, gang(1), "0 of 1 pods fit; there are no nodes"},
		"services beside them":         {[]fleet.Node{small, big}, fit.Gang{Pod: gang(0, "cpu", "4").Pod, Size: 5, Beside: ptr.To(fit.PodOf(podSpec("cpu", "3")))}, ""},
		"no room for services":         {[]fleet.Node{small, big}, fit.Gang{Pod: gang(0, "cpu", "4").Pod, Size: 5, Beside: ptr.To(fit.PodOf(podSpec("cpu", "4")))}, "5 of 5 pods fit, but not the pod of services beside them; 1 CPU short on b"},
		"services on a node of theirs": {[]fleet.Node{with(small, gpu), big}, fit.Gang{Pod: gang(0, "cpu", "5").Pod, Size: 3, Beside: ptr.To(fit.PodOf(needs(func(s *corev1.PodSpec) { s.Tolerations = []corev1.Toleration{{Operator: "Exists"}} })))}, ""},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			r := fit.Check(c.nodes, c.gang)
			if r.Miss != c.miss || r.Fits != (c.miss == "") {
				t.Errorf("fits %v, miss %q, want %q", r.Fits, r.Miss, c.miss)
			}
		})
	}
}

func TestFreeIsThatOfUsefulNodes(t *testing.T) {
	nodes := []fleet.Node{node("a", "cpu", "8"), node("b", "cpu", "3"), node("c", "cpu", "4")}
	if got := fit.Check(nodes, gang(1, "cpu", "4")).Free["cpu"]; got != 12000 {
		t.Errorf("got %d", got)
	}
}

func TestHoldsAndCompete(t *testing.T) {
	full := with(node("a", "cpu", "8"), func(n *fleet.Node) { n.Free = fleet.Amounts{} })
	ssd := with(node("b", "cpu", "8"), func(n *fleet.Node) { n.Labels = map[string]string{"disk": "ssd"} })
	onSSD := podSpec("cpu", "4")
	onSSD.NodeSelector = map[string]string{"disk": "ssd"}
	if !fit.Holds([]fleet.Node{full}, gang(2, "cpu", "4")) || fit.Holds([]fleet.Node{full}, gang(3, "cpu", "4")) {
		t.Error("what an empty member holds does not depend on what is free")
	}
	if !fit.Compete([]fleet.Node{full, ssd}, gang(1, "cpu", "1"), gangOf(1, onSSD)) {
		t.Error("both may use b")
	}
	if fit.Compete([]fleet.Node{full}, gang(1, "cpu", "1"), gangOf(1, onSSD)) {
		t.Error("the second may not use a")
	}
	if fit.Compete([]fleet.Node{full, ssd}, gang(1, "cpu", "9"), gangOf(1, onSSD)) {
		t.Error("the first is too big for either")
	}
}

func TestReserve(t *testing.T) {
	nodes := fit.Clone([]fleet.Node{node("a", "cpu", "4"), node("b", "cpu", "8")})
	p := gang(0, "cpu", "2").Pod
	if unplaced := fit.Reserve(nodes, p, 3); unplaced != 0 {
		t.Errorf("%d found no room", unplaced)
	}
	if nodes[0].Free["cpu"] != 2000 || nodes[1].Free["cpu"] != 4000 {
		t.Errorf("not spread: %v, %v", nodes[0].Free, nodes[1].Free)
	}
	if unplaced := fit.Reserve(nodes, p, 5); unplaced != 2 {
		t.Errorf("%d found no room", unplaced)
	}
}

// brute places pods one by one on the first node with room, which is exact for equal pods.
func brute(nodes []fleet.Node, p fit.Pod, size int) bool {
	nodes = fit.Clone(nodes)
	for range size {
		placed := false
		for i := range nodes {
			ok := true
			for name, n := range p.Requests {
				ok = ok && nodes[i].Free[name] >= n
			}
			if ok {
				for name, n := range p.Requests {
					nodes[i].Free[name] -= n
				}
				placed = true
				break
			}
		}
		if !placed {
			return false
		}
	}
	return true
}

func TestProperties(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	for range 5000 {
		var nodes []fleet.Node
		for i := range r.IntN(5) {
			n := node(fmt.Sprint(i), "cpu", fmt.Sprint(r.IntN(8)), "memory", fmt.Sprint(r.IntN(8)))
			nodes = append(nodes, n)
		}
		g := gang(r.IntN(8), "cpu", fmt.Sprint(r.IntN(4)), "memory", fmt.Sprint(r.IntN(4)))
		res := fit.Check(nodes, g)
		if res.Fits != brute(nodes, g.Pod, g.Size) {
			t.Fatalf("fits %v: %v, %v", res.Fits, nodes, g)
		}
		rest := fit.Clone(nodes)
		unplaced := fit.Reserve(rest, g.Pod, g.Size)
		if unplaced != g.Size-res.Pods {
			t.Fatalf("%d of %d fit, and %d found no room", res.Pods, g.Size, unplaced)
		}
		for i := range rest {
			for name, n := range rest[i].Free {
				if n < 0 {
					t.Fatalf("more %s is taken than there was", name)
				}
			}
		}
		if more := fit.Check(rest, g); res.Fits && more.Pods > res.Pods && g.Size > 0 {
			t.Fatal("there is more room after a reservation")
		}
	}
}
