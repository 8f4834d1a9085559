package plan

import "time"

// Intervals are after how long a FleetMiniCluster is reconciled again although nothing happens.
type Intervals struct {
	// Failed is for what has failed, if nothing sooner leads to another attempt. A name in use by somebody else is
	// checked as often: such objects are not watched.
	Failed time.Duration
	// Deleting is for what is being deleted.
	Deleting time.Duration
	// Wait is for those that wait for room, so that what their status says of it is never old.
	Wait time.Duration
	// Move is for a run that is overdue and stays for want of another member.
	Move time.Duration
}

// Soon is after how long a FleetMiniCluster is reconciled again of which it is known that more is to be done.
const Soon = 100 * time.Millisecond

// roomTimeout is how long a placement waits for what a member has free to be known for the first time, from when the hub
// began to connect it, or, after it was lost, from when it was connected again.
const roomTimeout = 10 * time.Second

// DefaultIntervals are those of a Snapshot that has none.
func DefaultIntervals() Intervals {
	return Intervals{Failed: 10 * time.Second, Deleting: 2 * time.Second, Wait: time.Minute, Move: 15 * time.Second}
}

// Scale multiplies all of them.
func (i Intervals) Scale(factor float64) Intervals {
	scale := func(d time.Duration) time.Duration { return time.Duration(float64(d) * factor) }
	return Intervals{Failed: scale(i.Failed), Deleting: scale(i.Deleting), Wait: scale(i.Wait), Move: scale(i.Move)}
}

// intervals are the snapshot's own, or the default ones.
func (s *Snapshot) intervals() Intervals {
	if s.Intervals == (Intervals{}) {
		return DefaultIntervals()
	}
	return s.Intervals
}
