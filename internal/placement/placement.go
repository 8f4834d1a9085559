// Package placement decides which members run a MiniCluster. It is pure: the same input gives the same
// decision.
package placement

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
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
	// Unfit is why nothing new may be placed on the member now, e.g. that it is suspended; empty if it may.
	Unfit string
	// Away says that the member is unfit on purpose, so that a placement on all members does not wait for it.
	Away bool
	// Passing says that a member is unfit only for a moment, which is no reason to move away from it.
	Passing bool
}

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
	// Prefer are members that are chosen before others if they are still fit, since an earlier run was there.
	Prefer []string
}

// Decision is which members run it.
type Decision struct {
	// Clusters are the chosen members: those to keep, then the preferred, then the others in order.
	Clusters []string
	// Wanted is how many members the Spec asks for: NumberOfClusters, or all that match or stay.
	Wanted int
	// Matching is how many members the selector matches.
	Matching int
	// Rejected are the members that were not chosen, by name.
	Rejected []v1alpha1.RejectedCluster
}

// Decide chooses members. A member is chosen if it is to be kept; if not, it must match the selector, be
// fit, and come early enough in the order. The error is about the selector.
func Decide(in Input) (Decision, error) {
	selector, err := metav1.LabelSelectorAsSelector(&in.Spec.ClusterSelector)
	if err != nil {
		return Decision{}, fmt.Errorf("clusterSelector: %w", err)
	}
	matching, rejected := sift(in, selector)
	d := Decision{Clusters: slices.Clone(in.Keep), Matching: len(matching), Wanted: len(matching), Rejected: rejected}
	if in.Spec.NumberOfClusters != nil {
		d.Wanted = int(*in.Spec.NumberOfClusters)
	} else {
		d.Wanted = len(in.Keep) + count(matching, func(c Candidate) bool {
			return !c.Away && !slices.Contains(in.Keep, c.Name)
		})
	}
	for _, c := range in.order(matching) {
		switch {
		case slices.Contains(d.Clusters, c.Name):
		// First, so that the reason does not change with the members' health while nothing is needed of them.
		case len(d.Clusters) >= d.Wanted:
			d.reject(c.Name, fmt.Sprintf("not needed: %d of %d chosen", len(d.Clusters), d.Wanted))
		case c.Unfit != "" && (!c.Passing || !slices.Contains(in.Prefer, c.Name)):
			d.reject(c.Name, c.Unfit)
		default:
			d.Clusters = append(d.Clusters, c.Name)
		}
	}
	slices.SortFunc(d.Rejected, func(a, b v1alpha1.RejectedCluster) int { return strings.Compare(a.Name, b.Name) })
	return d, nil
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

// sift splits the candidates into those that match the selector and the rest, less those to keep.
func sift(in Input, selector labels.Selector) (matching []Candidate, rejected []v1alpha1.RejectedCluster) {
	for _, c := range in.Candidates {
		switch {
		case selector.Matches(labels.Set(c.Labels)):
			matching = append(matching, c)
		case !slices.Contains(in.Keep, c.Name):
			rejected = append(rejected, v1alpha1.RejectedCluster{
				Name: c.Name, Reason: "its labels do not match the selector " + metav1.FormatLabelSelector(&in.Spec.ClusterSelector),
			})
		}
	}
	return matching, rejected
}

func (d *Decision) reject(name, reason string) {
	d.Rejected = append(d.Rejected, v1alpha1.RejectedCluster{Name: name, Reason: reason})
}

// order puts preferred members first, and the others in rendezvous order (highest random weight: Thaler
// and Ravishankar, 1996): it differs from one MiniCluster to the next, so that they spread, and the
// coming and going of members changes as little of it as can be.
func (in Input) order(cs []Candidate) []Candidate {
	rank := func(c Candidate) int {
		if i := slices.Index(in.Prefer, c.Name); i >= 0 {
			return i
		}
		return len(in.Prefer)
	}
	cs = slices.Clone(cs)
	slices.SortFunc(cs, func(a, b Candidate) int {
		if d := rank(a) - rank(b); d != 0 {
			return d
		}
		wa, wb := weight(in.Key, a.Name), weight(in.Key, b.Name)
		switch {
		case wa > wb:
			return -1
		case wa < wb:
			return 1
		default:
			return strings.Compare(a.Name, b.Name)
		}
	})
	return cs
}

func weight(key, member string) uint64 {
	sum := sha256.Sum256([]byte(key + "\x00" + member))
	return binary.BigEndian.Uint64(sum[:8])
}
