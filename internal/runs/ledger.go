package runs

import (
	"cmp"
	"slices"

	"github.com/minifleet/minifleet/api/v1alpha1"
)

// KeepEnded is how many ended runs a ledger holds besides the latest of each member.
const KeepEnded = 10

// Ledger is the list of runs in a FleetMiniCluster's status, oldest first.
type Ledger []v1alpha1.Run

// Last returns the latest run on a member, or nil.
func (l Ledger) Last(cluster string) *v1alpha1.Run {
	for i := len(l) - 1; i >= 0; i-- {
		if l[i].Cluster == cluster {
			return &l[i]
		}
	}
	return nil
}

// First returns the earliest run on a member that is held, or nil.
func (l Ledger) First(cluster string) *v1alpha1.Run {
	for i := range l {
		if l[i].Cluster == cluster {
			return &l[i]
		}
	}
	return nil
}

// Find returns the run of this id, or nil.
func (l Ledger) Find(id string) *v1alpha1.Run {
	for i := range l {
		if l[i].ID == id {
			return &l[i]
		}
	}
	return nil
}

// Ended says whether a run of this id has ended, as far as the ledger goes back.
func (l Ledger) Ended(id string) bool {
	return slices.ContainsFunc(l, func(r v1alpha1.Run) bool { return r.ID == id && r.State.Ended() })
}

// Keepers are the members that keep what is wanted: those that have run it, or may have begun to, and that
// were chosen for it or have done so since anything else was begun. They are in the order in which they were chosen.
func (l Ledger) Keepers(w Wanted, chosen []string) []string {
	since := 0
	for i := range l {
		if !w.IsCurrent(&l[i]) {
			since = i + 1
		}
	}
	var names []string
	for i := range l {
		name := l[i].Cluster
		if l.Last(name) == &l[i] && w.IsCurrent(&l[i]) && (i >= since || slices.Contains(chosen, name)) {
			names = append(names, name)
		}
	}
	place := func(name string) int {
		if i := slices.Index(chosen, name); i >= 0 {
			return i
		}
		return len(chosen)
	}
	slices.SortStableFunc(names, func(a, b string) int { return cmp.Compare(place(a), place(b)) })
	return names
}

// Live returns the members that have a run which has not ended, in the ledger's order.
func (l Ledger) Live() []string {
	var names []string
	for _, r := range l {
		if !r.State.Ended() && !slices.Contains(names, r.Cluster) {
			names = append(names, r.Cluster)
		}
	}
	return names
}

// Limits are how many ended runs a ledger holds of each kind, nil where nobody has said: then of all those
// KeepEnded together, besides the latest of each member. The latest of each member is held in any case.
type Limits struct{ Succeeded, Others *int32 }

// keepAtLeast is how many ended runs are held whatever the limit: a request to create the Job of one may still
// be on its way to a member, and must not be taken for a run that nobody knows.
const keepAtLeast = 3

// Add appends a run and forgets the oldest of those that may be forgotten.
func (l Ledger) Add(r v1alpha1.Run, limits Limits) Ledger {
	return append(slices.Clone(l), r).Trim(limits)
}

// Insert adds a run that has ended, and that the ledger did not know, as the latest of its member and before the runs of
// other members that were begun after its end: what ran since is told by the order.
func (l Ledger) Insert(r v1alpha1.Run, limits Limits) Ledger {
	at, when := len(l), cmp.Or(r.CompletionTime, r.StartTime)
	for i := len(l) - 1; i >= 0 && l[i].Cluster != r.Cluster; i-- {
		if when != nil && l[i].StartTime != nil && when.Before(l[i].StartTime) {
			at = i
		}
	}
	return slices.Insert(slices.Clone(l), at, r).Trim(limits)
}

// Trim returns the ledger without the runs that have ended, are not the latest of their member, and are
// beyond the limits.
func (l Ledger) Trim(limits Limits) Ledger {
	held := map[string]int{}
	drop := make([]bool, len(l))
	for i := len(l) - 1; i >= 0; i-- {
		kind, allowed := limits.of(&l[i])
		switch {
		case !l[i].State.Ended():
		case l.forgettable(i):
			drop[i] = held[kind] >= allowed
			held[kind]++
		case kind != unlimited:
			held[kind]++
		}
	}
	out := make(Ledger, 0, len(l))
	for i := range l {
		if !drop[i] {
			out = append(out, l[i])
		}
	}
	return out
}

// Kinds of ended runs that are counted together.
const (
	unlimited = "" // those that nobody has set a limit for
	succeeded = "succeeded"
	others    = "others"
)

// of is what a run is counted with, and how many of these are held.
func (k Limits) of(r *v1alpha1.Run) (kind string, allowed int) {
	kind, limit := others, k.Others
	if r.State == v1alpha1.RunSucceeded {
		kind, limit = succeeded, k.Succeeded
	}
	if limit == nil {
		return unlimited, KeepEnded
	}
	return kind, max(int(*limit), keepAtLeast)
}

func (l Ledger) forgettable(i int) bool {
	return l[i].State.Ended() && l.Last(l[i].Cluster) != &l[i]
}
