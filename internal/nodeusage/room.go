package nodeusage

import (
	"maps"
	"slices"
	"strings"

	"github.com/minifleet/minifleet/internal/fleet"
)

// Room is what a member has free, node by node. Nothing in it may be changed, nor does it change.
type Room struct {
	State State
	// Nodes are sorted by name; there are none unless State is Known.
	Nodes []fleet.Node

	scheduled map[string]fleet.Scheduled
}

// Scheduled tells how many pods of a run have a node.
func (r *Room) Scheduled(run string) fleet.Scheduled { return r.scheduled[run] }

// Room returns what is free now. What the pods of the runs given use counts as free.
func (s *Sums) Room(without ...string) *Room {
	without = slices.DeleteFunc(slices.Clone(without), func(run string) bool { return s.runs[run] == (fleet.Scheduled{}) })
	if s.room != nil && len(without) == 0 {
		return s.room
	}
	r := &Room{State: s.State(), scheduled: maps.Clone(s.runs)}
	if r.State == Known {
		r.Nodes = s.rooms(s.usedBy(without))
	}
	if len(without) == 0 {
		s.room = r
	}
	return r
}

// usedBy sums, by node, what the pods of these runs use.
func (s *Sums) usedBy(runs []string) map[string]*usage {
	if len(runs) == 0 {
		return nil
	}
	out := map[string]*usage{}
	for _, p := range s.pods {
		if p.run == "" || !slices.Contains(runs, p.run) {
			continue
		}
		if out[p.at.node] == nil {
			out[p.at.node] = newUsage(p.at.node)
		}
		out[p.at.node].add(&p, 1)
	}
	return out
}

// rooms lists nodes by name. What is in freed counts as free.
func (s *Sums) rooms(freed map[string]*usage) []fleet.Node {
	out := make([]fleet.Node, 0, len(s.nodes))
	for _, n := range s.nodes {
		r := fleet.Node{Name: n.name, Labels: n.labels, Taints: n.taints, Unschedulable: !n.schedulable, Allocatable: n.total, Total: n.total, Free: n.total}
		if u := s.used[n.name]; u != nil {
			r.Total, r.Free = less(n.total, u.fixed), less(n.total, u.all)
			groups, ok := u.listed()
			r.Ending, r.EndingOmitted = groups, !ok
			if f := freed[n.name]; f != nil {
				r.Ending = remaining(groups, f)
				for name, amount := range f.all {
					r.Free[name] += amount
				}
			}
		}
		out = append(out, r)
	}
	slices.SortFunc(out, func(a, b fleet.Node) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// remaining are groups less the pods that count as ended.
func remaining(groups []fleet.PodGroup, ended *usage) []fleet.PodGroup {
	out := make([]fleet.PodGroup, 0, len(groups))
	for _, g := range groups {
		for _, e := range groupsOf(ended.ending) {
			if maps.Equal(e.Requests, g.Requests) {
				g.Count -= e.Count
			}
		}
		if g.Count > 0 {
			out = append(out, g)
		}
	}
	return out
}

func less(total, used fleet.Amounts) fleet.Amounts {
	out := maps.Clone(total)
	for name, amount := range used {
		out[name] -= amount
	}
	return out
}
