// Package placement decides which members run a MiniCluster. It is pure: what comes in (Input) are the Placement, the
// members, those that a run keeps, and how it fits on each; what goes out is the Decision, which is the same for the
// same input.
//
// A member may be chosen if it is named (names, selector), and its taints are tolerated. Those that may be
// chosen are put in an order (taints, spread, score, rendezvous), and the first that are fit are taken.
package placement

import (
	"cmp"
	"fmt"
	"iter"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/minifleet/minifleet/api/v1alpha1"
)

// Candidate is a member that a MiniCluster might run on.
type Candidate struct {
	Name   string
	Labels map[string]string
	Taints []v1alpha1.Taint
	// Unfit is why nothing new may be placed on the member now, e.g. that it is suspended; empty if it may.
	Unfit string
	// Closed says that the member is unfit on purpose, so that a placement on all members does not wait for it.
	Closed bool
	// Unknown says that a member is unfit only because it is not known yet, and will be in a moment: that is
	// no reason to move away from it, nor to choose another in its place.
	Unknown bool
	// Avoid is why the member comes after all others, as with a taint; empty if it does not.
	Avoid string
	// Runs is how many runs of this fleet are live there.
	Runs int
}

// Room is how the pods of a MiniCluster fit on a member now.
type Room struct {
	// Miss is why nothing may begin there for want of room; empty if it may.
	Miss string
	// Share of its pods that fit, from 0 to 1.
	Share float64
	// Free is what is free on nodes that take at least one of the pods; nil where it is not known.
	Free *Free
}

// Free is CPU in millicores, memory in bytes, and GPUs.
type Free struct{ CPU, Memory, GPU int64 }

// Input is all that a decision depends on.
type Input struct {
	// Key tells MiniClusters apart, so that each has an order of members of its own.
	Key string
	// Spec is the placement asked for.
	Spec v1alpha1.PlacementSpec
	// Candidates are all members, in any order.
	Candidates []Candidate
	// Keep are members that stay chosen whatever the Spec says, since they have run, or may have
	// begun to run, what is being placed.
	Keep []string
	// Prefer are members that an earlier run was placed on, in the order in which they were preferred.
	Prefer []string
	// Kept are the decisions that are on record for members to keep. They are not made anew.
	Kept []v1alpha1.ClusterDecision
	// Room tells how it fits on a member, if that matters: it is asked at most once for each member, and for
	// none that is kept. It gives the same answer however often it is asked. Nil: it fits everywhere.
	Room func(name string) Room
}

// Decision is which members run it.
type Decision struct {
	// Clusters are the chosen members: those to keep, then the others in the order of choice.
	Clusters []string
	// Reasons say why each of Clusters was chosen.
	Reasons []v1alpha1.ClusterDecision
	// Wanted is how many members the Spec asks for: NumberOfClusters, or all that match or stay.
	Wanted int
	// Matching is how many members may be chosen as far as names, labels and taints go.
	Matching int
	// Rejected are the members that were not chosen, by name; Unselected is how many of them because their labels do
	// not match.
	Rejected   []v1alpha1.RejectedCluster
	Unselected int
	// Waiting are those of Rejected that would be chosen if they had room, nearest miss first.
	Waiting []v1alpha1.RejectedCluster
	// Awaited are those of Rejected that are Unknown, and may turn out to come before others. Places are kept
	// free for them.
	Awaited []v1alpha1.RejectedCluster
	// HeldBack are those of Rejected that could take such a place now.
	HeldBack []string
	// Next are the first of those that were not needed, in the order in which they would have had their turn.
	Next []string
}

// maxNext is how many there are of Decision.Next at most.
const maxNext = 1024

// Decide chooses members. A member is chosen if it is to be kept; if not, it must match, be fit, and come
// early enough in the order. The error is about the Spec.
func Decide(in Input) (Decision, error) {
	selector, err := metav1.LabelSelectorAsSelector(&in.Spec.ClusterSelector)
	if err != nil {
		return Decision{}, fmt.Errorf("clusterSelector: %w", err)
	}
	in.Room = once(in.Room, len(in.Candidates))
	d := Decision{Clusters: slices.Clone(in.Keep), Reasons: in.kept()}
	matching := in.sift(selector, &d)
	d.Matching = len(matching)
	missing := in.missing(&d)
	if in.Spec.NumberOfClusters != nil {
		d.Wanted = int(*in.Spec.NumberOfClusters)
	} else {
		d.Wanted = len(in.Keep) + missing + count(matching, func(c Candidate) bool {
			return !c.Closed && !slices.Contains(in.Keep, c.Name)
		})
	}
	in.choose(matching, &d)
	slices.SortFunc(d.Rejected, func(a, b v1alpha1.RejectedCluster) int { return strings.Compare(a.Name, b.Name) })
	return d, nil
}

// choose takes one member after the other, each time the first in an order that depends, if spread is asked
// for, on those taken before.
func (in Input) choose(matching []Candidate, d *Decision) {
	if len(d.Clusters) >= d.Wanted {
		d.notNeeded(func(yield func(Candidate) bool) {
			for _, c := range matching {
				if !slices.Contains(in.Keep, c.Name) && !yield(c) {
					return
				}
			}
		})
		return
	}
	spread := newSpread(in, matching)
	order := spread.order(in.rank(in.others(matching)))
	// The others are not needed whatever their health, so that the reason does not change with that.
	for len(d.Clusters) < d.Wanted && order.left > 0 {
		in.take(order.next(), spread, d)
	}
	if d.Next = order.names(maxNext); order.left > 0 {
		d.notNeeded(order.others())
	}
	if len(d.Clusters) >= d.Wanted {
		d.Waiting, d.Awaited = nil, nil // others had room
	}
	in.nearestFirst(d.Waiting)
}

// others are those that are not kept.
func (in Input) others(matching []Candidate) []Candidate {
	if len(in.Keep) == 0 {
		return matching
	}
	return slices.DeleteFunc(slices.Clone(matching), func(c Candidate) bool { return slices.Contains(in.Keep, c.Name) })
}

// nearestFirst sorts members without room by the share of the pods that fit, and then by name.
func (in Input) nearestFirst(waiting []v1alpha1.RejectedCluster) {
	type miss struct {
		v1alpha1.RejectedCluster
		share float64
	}
	all := make([]miss, len(waiting))
	for i, w := range waiting {
		all[i] = miss{w, in.Room(w.Name).Share}
	}
	slices.SortFunc(all, func(a, b miss) int {
		return cmp.Or(cmp.Compare(b.share, a.share), strings.Compare(a.Name, b.Name))
	})
	for i := range all {
		waiting[i] = all[i].RejectedCluster
	}
}

// take chooses a member whose turn it is, or says why not.
func (in Input) take(c *ranked, spread spread, d *Decision) {
	switch {
	case in.awaits(c.Candidate):
		d.reject(c.Name, c.Unfit)
		d.Awaited = append(d.Awaited, d.Rejected[len(d.Rejected)-1])
		spread.add(c.Candidate)
	case c.Unfit != "" && (!c.Unknown || !slices.Contains(in.Prefer, c.Name)):
		d.reject(c.Name, c.Unfit)
	case spread.forbids(c.Candidate) != nil:
		d.reject(c.Name, spread.forbids(c.Candidate).whyNot(c.Candidate))
	case in.Room(c.Name).Miss != "":
		d.reject(c.Name, in.Room(c.Name).Miss)
		d.Waiting = append(d.Waiting, d.Rejected[len(d.Rejected)-1])
	case len(d.Clusters)+len(d.Awaited) >= d.Wanted:
		d.reject(c.Name, "it has room, and comes after "+d.Awaited[0].Name+", which is not known yet")
		d.HeldBack = append(d.HeldBack, c.Name)
	default:
		score, why := c.scores.of(c.Candidate)
		d.Clusters = append(d.Clusters, c.Name)
		d.Reasons = append(d.Reasons, v1alpha1.ClusterDecision{Name: c.Name, Score: score, Reason: why})
		spread.add(c.Candidate)
	}
}

// awaits says that a place is kept free for a member that is not known yet.
func (in Input) awaits(c Candidate) bool {
	return c.Unknown && c.Unfit != "" && !slices.Contains(in.Prefer, c.Name)
}

// once remembers answers.
func once(room func(string) Room, members int) func(string) Room {
	known := make(map[string]Room, members)
	return func(name string) Room {
		if room == nil {
			return Room{Share: 1}
		}
		r, ok := known[name]
		if !ok {
			r = room(name)
			known[name] = r
		}
		return r
	}
}

// kept are the reasons why members were chosen that stay: those on record, as they are.
func (in Input) kept() []v1alpha1.ClusterDecision {
	var out []v1alpha1.ClusterDecision
	for _, name := range in.Keep {
		i := slices.IndexFunc(in.Kept, func(d v1alpha1.ClusterDecision) bool { return d.Name == name })
		if i < 0 {
			out = append(out, v1alpha1.ClusterDecision{Name: name, Reason: "it has a run for this already"})
			continue
		}
		out = append(out, in.Kept[i])
	}
	return out
}

func count(cs []Candidate, is func(Candidate) bool) int {
	n := 0
	for _, c := range cs {
		if is(c) {
			n++
		}
	}
	return n
}

// sift rejects candidates that may not be chosen, less those to keep, and returns the others.
func (in Input) sift(selector labels.Selector, d *Decision) []Candidate {
	matching := make([]Candidate, 0, len(in.Candidates))
	text := "its labels do not match the selector " + metav1.FormatLabelSelector(&in.Spec.ClusterSelector)
	for _, c := range in.Candidates {
		why, unselected := in.excludes(c, selector, text)
		switch {
		case why == "":
			matching = append(matching, c)
		case !slices.Contains(in.Keep, c.Name):
			d.reject(c.Name, why)
			if unselected {
				d.Unselected++
			}
		}
	}
	return matching
}

// excludes says why a member may not be chosen, empty if it may, and whether that is for its labels, as unselected says.
func (in Input) excludes(c Candidate, selector labels.Selector, unselected string) (why string, is bool) {
	spec := &in.Spec
	switch {
	case slices.Contains(spec.ExcludeClusterNames, c.Name):
		return "excludeClusterNames excludes it", false
	case len(spec.ClusterNames) > 0 && !slices.Contains(spec.ClusterNames, c.Name):
		return "clusterNames does not name it", false
	case !selector.Matches(labels.Set(c.Labels)):
		return unselected, true
	}
	for _, t := range in.untolerated(c) {
		if t.Effect == v1alpha1.NoSelect || t.Effect == v1alpha1.NoSelectIfNew && !slices.Contains(in.Prefer, c.Name) {
			return "its taint " + describe(t) + " is not tolerated", false
		}
	}
	return "", false
}

// missing rejects names that no member has, and counts them: they were asked for.
func (in Input) missing(d *Decision) int {
	n := 0
	for _, name := range in.Spec.ClusterNames {
		known := slices.ContainsFunc(in.Candidates, func(c Candidate) bool { return c.Name == name })
		if known || slices.Contains(in.Keep, name) || slices.Contains(in.Spec.ExcludeClusterNames, name) {
			continue
		}
		d.reject(name, "there is no MemberCluster of this name that this namespace may use, which clusterNames asks for")
		n++
	}
	return n
}

// notNeeded rejects members that would not have been chosen if they could. What somebody has said of one is told
// as well; how it does now is not, since that changes.
func (d *Decision) notNeeded(others iter.Seq[Candidate]) {
	enough := fmt.Sprintf("not needed: %d of %d chosen", len(d.Clusters), d.Wanted)
	for c := range others {
		switch {
		case c.Closed:
			d.reject(c.Name, c.Unfit)
		case c.Avoid != "":
			d.reject(c.Name, enough+"; it comes last, since "+c.Avoid)
		default:
			d.reject(c.Name, enough)
		}
	}
}

func (d *Decision) reject(name, reason string) {
	d.Rejected = append(d.Rejected, v1alpha1.RejectedCluster{Name: name, Reason: reason})
}

// ranked is a candidate with its place in the order, as far as that does not depend on other choices.
type ranked struct {
	Candidate
	last   int // greater for those that come after all with less
	score  int32
	scores scores
	before int    // the place among those that were preferred before
	weight uint64 // in rendezvous order: the greater comes first
}

// last is 0 for most members, more for those with a taint that is not tolerated, of the effect PreferNoSelect, and
// still more for those that a run was evicted from.
func (in Input) last(c Candidate) int {
	switch {
	case c.Avoid != "":
		return 2
	case len(in.untolerated(c)) > 0:
		return 1
	default:
		return 0
	}
}

// rank orders candidates: those with taints last, then by score, then as they were preferred before, and
// then in rendezvous order (highest random weight: Thaler and Ravishankar, 1996). That differs from one
// MiniCluster to the next, so that they spread, and the coming and going of members changes as little of it
// as can be.
func (in Input) rank(cs []Candidate) []*ranked {
	scores := newScores(in, cs)
	all, out := make([]ranked, len(cs)), make([]*ranked, len(cs))
	before := func(name string) int {
		if i := slices.Index(in.Prefer, name); i >= 0 {
			return i
		}
		return len(in.Prefer)
	}
	for i, c := range cs {
		all[i] = ranked{
			Candidate: c, last: in.last(c), scores: scores, score: scores.sum(c), before: before(c.Name), weight: weight(in.Key, c.Name),
		}
		out[i] = &all[i]
	}
	slices.SortFunc(out, func(a, b *ranked) int {
		return cmp.Or(
			cmp.Compare(a.last, b.last),
			cmp.Compare(b.score, a.score),
			cmp.Compare(a.before, b.before),
			cmp.Compare(b.weight, a.weight),
			strings.Compare(a.Name, b.Name),
		)
	})
	return out
}
