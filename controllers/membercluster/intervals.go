package membercluster

import "time"

// Intervals are how often something is done although nothing happens.
type Intervals struct {
	// Deleted is how often it is asked whether objects that are being deleted are no longer there.
	Deleted time.Duration
	// Away is how often a member is tried that does not answer; its return is an event, too.
	Away time.Duration
}

// DefaultIntervals are those of the product.
func DefaultIntervals() Intervals {
	return Intervals{Deleted: 2 * time.Second, Away: 30 * time.Second}
}

// Scale multiplies all of them.
func (i Intervals) Scale(factor float64) Intervals {
	return Intervals{Deleted: time.Duration(float64(i.Deleted) * factor), Away: time.Duration(float64(i.Away) * factor)}
}
