package placement

import (
	"fmt"

	"github.com/minifleet/minifleet/api/v1alpha1"
)

// spread keeps count of what was chosen for each value of the labels to spread over.
type spread []*topology

// topology is one constraint, and how many members are chosen for each value of its label. A value is in
// the map if a member that may be chosen has it, whether or not that member is fit.
type topology struct {
	v1alpha1.SpreadConstraint
	chosen map[string]int
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
		}
	}
}

// skews says whether one more member with this value would make the skew greater than allowed.
func (t *topology) skews(c Candidate) bool {
	value, ok := c.Labels[t.TopologyKey]
	if !ok {
		return true
	}
	fewest := t.chosen[value]
	for _, n := range t.chosen {
		fewest = min(fewest, n)
	}
	return t.chosen[value]+1-fewest > int(t.MaxSkew)
}

// first is the index of the next candidate: the first in the given order, after those are set back that
// a constraint is against. What a constraint forbids comes last.
func (s spread) first(rest []ranked) int {
	found, least := 0, -1
	for i, r := range rest {
		if n := s.against(r); least < 0 || n < least {
			found, least = i, n
		}
		if least == 0 {
			break
		}
	}
	return found
}

// against counts what speaks against a candidate, so that a constraint outweighs all after it. What comes
// last outweighs those that may be broken, and what is forbidden outweighs everything.
func (s spread) against(r ranked) int {
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
	if s.forbids(r.Candidate) != "" {
		n |= 1 << (2*len(s) + 2)
	}
	return n
}

// forbids is why a constraint does not allow a candidate now; empty if all do.
func (s spread) forbids(c Candidate) string {
	for _, t := range s {
		if t.WhenUnsatisfiable != v1alpha1.DoNotSchedule || !t.skews(c) {
			continue
		}
		value, ok := c.Labels[t.TopologyKey]
		if !ok {
			return fmt.Sprintf("it has no label %s to spread over (DoNotSchedule)", t.TopologyKey)
		}
		return fmt.Sprintf("one more with %s=%s would exceed maxSkew %d (DoNotSchedule)", t.TopologyKey, value, t.MaxSkew)
	}
	return ""
}
