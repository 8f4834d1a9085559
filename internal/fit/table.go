package fit

import (
	"maps"

	corev1 "k8s.io/api/core/v1"

	"github.com/minifleet/minifleet/internal/fleet"
)

// Table is nodes that are prepared for many gangs to be checked against them: what they have is kept by resource, and nodes
// with the same taints are asked once. It is a value: nothing in it changes, and the nodes may not be changed either.
type Table struct {
	// Nodes are those that it was made of.
	Nodes []fleet.Node

	free, total map[corev1.ResourceName][]int64 // by node
	class       []int                           // of each node
	classes     []*fleet.Node                   // one of each class: those of it do not differ in what repels pods
}

// NewTable prepares nodes.
func NewTable(nodes []fleet.Node) *Table {
	t := &Table{
		Nodes: nodes, free: map[corev1.ResourceName][]int64{}, total: map[corev1.ResourceName][]int64{}, class: make([]int, len(nodes)),
	}
	for i := range nodes {
		fill(t.free, i, len(nodes), nodes[i].Free)
		fill(t.total, i, len(nodes), nodes[i].Total)
		t.class[i] = t.classOf(&nodes[i])
	}
	return t
}

func fill(columns map[corev1.ResourceName][]int64, i, nodes int, amounts fleet.Amounts) {
	for name, n := range amounts {
		c := columns[name]
		if c == nil {
			c = make([]int64, nodes)
			columns[name] = c
		}
		c[i] = n
	}
}

// classOf is the class of a node, which is added where it is a new one.
func (t *Table) classOf(n *fleet.Node) int {
	for i, c := range t.classes {
		if sameTaints(c, n) {
			return i
		}
	}
	t.classes = append(t.classes, n)
	return len(t.classes) - 1
}

func sameTaints(a, b *fleet.Node) bool {
	if a.Unschedulable != b.Unschedulable || len(a.Taints) != len(b.Taints) {
		return false
	}
	for i := range a.Taints {
		x, y := &a.Taints[i], &b.Taints[i]
		if x.Key != y.Key || x.Value != y.Value || x.Effect != y.Effect {
			return false
		}
	}
	return true
}

// Check is what the function of this name says of the nodes. What is free counts for resources that a node has.
func (t *Table) Check(g Gang) Result {
	excluded := newReasons(len(t.Nodes))
	counts := t.counts(&g.Pod, t.free, excluded)
	free := make(fleet.Amounts, len(t.free))
	for name, column := range t.free {
		sum := int64(0)
		for i, n := range counts {
			if n > 0 {
				sum += column[i]
			}
		}
		free[name] = sum
	}
	maps.DeleteFunc(free, func(_ corev1.ResourceName, n int64) bool { return n == 0 })
	return g.result(t.Nodes, counts, excluded, free)
}

// Holds is what the function of this name says of the nodes.
func (t *Table) Holds(g Gang) bool {
	if g.Beside != nil {
		return Holds(t.Nodes, g)
	}
	total := 0
	for _, n := range t.counts(&g.Pod, t.total, nil) {
		total += n
	}
	return total >= g.Size
}

// counts is how many pods each node takes of what it has, and why some take none; nil if nobody asks.
func (t *Table) counts(p *Pod, has map[corev1.ResourceName][]int64, excluded *reasons) []int {
	repelled := make([]string, len(t.classes))
	for i, n := range t.classes {
		repelled[i] = p.repelled(n)
	}
	out := make([]int, len(t.Nodes))
	chooses := p.spec != nil && (len(p.spec.NodeSelector) > 0 || p.spec.Affinity != nil)
	for i, class := range t.class {
		why := repelled[class]
		if why == "" && chooses && !p.selects(&t.Nodes[i]) {
			why = "without the labels asked for"
		}
		switch {
		case why == "":
			out[i] = -1 // as many as it has room for
		case excluded != nil:
			excluded.add(why)
		}
	}
	for name, n := range p.Requests {
		fewest(out, has[name], n)
	}
	for i := range out {
		out[i] = max(out[i], 0)
	}
	return out
}

// fewest lowers the counts to how often a request fits into what nodes have: nothing, where that is nil.
func fewest(counts []int, has []int64, request int64) {
	for i, n := range counts {
		switch {
		case n == 0:
		case has == nil || has[i] < request:
			counts[i] = 0
		case n < 0 || int64(n)*request > has[i]:
			counts[i] = int(has[i] / request)
		}
	}
}
