package placement

import (
	"fmt"
	"iter"
	"slices"
	"strconv"

	"github.com/minifleet/minifleet/api/v1alpha1"
)

// spread keeps count of what was chosen for each value of the labels to spread over.
type spread []*topology

// topology is one constraint, and how many members are chosen for each value of its label. A value is in
// the map if a member that may be chosen has it, whether or not that member is fit.
type topology struct {
	v1alpha1.SpreadConstraint
	chosen map[string]int
	fewest int // of chosen
}

// newSpread counts the members to keep as chosen.
func newSpread(in Input, matching []Candidate) spread {
	var s spread
	for _, c := range in.Spec.SpreadPolicy.SpreadConstraints {
		t := &topology{SpreadConstraint: c, chosen: map[string]int{}}
		t.MaxSkew = max(t.MaxSkew, 1)
		for _, m := range matching {
			if value, ok := m.Labels[t.TopologyKey]; ok {
				t.chosen[value] += 0
			}
		}
		s = append(s, t)
	}
	if len(s) == 0 {
		return s
	}
	for _, name := range in.Keep {
		for _, c := range in.Candidates {
			if c.Name == name {
				s.add(c)
			}
		}
	}
	return s
}

func (s spread) add(c Candidate) {
	for _, t := range s {
		if value, ok := c.Labels[t.TopologyKey]; ok {
			t.chosen[value]++
			t.fewest = t.chosen[value]
			for _, n := range t.chosen {
				t.fewest = min(t.fewest, n)
			}
		}
	}
}

// skews says whether one more member with this value would make the skew greater than allowed.
func (t *topology) skews(c Candidate) bool {
	value, ok := c.Labels[t.TopologyKey]
	if !ok {
		return true
	}
	return t.chosen[value]+1-min(t.fewest, t.chosen[value]) > int(t.MaxSkew)
}

// order is that in which candidates have their turn: the first in the order of rank, after those are set back that a
// constraint is against. What a constraint forbids comes last.
type order struct {
	spread spread
	rest   []*ranked
	// groups are the indices, in rest, of those for which each constraint says the same whatever else is chosen.
	groups [][]int
	left   int
}

// order has all candidates, which are in the order of rank.
func (s spread) order(rest []*ranked) *order {
	o := &order{spread: s, rest: rest, left: len(rest)}
	if len(s) == 0 {
		all := make([]int, len(rest))
		for i := range rest {
			all[i] = i
		}
		o.groups = [][]int{all}
		return o
	}
	known := map[string]int{}
	for i := range rest {
		key := s.group(rest[i])
		g, ok := known[key]
		if !ok {
			g = len(o.groups)
			known[key], o.groups = g, append(o.groups, nil)
		}
		o.groups[g] = append(o.groups[g], i)
	}
	return o
}

// group is the same for candidates that constraints do not tell apart.
func (s spread) group(r *ranked) string {
	key := []byte(strconv.Itoa(r.last))
	for _, t := range s {
		value, ok := r.Labels[t.TopologyKey]
		if ok {
			key = append(key, '=')
		}
		key = append(append(key, value...), 0)
	}
	return string(key)
}

// next takes the next candidate. There is one.
func (o *order) next() *ranked {
	found, least := -1, 0
	for g, all := range o.groups {
		if len(all) == 0 {
			continue
		}
		n := o.spread.against(o.rest[all[0]])
		if found < 0 || n < least || n == least && all[0] < o.groups[found][0] {
			found, least = g, n
		}
	}
	i := o.groups[found][0]
	o.groups[found] = o.groups[found][1:]
	o.left--
	return o.rest[i]
}

// others are those that are left, group by group.
func (o *order) others() iter.Seq[Candidate] {
	return func(yield func(Candidate) bool) {
		for _, all := range o.groups {
			for _, i := range all {
				if !yield(o.rest[i].Candidate) {
					return
				}
			}
		}
	}
}

// names are those of the first that are left, no more than most, in the order of rank.
func (o *order) names(most int) []string {
	var all []int
	for _, g := range o.groups {
		all = append(all, g[:min(len(g), most)]...)
	}
	slices.Sort(all)
	out := make([]string, 0, min(len(all), most))
	for _, i := range all[:min(len(all), most)] {
		out = append(out, o.rest[i].Name)
	}
	return out
}

// against counts what speaks against a candidate, so that a constraint outweighs all after it. What comes
// last outweighs those that may be broken, and what is forbidden outweighs everything.
func (s spread) against(r *ranked) int {
	n := 0
	for _, t := range s {
		n <<= 2
		if _, labelled := r.Labels[t.TopologyKey]; !labelled {
			n |= 2
		} else if t.skews(r.Candidate) {
			n |= 1
		}
	}
	n |= r.last << (2 * len(s)) // two bits
	if s.forbids(r.Candidate) != nil {
		n |= 1 << (2*len(s) + 2)
	}
	return n
}

// forbids is the constraint that does not allow a candidate now; nil if all do.
func (s spread) forbids(c Candidate) *topology {
	for _, t := range s {
		if t.WhenUnsatisfiable == v1alpha1.DoNotSchedule && t.skews(c) {
			return t
		}
	}
	return nil
}

// whyNot says why a constraint does not allow a candidate.
func (t *topology) whyNot(c Candidate) string {
	value, ok := c.Labels[t.TopologyKey]
	if !ok {
		return fmt.Sprintf("it has no label %s to spread over (DoNotSchedule)", t.TopologyKey)
	}
	return fmt.Sprintf("one more with %s=%s would exceed maxSkew %d (DoNotSchedule)", t.TopologyKey, value, t.MaxSkew)
}
