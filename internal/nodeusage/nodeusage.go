// Package nodeusage sums what the nodes of a member have and what the pods on them ask for. Nodes and pods come in
// as they are listed and watched, in any order; out go what is free on each node (Room), how many pods of a run
// have a node, and the totals that a MemberCluster shows. It is pure: its caller brings the objects, and the lock.
//
// Of each pod only its requests and its node are kept: about 200 bytes, whatever the size of the pod. Of each node
// it is labels, taints and sums.
package nodeusage

import (
	"fmt"

	"k8s.io/apimachinery/pkg/types"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/internal/fleet"
)

// State says what is known of a member's free room.
type State string

// Values of State.
const (
	// Known says that Room.Nodes are all nodes.
	Known State = "Known"
	// Unknown says that nothing is known and nothing will be: nodes are not observed, the credentials do not show
	// them or the pods, or the member has no node at all until it needs one.
	Unknown State = "Unknown"
	// Pending says that nodes and pods have not been listed yet.
	Pending State = "Pending"
)

// Kind is one of the two that Sums are made from.
type Kind int

// Values of Kind.
const (
	Nodes Kind = iota
	Pods
)

// Sums are those of one member. Methods that change them say whether anything is different now. They are not for
// use by several goroutines at once.
type Sums struct {
	unobserved bool
	nodes      map[types.UID]node
	pods       map[types.UID]pod
	listed     [2]bool                    // by Kind
	denied     [2]bool                    // by Kind
	used       map[string]*usage          // by the name of the node
	runs       map[string]fleet.Scheduled // by the id of the run
	room       *Room                      // the last one made, until something changes
}

// New returns the sums of a member of which nothing has been listed. Where nodes and pods are not observed,
// nothing ever is.
func New(observed bool) *Sums {
	return &Sums{
		unobserved: !observed, nodes: map[types.UID]node{}, pods: map[types.UID]pod{},
		used: map[string]*usage{}, runs: map[string]fleet.Scheduled{},
	}
}

// SetDenied notes whether the credentials may not list or watch a kind.
func (s *Sums) SetDenied(kind Kind, denied bool) (changed bool) {
	if s.denied[kind] == denied {
		return false
	}
	s.denied[kind] = denied
	return s.touch()
}

// Complete says whether both kinds have been listed.
func (s *Sums) Complete() bool { return s.listed[Nodes] && s.listed[Pods] }

// State says what is known.
func (s *Sums) State() State {
	switch {
	case s.unobserved, s.denied[Nodes], s.denied[Pods]:
		return Unknown
	case !s.Complete():
		return Pending
	case len(s.nodes) == 0:
		return Unknown
	default:
		return Known
	}
}

// touch drops what was made from the sums as they were.
func (s *Sums) touch() (changed bool) {
	s.room = nil
	return true
}

// Capacity returns the totals for people: what is free of what schedulable nodes have. Pods on a cordoned node take
// no room from the others.
func (s *Sums) Capacity() *v1alpha1.MemberCapacity {
	total, used := s.totals()
	out := &v1alpha1.MemberCapacity{
		Nodes:  int32(len(s.nodes)), //nolint:gosec // a cluster has far fewer than 2³¹ nodes
		CPU:    cores(total.cpu-used.cpu) + "/" + cores(total.cpu),
		Memory: binary(total.memory-used.memory) + "/" + binary(total.memory),
	}
	if total.gpu > 0 {
		out.GPUs = fmt.Sprintf("%d/%d", total.gpu-used.gpu, total.gpu)
	}
	return out
}

func (s *Sums) totals() (total, used amount) {
	for _, n := range s.nodes {
		if n.schedulable {
			total.add(n.amount)
			if u := s.used[n.name]; u != nil {
				used.add(u.amount())
			}
		}
	}
	return total, used
}
