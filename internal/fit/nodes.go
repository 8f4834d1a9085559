package fit

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/minifleet/minifleet/internal/fleet"
)

// NodeFit is what a node has for a gang.
type NodeFit struct {
	// Name of the node.
	Name string
	// Pods is how many pods of the gang are laid on the node, as a scheduler might that spreads them; Takes is how many it
	// has room for. Beside says that the pod of services is laid there.
	Pods, Takes int
	Beside      bool
	// CPU in millicores, memory in bytes and GPUs, before anything of the gang is laid on the node.
	CPU, Memory, GPUs Share
	// Lacks is what a node lacks for one more pod that has room for none, or that is Nearest: "2 CPU and 1Gi memory". Nearest
	// is the node that lacks least where the gang does not fit, be it for the pod of services; one at most.
	Lacks   string
	Nearest bool
	// Excluded is why the node would not be chosen however much room it had: "cordoned", "tainted KEY:EFFECT", "without the
	// labels asked for"; empty if it would.
	Excluded string
}

// Share is how much of a resource a node has, how much of that is used, reserved for others included, and what is free: less
// than nothing where more is used than there is.
type Share struct{ Used, Free, Total int64 }

// Nodes lays a gang on nodes, in the order of these. As many pods are laid as Check says that fit.
func Nodes(nodes []fleet.Node, g Gang) []NodeFit {
	out, counts := make([]NodeFit, len(nodes)), make([]int, len(nodes))
	total := 0
	for i := range nodes {
		n := &nodes[i]
		out[i] = NodeFit{
			Name: n.Name, Excluded: g.Pod.refuses(n), CPU: shareOf(n, is(corev1.ResourceCPU)),
			Memory: shareOf(n, is(corev1.ResourceMemory)), GPUs: shareOf(n, fleet.IsGPU),
		}
		if out[i].Excluded != "" {
			continue
		}
		counts[i] = g.Pod.count(n.Free)
		out[i].Takes = counts[i]
		if total += counts[i]; counts[i] == 0 {
			out[i].Lacks = lacking(n, g.Pod)
		}
	}
	beside := -1
	if g.Beside != nil && total >= g.Size {
		if beside = nodeBeside(nodes, counts, total, g); beside >= 0 {
			out[beside].Beside = true
		}
	}
	for i, n := range laid(nodes, counts, beside, g) {
		out[i].Pods = n
	}
	switch {
	case total < g.Size:
		mark(out, nearestOf(nodes, counts, g.Pod))
	case g.Beside != nil && beside < 0:
		mark(out, nearestOf(reserved(nodes, g), make([]int, len(nodes)), *g.Beside))
	}
	return out
}

// laid is how many pods of a gang each node gets, beside the pod of services on one of them; -1 for none.
func laid(nodes []fleet.Node, counts []int, beside int, g Gang) []int {
	room := slices.Clone(counts)
	if beside >= 0 {
		room[beside] = g.countBeside(&nodes[beside])
	}
	return spread(room, g.Size)
}

// mark says what the nearest node lacks.
func mark(out []NodeFit, s *shortage) {
	if s == nil {
		return
	}
	i := slices.IndexFunc(out, func(n NodeFit) bool { return n.Name == s.node })
	out[i].Nearest, out[i].Lacks = true, s.amounts()
}

// lacking is what a node lacks that takes no pod.
func lacking(n *fleet.Node, p Pod) string {
	s := lack(n, 0, p)
	return s.amounts()
}

func is(name corev1.ResourceName) func(corev1.ResourceName) bool {
	return func(other corev1.ResourceName) bool { return other == name }
}

// shareOf sums resources of a node.
func shareOf(n *fleet.Node, counts func(corev1.ResourceName) bool) Share {
	sum := func(amounts fleet.Amounts) (out int64) {
		for name, n := range amounts {
			if counts(name) {
				out += n
			}
		}
		return out
	}
	total := n.Allocatable
	if total == nil {
		total = n.Total
	}
	s := Share{Free: sum(n.Free), Total: sum(total)}
	s.Used = s.Total - s.Free
	return s
}
