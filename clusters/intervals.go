package clusters

import "time"

// Intervals are how long connections wait.
type Intervals struct {
	// RetryMin and RetryMax bound the wait between two attempts to reach a member, so that it is in use again well
	// within a minute of its return.
	RetryMin, RetryMax time.Duration
	// Probe is between the probes of a member that may be lost.
	Probe time.Duration
	// Capacity is the shortest time between two reports of a member's capacity.
	Capacity time.Duration
	// Confirm is between two questions to a member what MiniFleet may do there, about; 0: it is not
	// asked.
	Confirm time.Duration
}

// DefaultIntervals are those of a Provider that is given none.
func DefaultIntervals() Intervals {
	return Intervals{
		RetryMin: 500 * time.Millisecond, RetryMax: 10 * time.Second, Probe: time.Second, Capacity: 5 * time.Second,
		Confirm: 5*time.Minute + 30*time.Second,
	}
}

// Scale multiplies all of them but Confirm, which goes with times of watches that are not scaled.
func (i Intervals) Scale(factor float64) Intervals {
	scale := func(d time.Duration) time.Duration { return time.Duration(float64(d) * factor) }
	return Intervals{
		RetryMin: scale(i.RetryMin), RetryMax: scale(i.RetryMax), Probe: scale(i.Probe), Capacity: scale(i.Capacity), Confirm: i.Confirm,
	}
}
