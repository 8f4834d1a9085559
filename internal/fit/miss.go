package fit

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/minifleet/minifleet/internal/fleet"
)

// shortage is what a node lacks for one more pod.
type shortage struct {
	node   string
	lacks  fleet.Amounts
	degree float64 // the worst of lacking/requested
}

// nearest tells which node is nearest to taking one more pod, after it has taken as many as fit.
func nearest(nodes []fleet.Node, counts []int, p Pod, excluded *reasons) string {
	best := nearestOf(nodes, counts, p)
	if best == nil {
		return excluded.none()
	}
	return best.String() + excluded.some()
}

// nearestOf is what the node lacks that is nearest to taking one more pod; nil if none may.
func nearestOf(nodes []fleet.Node, counts []int, p Pod) *shortage {
	var best *shortage
	for i := range nodes {
		if p.refuses(&nodes[i]) != "" {
			continue
		}
		s := lack(&nodes[i], counts[i], p)
		if best == nil || s.degree < best.degree || s.degree == best.degree && s.node < best.node {
			best = &s
		}
	}
	return best
}

// nearestBeside tells which node is nearest to taking the pod beside a gang that would fit without it.
func nearestBeside(nodes []fleet.Node, g Gang) string {
	rest := reserved(nodes, g)
	excluded := newReasons(len(rest))
	for i := range rest {
		if why := g.Beside.refuses(&rest[i]); why != "" {
			excluded.add(why)
		}
	}
	return nearest(rest, make([]int, len(rest)), *g.Beside, excluded)
}

// reserved are nodes on which a gang is laid, without the pod beside it.
func reserved(nodes []fleet.Node, g Gang) []fleet.Node {
	rest := Clone(nodes)
	Reserve(rest, g.Pod, g.Size)
	return rest
}

func lack(n *fleet.Node, count int, p Pod) shortage {
	s := shortage{node: n.Name, lacks: fleet.Amounts{}}
	for name, want := range p.Requests {
		if short := want - (n.Free[name] - int64(count)*want); short > 0 {
			s.lacks[name] = short
			s.degree = max(s.degree, float64(short)/float64(want))
		}
	}
	return s
}

func (s *shortage) String() string { return s.amounts() + " short on " + s.node }

// amounts is what is lacking, for people.
func (s *shortage) amounts() string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(s.lacks)) {
		parts = append(parts, Describe(name, s.lacks[name]))
	}
	return strings.Join(parts, " and ")
}

// Describe writes an amount for people, rounded up to what they can use: "2.5 CPU", "512Mi memory".
func Describe(name corev1.ResourceName, n int64) string {
	switch name {
	case corev1.ResourceCPU:
		return fleet.Cores(n) + " CPU"
	case corev1.ResourceMemory, corev1.ResourceEphemeralStorage:
		return fleet.Bytes(n, math.Ceil) + " " + string(name)
	case corev1.ResourcePods:
		return fmt.Sprintf("%d pods (the limit of the node)", n)
	default:
		return fmt.Sprintf("%d %s", n, name)
	}
}
