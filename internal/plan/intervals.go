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

const (
	// Soon is for what is known to have changed in this reconciliation.
	Soon = 100 * time.Millisecond
	// FailedInterval, DeletingInterval, waitInterval and moveInterval are the default intervals.
	FailedInterval   = 10 * time.Second
	DeletingInterval = 2 * time.Second
	waitInterval     = time.Minute
	moveInterval     = 15 * time.Second
)

// roomTimeout is how long a placement waits for what a member has free to be known for the first time, from when the hub
// began to connect it, or, after it was lost, from when it was connected again.
const roomTimeout = 10 * time.Second

// DefaultIntervals are those of a Snapshot that has none.
func DefaultIntervals() Intervals {
	return Intervals{Failed: FailedInterval, Deleting: DeletingInterval, Wait: waitInterval, Move: moveInterval}
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
