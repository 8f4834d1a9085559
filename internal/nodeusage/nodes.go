package nodeusage

import (
	"iter"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/minifleet/minifleet/internal/fleet"
)

// node is what is kept of a node.
type node struct {
	name        string
	schedulable bool
	amount      amount
	total       fleet.Amounts
	labels      map[string]string
	taints      []corev1.Taint
}

func nodeFrom(n *corev1.Node) *node {
	return &node{
		name: n.Name, schedulable: !n.Spec.Unschedulable, amount: amountOf(n.Status.Allocatable),
		total: fleet.AmountsOf(n.Status.Allocatable), labels: n.Labels, taints: n.Spec.Taints,
	}
}

// Reduce is a node with nothing but what is kept of it.
func Reduce(n *corev1.Node) *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: n.Name, UID: n.UID, Labels: n.Labels},
		Spec:       corev1.NodeSpec{Unschedulable: n.Spec.Unschedulable, Taints: n.Spec.Taints},
		Status:     corev1.NodeStatus{Allocatable: n.Status.Allocatable},
	}
}

// same says whether nothing has changed that is kept of a node: most updates of nodes are heartbeats.
func (n *node) same(o *node) bool {
	return n.name == o.name && n.schedulable == o.schedulable && maps.Equal(n.total, o.total) && maps.Equal(n.labels, o.labels) &&
		slices.EqualFunc(n.taints, o.taints, func(a, b corev1.Taint) bool { return a.MatchTaint(&b) && a.Value == b.Value })
}

// SetNode adds or replaces a node. Its labels and taints are kept, not copied.
func (s *Sums) SetNode(n *corev1.Node) (changed bool) { return s.setNode(n.UID, nodeFrom(n)) }

// RemoveNode removes a node.
func (s *Sums) RemoveNode(uid types.UID) (changed bool) { return s.setNode(uid, nil) }

// ReplaceNodes takes a list of all nodes.
func (s *Sums) ReplaceNodes(nodes iter.Seq[*corev1.Node]) (changed bool) {
	s.nodes = map[types.UID]node{}
	for n := range nodes {
		s.SetNode(n)
	}
	s.listed[Nodes] = true
	return s.touch()
}

// setNode replaces a node, or removes it where next is nil.
func (s *Sums) setNode(uid types.UID, next *node) (changed bool) {
	old, had := s.nodes[uid]
	if next != nil && had && next.same(&old) {
		return false
	}
	delete(s.nodes, uid)
	if next != nil {
		s.nodes[uid] = *next
	}
	return s.touch()
}
