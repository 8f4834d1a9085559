package runs

import (
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
// were chosen for it or have done so since anything else was begun.
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

// Add appends a run and forgets the oldest of those that may be forgotten: runs that have ended and are
// not the latest of their member.
func (l Ledger) Add(r v1alpha1.Run) Ledger {
	l = append(slices.Clone(l), r)
	spare := 0
	for i := range l {
		if l.forgettable(i) {
			spare++
		}
	}
	out := make(Ledger, 0, len(l))
	for i := range l {
		if l.forgettable(i) && spare > KeepEnded {
			spare--
			continue
		}
		out = append(out, l[i])
	}
	return out
}

func (l Ledger) forgettable(i int) bool {
	return l[i].State.Ended() && l.Last(l[i].Cluster) != &l[i]
}
