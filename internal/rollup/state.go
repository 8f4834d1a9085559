package rollup

import (
	"slices"

	"github.com/minifleet/minifleet/api/v1alpha1"
)

// State says in one word how far a FleetMiniCluster is that is not being deleted. What may be live comes first, whether it
// is wanted or not; then how the wanted runs have ended; and only then what is waited for.
func State(in Input) v1alpha1.State {
	if live := slices.DeleteFunc(slices.Clone(in.Members), func(m Member) bool { return !m.live(in.Stalled) }); len(live) > 0 {
		return stateOfLive(in, live)
	}
	t := tallyOf(in)
	switch {
	case in.Stalled && unaccounted(in):
		return v1alpha1.StateUnknown
	case in.Stalled:
		return v1alpha1.StateInvalid
	case t.ended():
		return t.state()
	case unaccounted(in):
		return v1alpha1.StateUnknown
	case in.Wanted.Suspend:
		return v1alpha1.StateSuspended
	default:
		return v1alpha1.StateWaiting
	}
}

// live says whether something of the member's run may be there. Where only an edit helps, that a run is in the ledger
// whose Job was never made says nothing.
func (m *Member) live(stalled bool) bool {
	switch {
	case m.Run == nil || m.Run.State.Ended():
		return false
	default:
		return !stalled || !m.unmade()
	}
}

// unmade says that the run is in the ledger alone: no Job has been made for it.
func (m *Member) unmade() bool {
	return m.Run.State == v1alpha1.RunStarting && m.Run.JobUID == "" && m.Job == nil && m.Lost == nil && !m.Connecting
}

// unaccounted says that a run may be live that the ledger does not know of, on a member that has not been asked.
func unaccounted(in Input) bool {
	return len(in.Unasked) > 0 || slices.ContainsFunc(in.Members, func(m Member) bool {
		return m.Chosen && m.Step.Reason == v1alpha1.ReasonMemberNotAsked
	})
}

// state is that of wanted runs which have all ended.
func (t tally) state() v1alpha1.State {
	switch {
	case t.failed > 0:
		return v1alpha1.StateFailed
	case t.cancelled > 0:
		return v1alpha1.StateCancelled
	default:
		return v1alpha1.StateSucceeded
	}
}

// furthest orders the states of live runs: what is known least comes first, and then what is furthest.
var furthest = []v1alpha1.State{
	v1alpha1.StateUnknown, v1alpha1.StateRunning, v1alpha1.StateStarting, v1alpha1.StateStopping, v1alpha1.StateWaiting,
	v1alpha1.StateSuspended,
}

// stateOfLive is about live runs: one that is running counts for all, and one of which nothing is known even more.
func stateOfLive(in Input, live []Member) v1alpha1.State {
	unheard := !slices.ContainsFunc(live, func(m Member) bool { return m.Lost != nil || !m.Connecting })
	if unheard && remains(in.Previous.State, in.Wanted.Suspend) {
		return in.Previous.State
	}
	at := len(furthest) - 1
	for i := range live {
		at = min(at, slices.Index(furthest, live[i].state(in)))
	}
	return furthest[at]
}

// remains says whether a state that was told of live runs may be told until something is heard of them.
func remains(s v1alpha1.State, suspended bool) bool {
	return slices.Contains(furthest, s) && (s != v1alpha1.StateSuspended || suspended)
}

// state is that of the member's live run.
func (m *Member) state(in Input) v1alpha1.State {
	own := m.Job != nil && m.Job.RunID == m.Run.ID
	paused := own && m.Job.Suspended
	switch run := m.Run; {
	case m.Lost != nil, m.Connecting && wasLost(in, m.Name):
		return v1alpha1.StateUnknown
	case run.State == v1alpha1.RunStopping, own && m.Job.Deleting:
		return v1alpha1.StateStopping
	case in.Wanted.Suspend && (paused || m.unmade()):
		return v1alpha1.StateSuspended // what is made while it is suspended is made suspended
	case paused && waitsForRoom(m.Step):
		return v1alpha1.StateWaiting
	case !paused && podsRun(run):
		return v1alpha1.StateRunning
	default:
		return v1alpha1.StateStarting
	}
}

// podsRun says whether all pods of a run run or have run, as far as the ledger knows.
func podsRun(r *v1alpha1.Run) bool {
	return r.State == v1alpha1.RunRunning && r.RunningTime != nil && r.PendingSince == nil && r.SuspendedTime == nil
}

// wasLost says that a member could not be reached when it was last told of.
func wasLost(in Input, name string) bool {
	return slices.ContainsFunc(in.Previous.Clusters, func(c v1alpha1.ClusterStatus) bool {
		return c.Name == name && c.Sync == v1alpha1.SyncUnknown
	})
}
