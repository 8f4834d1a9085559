package placement

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/internal/fleet"
)

// best and worst bound what a prioritizer scores.
const best, worst = 100, -100

// scorer scores members: the higher, the better. The text, which is made of chosen members alone, tells what the score follows
// from.
type scorer interface {
	score(c Candidate) int32
	text(c Candidate) string
}

// weighed is a scorer with its weight.
type weighed struct {
	name   string
	weight int32
	scorer
}

// scores are the prioritizers that have a weight.
type scores []weighed

// newScores prepares the prioritizers of a placement for the members that may be chosen.
func newScores(in Input, cs []Candidate) scores {
	var out scores
	steady := in.Spec.PrioritizerPolicy.Mode != v1alpha1.PrioritizersExact
	for _, c := range in.Spec.PrioritizerPolicy.Configurations {
		weight := int32(1)
		if c.Weight != nil {
			weight = *c.Weight
		}
		at := c.ScoreCoordinate
		if at.Type != v1alpha1.ScoreLabel && at.BuiltIn == v1alpha1.Steady {
			steady = false
		}
		if weight != 0 {
			out = append(out, weighed{name: nameOf(at), weight: weight, scorer: scorerFor(in, at, weight, cs)})
		}
	}
	if steady {
		out = append(out, weighed{name: string(v1alpha1.Steady), weight: 1, scorer: steadyScore(in.Prefer)})
	}
	return out
}

func nameOf(at v1alpha1.ScoreCoordinate) string {
	if at.Type == v1alpha1.ScoreLabel {
		return "label " + at.Label
	}
	return string(at.BuiltIn)
}

func scorerFor(in Input, at v1alpha1.ScoreCoordinate, weight int32, cs []Candidate) scorer {
	switch {
	case at.Type == v1alpha1.ScoreLabel:
		return newCost(at.Label, cs)
	case at.BuiltIn == v1alpha1.Balance:
		return newBalance(cs)
	case freeOf[at.BuiltIn].of != nil:
		return newFree(in, freeOf[at.BuiltIn], weight, cs)
	default:
		return steadyScore(in.Prefer)
	}
}

// ByFree says whether members are scored by what they have free: else Room.Free is no matter.
func ByFree(policy v1alpha1.PrioritizerPolicy) bool {
	return slices.ContainsFunc(policy.Configurations, func(c v1alpha1.PrioritizerConfig) bool {
		return c.ScoreCoordinate.Type != v1alpha1.ScoreLabel && freeOf[c.ScoreCoordinate.BuiltIn].of != nil
	})
}

// sum is that of weight × score.
func (s scores) sum(c Candidate) int32 {
	var sum int32
	for _, w := range s {
		sum += w.weight * w.score(c)
	}
	return sum
}

// of is the sum, and what it is made of.
func (s scores) of(c Candidate) (int32, string) {
	var parts []string
	for _, w := range s {
		score, why := w.score(c), w.text(c)
		part := fmt.Sprintf("%s %d", w.name, score)
		if w.weight != 1 {
			part = fmt.Sprintf("%s %d×%d", w.name, w.weight, score)
		}
		if why != "" {
			part += " (" + why + ")"
		}
		parts = append(parts, part)
	}
	if len(parts) == 0 {
		return 0, "no prioritizer has a weight"
	}
	return s.sum(c), strings.Join(parts, ", ")
}

// steadyScore prefers where an earlier run was placed.
type steadyScore []string

func (s steadyScore) score(c Candidate) int32 {
	if slices.Contains(s, c.Name) {
		return best
	}
	return 0
}

func (s steadyScore) text(c Candidate) string {
	if slices.Contains(s, c.Name) {
		return "placed here before"
	}
	return ""
}

// balance prefers members with few live runs.
type balance struct{ most int }

func newBalance(cs []Candidate) balance {
	b := balance{}
	for _, c := range cs {
		b.most = max(b.most, c.Runs)
	}
	return b
}

func (b balance) score(c Candidate) int32 { return share(int64(b.most-c.Runs), int64(b.most), best) }

func (b balance) text(c Candidate) string {
	return fmt.Sprintf("%d of at most %d live runs", c.Runs, b.most)
}

// share scales part/whole to worst..best; of nothing it is what the caller says.
func share(part, whole int64, ofNothing int32) int32 {
	if whole <= 0 {
		return ofNothing
	}
	// Not in integers: bytes times 200 overflow.
	return worst + int32(float64(best-worst)*(float64(part)/float64(whole)))
}

// resourceOf is a resource that members may have free.
type resourceOf struct {
	of   func(*Free) int64
	text func(int64) string
}

var freeOf = map[v1alpha1.Prioritizer]resourceOf{
	v1alpha1.FreeCPU: {
		func(f *Free) int64 { return f.CPU },
		func(n int64) string { return fleet.Cores(n) + " CPU" },
	},
	v1alpha1.FreeMemory: {
		func(f *Free) int64 { return f.Memory },
		func(n int64) string { return fleet.Bytes(n, math.Floor) + " memory" },
	},
	v1alpha1.FreeGPU: {
		func(f *Free) int64 { return f.GPU },
		func(n int64) string { return fmt.Sprintf("%d GPUs", n) },
	},
}

// freeScore prefers members with much that is free, on nodes that the pods may use.
type freeScore struct {
	in   Input
	what resourceOf
	most int64
	hope int32 // the score of a member that is not known yet: it may be before all others
}

func newFree(in Input, what resourceOf, weight int32, cs []Candidate) freeScore {
	s := freeScore{in: in, what: what, hope: best + 1}
	if weight < 0 {
		s.hope = worst - 1
	}
	for _, c := range cs {
		if n, ok := s.free(c); ok {
			s.most = max(s.most, n)
		}
	}
	return s
}

// free is what a member has free, if that is known. Of one that is unfit it is not asked.
func (s freeScore) free(c Candidate) (int64, bool) {
	if c.Unfit != "" {
		return 0, false
	}
	f := s.in.Room(c.Name).Free
	if f == nil {
		return 0, false
	}
	return max(s.what.of(f), 0), true
}

func (s freeScore) score(c Candidate) int32 {
	n, ok := s.free(c)
	switch {
	case s.in.awaits(c):
		return s.hope
	case !ok:
		return 0
	}
	return share(n, s.most, 0)
}

func (s freeScore) text(c Candidate) string {
	n, ok := s.free(c)
	switch {
	case s.in.awaits(c):
		return "not known yet"
	case !ok:
		return "not known"
	}
	return s.what.text(n) + " free"
}

// cost prefers members whose label has a low number. It is counted in thousandths.
type cost struct {
	key  string
	most int64
}

func newCost(key string, cs []Candidate) cost {
	s := cost{key: key}
	for _, c := range cs {
		if n, ok := s.of(c); ok {
			s.most = max(s.most, n)
		}
	}
	return s
}

func (s cost) of(c Candidate) (int64, bool) {
	text, ok := c.Labels[s.key]
	if !ok {
		return 0, false
	}
	q, err := resource.ParseQuantity(text)
	if err != nil || q.Sign() < 0 {
		return 0, false
	}
	return q.MilliValue(), true
}

func (s cost) score(c Candidate) int32 {
	n, ok := s.of(c)
	if !ok {
		return worst
	}
	return share(s.most-n, s.most, best)
}

func (s cost) text(c Candidate) string {
	text, labelled := c.Labels[s.key]
	_, ok := s.of(c)
	switch {
	case !labelled:
		return "no such label"
	case !ok:
		return text + " is no number from 0 on"
	default:
		return text
	}
}

func weight(key, member string) uint64 {
	sum := sha256.Sum256([]byte(key + "\x00" + member))
	return binary.BigEndian.Uint64(sum[:8])
}
