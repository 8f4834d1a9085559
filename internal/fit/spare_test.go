package fit_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/minifleet/minifleet/internal/fit"
	"github.com/minifleet/minifleet/internal/fleet"
)

// holding adds pods to a node that end by themselves.
func holding(n fleet.Node, count int, kv ...string) fleet.Node {
	requests := fleet.AmountsOf(list(append([]string{"pods", "1"}, kv...)...))
	n.Ending = append(n.Ending[:len(n.Ending):len(n.Ending)], fleet.PodGroup{Requests: requests, Count: count})
	return n
}

func TestSpares(t *testing.T) {
	gpus := node("gpu", "cpu", "64", "nvidia.com/gpu", "8")
	wantsGPUs := gang(1, "cpu", "16", "nvidia.com/gpu", "8")
	ssd := with(node("ssd", "cpu", "8"), func(n *fleet.Node) { n.Labels = map[string]string{"disk": "ssd"} })
	onSSD := podSpec("cpu", "1")
	onSSD.NodeSelector = map[string]string{"disk": "ssd"}
	services := gang(1, "cpu", "2").Pod
	beside := func(g fit.Gang) fit.Gang { g.Beside = &services; return g }
	cases := map[string]struct {
		nodes       []fleet.Node
		other, gang fit.Gang
		unplaced    []fit.Unplaced
		want        bool
	}{
		"whole nodes":                                   {[]fleet.Node{node("a", "cpu", "8")}, gang(4, "cpu", "8"), gang(1, "cpu", "1"), nil, false},
		"nodes that the other cannot use":               {[]fleet.Node{node("a", "cpu", "8"), ssd}, gangOf(8, onSSD), gang(1, "cpu", "9"), nil, true},
		"the remainder of a node":                       {[]fleet.Node{node("a", "cpu", "8")}, gang(4, "cpu", "5"), gang(1, "cpu", "3"), nil, true},
		"two pods, which may come to one node":          {[]fleet.Node{node("a", "cpu", "8"), node("b", "cpu", "8")}, gang(4, "cpu", "5"), gang(2, "cpu", "3"), nil, false},
		"two pods that fit into the remainder":          {[]fleet.Node{node("a", "cpu", "8"), node("b", "cpu", "8")}, gang(4, "cpu", "5"), gang(2, "cpu", "1500m"), nil, true},
		"a pod there that makes the remainder smaller":  {[]fleet.Node{holding(node("a", "cpu", "8"), 1, "cpu", "2")}, gang(4, "cpu", "5"), gang(1, "cpu", "3"), nil, false},
		"a pod there that takes the room of the other":  {[]fleet.Node{holding(node("a", "cpu", "8"), 1, "cpu", "5")}, gang(4, "cpu", "5"), gang(1, "cpu", "3"), nil, true},
		"CPUs of a node whose GPUs the other waits for": {[]fleet.Node{holding(gpus, 1, "cpu", "8", "nvidia.com/gpu", "8")}, wantsGPUs, gang(6, "cpu", "8"), nil, true},
		"more CPUs than remain":                         {[]fleet.Node{holding(gpus, 1, "cpu", "8", "nvidia.com/gpu", "8")}, wantsGPUs, gang(7, "cpu", "8"), nil, false},
		"a pod that is about to be scheduled":           {[]fleet.Node{gpus}, wantsGPUs, gang(5, "cpu", "8"), []fit.Unplaced{{Pod: gang(1, "cpu", "16").Pod, Count: 1}}, false},
		"a pod that is about to be, and enough remains": {[]fleet.Node{gpus}, wantsGPUs, gang(4, "cpu", "8"), []fit.Unplaced{{Pod: gang(1, "cpu", "16").Pod, Count: 1}}, true},
		"a pod of services beyond the remainder":        {[]fleet.Node{node("a", "cpu", "8")}, gang(4, "cpu", "5"), beside(gang(1, "cpu", "3")), nil, false},
		"services of the other":                         {[]fleet.Node{node("a", "cpu", "8")}, beside(gang(4, "cpu", "5")), gang(1, "cpu", "2"), nil, false},
		"services of the other, and enough":             {[]fleet.Node{node("a", "cpu", "8")}, beside(gang(4, "cpu", "5")), gang(1, "cpu", "1"), nil, true},
		"the number of pods on a node":                  {[]fleet.Node{with(node("a", "cpu", "8"), func(n *fleet.Node) { n.Total = fleet.Amounts{"pods": 1, "cpu": 8000} })}, gang(1, "cpu", "1"), gang(1, "cpu", "1"), nil, false},
		"pods that are not listed":                      {[]fleet.Node{with(node("a", "cpu", "8"), func(n *fleet.Node) { n.EndingOmitted = true })}, gang(4, "cpu", "5"), gang(1, "cpu", "1"), nil, false},
		"too many levels":                               {[]fleet.Node{holding(holding(node("a", "cpu", "8"), 100, "cpu", "1m"), 100, "cpu", "2m")}, gang(4, "cpu", "5"), gang(1, "cpu", "1"), nil, false},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if got := fit.Spares(c.nodes, c.other, c.gang, c.unplaced); got != c.want {
				t.Errorf("it takes no room from the other: %t", got)
			}
		})
	}
}

// Whatever ends, and wherever pods are scheduled, another fits beside a gang that spares it if, and only if, it fits
// without it: by brute force.
func TestWhatIsSparedIsNeverMissed(t *testing.T) {
	random := rand.New(rand.NewPCG(12, 1))
	spared := 0
	for i := range 4000 {
		nodes := make([]fleet.Node, 1+random.IntN(2))
		for n := range nodes {
			nodes[n] = randomNode(random, fmt.Sprint("n", n))
		}
		other, candidate := randomGang(random, 3), randomGang(random, 2)
		var unplaced []fit.Unplaced
		if random.IntN(3) == 0 {
			unplaced = append(unplaced, fit.Unplaced{Pod: randomGang(random, 1).Pod, Count: 1})
		}
		if !fit.Spares(nodes, other, candidate, unplaced) {
			continue
		}
		spared++
		if missed := missed(nodes, other, candidate, unplaced); missed != "" {
			t.Fatalf("%d: %s\nnodes %+v\nother %+v\ngang %+v\nunplaced %+v", i, missed, nodes, other, candidate, unplaced)
		}
	}
	if spared < 400 {
		t.Errorf("only %d gangs are found to take no room from another", spared)
	}
}

func randomNode(random *rand.Rand, name string) fleet.Node {
	n := node(name, "cpu", fmt.Sprint(3+random.IntN(8)), "nvidia.com/gpu", fmt.Sprint(random.IntN(3)))
	if random.IntN(5) == 0 {
		n.Labels = map[string]string{"disk": "ssd"}
	}
	for range random.IntN(3) {
		n = holding(n, 1+random.IntN(2), "cpu", fmt.Sprint(1+random.IntN(3)), "nvidia.com/gpu", fmt.Sprint(random.IntN(2)))
	}
	return n
}

func randomGang(random *rand.Rand, most int) fit.Gang {
	spec := podSpec("cpu", fmt.Sprint(1+random.IntN(6)), "nvidia.com/gpu", fmt.Sprint(random.IntN(2)))
	if random.IntN(4) == 0 {
		spec.NodeSelector = map[string]string{"disk": "ssd"}
	}
	g := gangOf(1+random.IntN(most), spec)
	if random.IntN(4) == 0 {
		pod := gang(1, "cpu", fmt.Sprint(1+random.IntN(2))).Pod
		g.Beside = &pod
	}
	return g
}

// missed goes through all that may become of the nodes, and says where the other fits only without the gang.
func missed(nodes []fleet.Node, other, candidate fit.Gang, unplaced []fit.Unplaced) string {
	var pods []fit.Pod // those that may be anywhere, or nowhere: unplaced ones, and last those of the gang
	for _, u := range unplaced {
		pods = append(pods, u.Pod)
	}
	strangers := len(pods)
	for range candidate.Size {
		pods = append(pods, candidate.Pod)
	}
	if candidate.Beside != nil {
		pods = append(pods, *candidate.Beside)
	}
	out := ""
	levels(nodes, func(now []fleet.Node) bool {
		return scheduled(now, pods[:strangers], func(before []fleet.Node) bool {
			without := fit.Check(before, other).Fits
			return scheduled(before, pods[strangers:], func(after []fleet.Node) bool {
				if with := fit.Check(after, other).Fits; with != without {
					out = fmt.Sprintf("it fits without the gang: %t, with it: %t, into %+v", without, with, after)
				}
				return out == ""
			})
		})
	})
	return out
}

// levels calls f for each subset of the pods on nodes that have ended, until it returns false.
func levels(nodes []fleet.Node, f func([]fleet.Node) bool) bool {
	type entry struct {
		node     int
		requests fleet.Amounts
	}
	var pods []entry
	for i, n := range nodes {
		for _, g := range n.Ending {
			for range g.Count {
				pods = append(pods, entry{i, g.Requests})
			}
		}
	}
	for set := range 1 << len(pods) {
		now := fit.Clone(nodes)
		for i, p := range pods {
			if set>>i&1 == 0 {
				continue
			}
			for name, n := range p.requests {
				now[p.node].Free[name] -= n
			}
		}
		if !f(now) {
			return false
		}
	}
	return true
}

// scheduled calls f for all ways in which some of the pods are scheduled on nodes, until it returns false.
func scheduled(nodes []fleet.Node, pods []fit.Pod, f func([]fleet.Node) bool) bool {
	if len(pods) == 0 {
		return f(nodes)
	}
	if !scheduled(nodes, pods[1:], f) {
		return false
	}
	for i := range nodes {
		one := fit.Clone(nodes)
		if fit.Reserve(one[i:i+1], pods[0], 1) == 0 && !scheduled(one, pods[1:], f) {
			return false
		}
	}
	return true
}

func BenchmarkSpares(b *testing.B) {
	var nodes []fleet.Node
	for i := range 1000 {
		n := node(fmt.Sprint(i), "cpu", "64", "nvidia.com/gpu", "8")
		nodes = append(nodes, holding(holding(n, 1, "cpu", "8", "nvidia.com/gpu", "4"), 2, "cpu", "4"))
	}
	other, small := gang(500, "cpu", "16", "nvidia.com/gpu", "8"), gang(4, "cpu", "1")
	for b.Loop() {
		if !fit.Spares(nodes, other, small, nil) {
			b.Fatal("it is refused")
		}
	}
}
