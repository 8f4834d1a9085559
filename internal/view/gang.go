package view

import (
	"cmp"
	"slices"

	"github.com/minifleet/minifleet/internal/fit"
	"github.com/minifleet/minifleet/internal/fleet"
)

// maxGangNodes is how many nodes a gang is drawn on.
const maxGangNodes = 200

// GangOf lays a gang on the nodes of a member, with what is free there for it.
func GangOf(member string, nodes []fleet.Node, g fit.Gang) GangFit {
	result := fit.Check(nodes, g)
	out := GangFit{
		Member: member, Pods: int32(g.Size), Fits: int32(result.Pods), Each: amountOf(g.Pod.Requests), //nolint:gosec // it was made of an int32
		Nodes: []NodeFit{}, Total: len(nodes),
	}
	for _, n := range fit.Nodes(nodes, g) {
		out.Nodes = append(out.Nodes, nodeFit(n))
		if n.Nearest && result.Pods >= g.Size {
			out.Beside = n.Lacks + " on " + n.Name
		}
	}
	slices.SortStableFunc(out.Nodes, func(a, b NodeFit) int {
		return cmp.Or(cmp.Compare(b.Pods, a.Pods), truth(b.Nearest, a.Nearest), truth(a.Excluded != "", b.Excluded != ""))
	})
	out.Nodes = slices.Clip(out.Nodes[:min(len(out.Nodes), maxGangNodes)])
	return out
}

// truth compares: false comes before true.
func truth(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	default:
		return 1
	}
}

func nodeFit(n fit.NodeFit) NodeFit {
	amount := func(of func(fit.Share) int64) Amount {
		return Amount{CPU: float64(of(n.CPU)) / 1000, Memory: float64(of(n.Memory)), GPUs: float64(of(n.GPUs))}
	}
	return NodeFit{
		Node: n.Name, Pods: int32(n.Pods), Nearest: n.Nearest, Lacks: n.Lacks, Excluded: n.Excluded, //nolint:gosec // it was made of an int32
		Free: amount(func(s fit.Share) int64 { return s.Free }), Total: amount(func(s fit.Share) int64 { return s.Total }),
	}
}

// NearestFirst sorts gangs by how many of their pods lack room, those whose nodes are not known last, and keeps so many.
func NearestFirst(gangs []GangFit, most int) []GangFit {
	slices.SortStableFunc(gangs, func(a, b GangFit) int {
		return cmp.Or(truth(a.Unknown != "", b.Unknown != ""), cmp.Compare(a.Pods-a.Fits, b.Pods-b.Fits), truth(a.Beside != "", b.Beside != ""))
	})
	return gangs[:min(len(gangs), most)]
}

// WithoutNodes is a gang for those who may not see members: how much of it fits, and not on what.
func (g GangFit) WithoutNodes() GangFit {
	g.Nodes, g.Total = []NodeFit{}, 0
	return g
}
