// Package eviction decides which live runs are evicted from their members, and what proof that takes. It is pure.
//
// In come the ledger of a FleetMiniCluster, its members, and what they answer; out come evictions, each with its
// reason. Four things evict a run:
//
//	drained     its member is drained, or deleted with the policy Drain                drain.go
//	overdue     it did not start within pendingTimeout, or lost its nodes (failover)   overdue.go
//	lost        its member is unreachable for longer than failover allows              lost.go
//	declared    a person says that it is gone, while its member cannot be asked        declared.go
//
// A drained run is stopped whether or not there is another member for it. An overdue one is stopped only where another
// member can take it now. A lost one is not stopped, for nobody can: it is replaced once its member has answered that
// nothing of it is left. Only a declared one is given up without proof, on a person's word.
package eviction

import (
	"slices"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/internal/placement"
	"github.com/minifleet/minifleet/internal/runs"
)

// Eviction is why a live run has to leave its member.
type Eviction struct {
	Stop v1alpha1.StopReason
	// Message is for the run that is stopped.
	Message string
	// Fact is what is wrong with it, for the status of a run that stays for want of another member.
	Fact string
}

// Keepers are the members that keep what is wanted, less those whose runs are evicted.
func Keepers(ledger runs.Ledger, wanted runs.Wanted, chosen []string, evicted map[string]Eviction) []string {
	return slices.DeleteFunc(ledger.Keepers(wanted, chosen), func(name string) bool {
		_, is := evicted[name]
		return is
	})
}

// Avoid says why a member comes after all others: a run for what is wanted was evicted there. It is empty where none
// was.
func Avoid(ledger runs.Ledger, wanted runs.Wanted, member string) string {
	for i := range ledger {
		run := &ledger[i]
		if run.Cluster == member && (run.State == v1alpha1.RunReplaced || run.State == v1alpha1.RunStopping) && wanted.IsFor(run) &&
			(run.Stop == v1alpha1.StopNotStarted || run.Stop == v1alpha1.StopLost) {
			return "run " + run.ID + " had to leave it (" + string(run.Stop) + ")"
		}
	}
	return ""
}

// Attempt is that of the run that follows last: a run that was evicted from another member takes its own with it.
func Attempt(ledger runs.Ledger, wanted runs.Wanted, last *v1alpha1.Run) int32 {
	n := wanted.Attempt(last)
	for i := len(ledger) - 1; i >= 0 && wanted.IsFor(&ledger[i]); i-- {
		if run := &ledger[i]; run.State == v1alpha1.RunReplaced && run.Stop != v1alpha1.StopChanged {
			n = max(n, run.Attempt)
		}
	}
	return n
}

// Move evicts those overdue runs that another member can take now, one after the other, each with a placement of its
// own. It returns the evictions, the placement that they lead to with its input, and what is wrong with runs that
// stay.
func Move(overdue map[string]Eviction, in placement.Input, d placement.Decision) (moved map[string]Eviction, stay map[string]string, _ placement.Input, _ placement.Decision) {
	moved, stay = map[string]Eviction{}, map[string]string{}
	for _, name := range slices.Clone(in.Keep) {
		why, is := overdue[name]
		if !is {
			continue
		}
		trial := in
		trial.Keep = slices.DeleteFunc(slices.Clone(in.Keep), func(k string) bool { return k == name })
		trial.Candidates = without(in.Candidates, name)
		t, err := placement.Decide(trial)
		if err != nil || len(t.Clusters) < len(d.Clusters) || in.Spec.NumberOfClusters == nil {
			stay[name] = why.Fact + "; no other member can take it now"
			continue
		}
		moved[name] = why
		in, d = trial, t
	}
	return moved, stay, in, d
}

// without are the candidates for a run that leaves a member: neither that, nor one that it was evicted from before.
func without(candidates []placement.Candidate, name string) []placement.Candidate {
	out := slices.Clone(candidates)
	for i := range out {
		if out[i].Name == name {
			out[i].Unfit, out[i].Unknown = "its run does not get going there", false
		} else if out[i].Avoid != "" && out[i].Unfit == "" {
			out[i].Unfit, out[i].Unknown = out[i].Avoid, false
		}
	}
	return out
}
