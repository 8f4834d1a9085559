package eviction

import (
	"time"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/internal/runs"
)

// returnGrace is how long a member that has come back is given to learn how its nodes and pods are. Kubelets renew
// their leases every ten seconds, and report what has changed as often.
const returnGrace = time.Minute

// PatienceOf is what a placement says of runs that do not get going.
func PatienceOf(spec *v1alpha1.PlacementSpec) runs.Patience {
	var out runs.Patience
	if spec.PendingTimeout != nil {
		out.Pending = spec.PendingTimeout.Duration
	}
	if f := spec.Failover; f != nil && f.Fencing != v1alpha1.FenceManual {
		out.Lost = time.Duration(f.AfterSeconds) * time.Second
	}
	return out
}

// Pending is a live run of which it is asked whether it is overdue.
type Pending struct {
	Run *v1alpha1.Run
	// Job is its Job as the cache shows it, nil where that has none.
	Job *runs.Job
	// Proof is the Job as the member itself says, nil before it was asked: no run is evicted without.
	Proof *Proof
	// Patience with it, and how many of its pods it needs to begin; 0: all.
	Patience runs.Patience
	Quorum   int32
	// Connected is since when the member is connected.
	Connected time.Time
	// Queued says that a queue on the member releases the Job, or may. One that arrives late is released, too, so that
	// its run cannot be given up before it was seen.
	Queued bool
	// Refusal is what the member said when it was last asked to create something for the run; empty if nothing.
	Refusal string
}

// Proof is a member's own answer about a Job.
type Proof struct {
	// Job is nil where the member has none.
	Job *runs.Job
	// Failed says that the member gave no answer: what is not known is no reason.
	Failed bool
}

// Verdict is whether a run is overdue.
type Verdict struct {
	// Evict is nil for a run that is not.
	Evict *Eviction
	// AskMember says that the run seems to be, and that the member has to confirm it.
	AskMember bool
	// After is when to ask again, 0: not because of time.
	After time.Duration
}

// Overdue says whether a run is overdue now. The cache may be behind, so the member itself has the last word: a run
// that has just begun is not to be stopped.
func Overdue(p Pending, now time.Time) Verdict {
	stuck := p.Patience.StuckOn(p.Run, p.Job, p.Quorum)
	if stuck == nil || p.Job == nil && p.Queued {
		return Verdict{}
	}
	if left := notBefore(stuck, p.Connected).Sub(now); left > 0 {
		return Verdict{After: left}
	}
	if p.Proof == nil {
		return Verdict{AskMember: true}
	}
	if p.Proof.Failed {
		return Verdict{}
	}
	stuck = p.Patience.StuckOn(p.Run, p.Proof.Job, p.Quorum)
	if stuck == nil || stuck.Until.After(now) {
		return Verdict{}
	}
	if p.Proof.Job == nil && p.Refusal != "" {
		stuck.Why, stuck.Fact = stuck.Why+": "+p.Refusal, stuck.Fact+": "+p.Refusal
	}
	return Verdict{Evict: &Eviction{Stop: stuck.Stop, Message: stuck.Why, Fact: stuck.Fact}}
}

// notBefore is when patience with a run ends. A member that has just come back may not know yet what its nodes do: a
// control plane that was down has heard nothing of their pods.
func notBefore(stuck *runs.Stuck, connected time.Time) time.Time {
	if grace := connected.Add(min(stuck.Patience, returnGrace)); grace.After(stuck.Until) {
		return grace
	}
	return stuck.Until
}
