// Package gauges says what the metrics tell of the state of a fleet: how many of what are in which state, since when, and
// what members have. It is pure: what comes in are the hub's objects and the time, what goes out are numbers.
//
//	gauges.go   FleetMiniClusters, their runs, and those that wait
//	members.go  MemberClusters
//	sources.go  GitSources
package gauges

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/internal/view"
)

const (
	// MaxPlacements is how many Placements are told of one by one: those first for which most wait.
	MaxPlacements = 100
	// MaxSources is how many GitSources are told of one by one: those first that are not ready.
	MaxSources = 1000
)

// Input is what the gauges are made of. Nothing of it is changed.
type Input struct {
	MiniClusters []v1alpha1.FleetMiniCluster
	Members      []v1alpha1.MemberCluster
	Sources      []v1alpha1.GitSource
	// Heard is when the latest answer of a member came that cannot be reached, by name, as far as its connection knows.
	Heard map[string]time.Time
	// Read is when a repository was last read with success, by NAMESPACE/NAME of its source.
	Read map[string]time.Time
	Now  time.Time
}

// Fleet is what the gauges tell.
type Fleet struct {
	// States is how many FleetMiniClusters are in each state. All states are there.
	States map[v1alpha1.State]int
	// OutOfSync is how many have members that do not have what the hub wants.
	OutOfSync int
	// Runs is how many live runs there are, by member and state.
	Runs map[RunsOf]int
	// Waiting are those in state Waiting, by what they wait for. All classes are there.
	Waiting map[Class]Waiting
	// Placements are those for which somebody waits, by NAMESPACE/NAME.
	Placements map[string]Waiting
	Members    []Member
	Sources    []Source
	// OmittedPlacements and OmittedSources are how many are not told of one by one.
	OmittedPlacements, OmittedSources int
}

// RunsOf is a state of runs on a member.
type RunsOf struct {
	Member string
	State  v1alpha1.RunState
}

// Waiting is how many wait, and since when the one does that has waited longest.
type Waiting struct {
	Count int
	Since time.Time
}

// Age is for how long the oldest has waited; 0 where nobody does.
func (w Waiting) Age(now time.Time) time.Duration {
	if w.Count == 0 {
		return 0
	}
	return max(now.Sub(w.Since), 0)
}

func (w Waiting) add(since time.Time) Waiting {
	if w.Count == 0 || since.Before(w.Since) {
		w.Since = since
	}
	w.Count++
	return w
}

// Class is what a FleetMiniCluster waits for.
type Class string

// Classes.
const (
	ForRoom       Class = "room"
	ForMember     Class = "member"
	ForPlacement  Class = "placement"
	ForRun        Class = "run"
	ForReference  Class = "reference"
	ForPermission Class = "permission"
	ForRetry      Class = "retry"
	ForOther      Class = "other"
)

// Classes are all of them.
var Classes = []Class{ForRoom, ForMember, ForPlacement, ForRun, ForReference, ForPermission, ForRetry, ForOther}

// classes are what reasons of Ready say of what is waited for.
var classes = map[string]Class{
	v1alpha1.ReasonInsufficientCapacity: ForRoom,
	v1alpha1.ReasonConnecting:           ForMember,
	v1alpha1.ReasonMemberUnreachable:    ForMember,
	v1alpha1.ReasonMemberNotAsked:       ForMember,
	v1alpha1.ReasonMemberClosed:         ForMember,
	v1alpha1.ReasonPlacementNotFound:    ForPlacement,
	v1alpha1.ReasonNoClusterMatches:     ForPlacement,
	v1alpha1.ReasonNotEnoughClusters:    ForPlacement,
	v1alpha1.ReasonWaitingForCompletion: ForRun,
	v1alpha1.ReasonDeleting:             ForRun,
	v1alpha1.ReasonReferenceMissing:     ForReference,
	v1alpha1.ReasonReferenceWithdrawn:   ForReference,
	v1alpha1.ReasonBindingMissing:       ForReference,
	v1alpha1.ReasonPolicyDenied:         ForPermission,
	v1alpha1.ReasonNamespaceDenied:      ForPermission,
	v1alpha1.ReasonRetryWaiting:         ForRetry,
	v1alpha1.ReasonRunFailed:            ForRetry,
}

// states are all that a FleetMiniCluster may be in.
var states = []v1alpha1.State{
	v1alpha1.StateWaiting, v1alpha1.StateStarting, v1alpha1.StateRunning, v1alpha1.StateStopping, v1alpha1.StateSuspended,
	v1alpha1.StateSucceeded, v1alpha1.StateFailed, v1alpha1.StateCancelled, v1alpha1.StateUnknown, v1alpha1.StateInvalid,
	v1alpha1.StateDeleting,
}

// Of computes the gauges.
func Of(in Input) Fleet {
	out := Fleet{
		States: map[v1alpha1.State]int{}, Runs: map[RunsOf]int{}, Waiting: map[Class]Waiting{}, Placements: map[string]Waiting{},
	}
	for _, s := range states {
		out.States[s] = 0
	}
	for _, c := range Classes {
		out.Waiting[c] = Waiting{}
	}
	stale := map[string]view.Stale{}
	for i := range in.Members {
		m := &in.Members[i]
		out.Members = append(out.Members, memberOf(m, in.Heard[m.Name], in.Now))
		if s, is := view.StaleOf(m); is {
			stale[m.Name] = s
		}
	}
	out.addMiniClusters(in.MiniClusters, stale)
	out.addSources(in)
	out.limitPlacements()
	return out
}

func (out *Fleet) addMiniClusters(all []v1alpha1.FleetMiniCluster, stale map[string]view.Stale) {
	for i := range all {
		f := &all[i]
		state := view.StateOf(f, stale)
		out.States[state]++
		if f.Status.Sync == v1alpha1.OutOfSync {
			out.OutOfSync++
		}
		for j := range f.Status.Runs {
			if r := &f.Status.Runs[j]; !r.State.Ended() {
				out.Runs[RunsOf{r.Cluster, r.State}]++
			}
		}
		if state == v1alpha1.StateWaiting {
			out.addWaiting(f)
		}
	}
}

func (out *Fleet) addWaiting(f *v1alpha1.FleetMiniCluster) {
	since, class := f.CreationTimestamp.Time, ForOther
	if ready := meta.FindStatusCondition(f.Status.Conditions, v1alpha1.ConditionReady); ready != nil {
		since, class = ready.LastTransitionTime.Time, cmp.Or(classes[ready.Reason], ForOther)
	}
	if view.WaitsForRoom(f) {
		class = ForRoom
	}
	out.Waiting[class] = out.Waiting[class].add(since)
	if ref := f.Spec.PlacementRef; ref != nil {
		name := f.Namespace + "/" + ref.Name
		out.Placements[name] = out.Placements[name].add(since)
	}
}

// limitPlacements keeps those for which most wait.
func (out *Fleet) limitPlacements() {
	if len(out.Placements) <= MaxPlacements {
		return
	}
	names := slices.SortedFunc(maps.Keys(out.Placements), func(a, b string) int {
		return cmp.Or(cmp.Compare(out.Placements[b].Count, out.Placements[a].Count), strings.Compare(a, b))
	})
	for _, name := range names[MaxPlacements:] {
		delete(out.Placements, name)
	}
	out.OmittedPlacements = len(names) - MaxPlacements
}
