package queue

import (
	"fmt"
	"time"

	"github.com/minifleet/minifleet/internal/fit"
	"github.com/minifleet/minifleet/internal/fleet"
	"github.com/minifleet/minifleet/internal/nodeusage"
)

// View is what a FleetMiniCluster may count on at a member. It is a value: nothing in it changes.
type View struct {
	Member string
	// State says whether Nodes are known.
	State nodeusage.State
	// Nodes are the member's, with what is free less what others have reserved.
	Nodes []fleet.Node
	// Ahead are the others that wait on this member, first come first, whether or not they come before this one.
	Ahead []Entry

	room    *nodeusage.Room
	version int
}

// Scheduled is how many pods of a run have a node.
func (v *View) Scheduled(run string) fleet.Scheduled { return v.room.Scheduled(run) }

// Fit is how a gang fits on a member, in its turn.
type Fit struct {
	fit.Result
	// Blocked is why it may not begin; empty if it may.
	Blocked string
	// Behind is who comes first, where that is the reason.
	Behind Key
}

// Check says whether a gang may begin: all of it fits, and nobody who comes before it waits for the same room.
// Where what is free is not known, it may: the member's own scheduler will tell.
func (v *View) Check(gang fit.Gang, self Rank) Fit {
	if v.State != nodeusage.Known {
		return Fit{Result: fit.Result{Fits: true, Pods: gang.Size}}
	}
	out := Fit{Result: fit.Check(v.Nodes, gang)}
	if !out.Fits {
		out.Blocked = out.Miss
		if !fit.Holds(v.Nodes, gang) {
			out.Blocked += "; they would not fit either if every run there had ended"
		}
		return out
	}
	if first := v.First(v.Nodes, gang, self); first != nil {
		out.Blocked, out.Behind = first.Turn(), first.Key
	}
	return out
}

// First is who comes first of those that wait for the same room and come before self; nil if nobody does. Who would
// not fit even if every run had ended holds nobody up.
func (v *View) First(nodes []fleet.Node, gang fit.Gang, self Rank) *Entry {
	for i := range v.Ahead {
		e := &v.Ahead[i]
		if e.Compare(self) > 0 {
			return nil
		}
		theirs, _ := e.On(v.Member)
		if fit.Compete(nodes, theirs, gang) && fit.Holds(nodes, theirs) {
			return e
		}
	}
	return nil
}

// Turn says that room is kept for an entry, for the status of those behind it.
func (e *Entry) Turn() string {
	return fmt.Sprintf("its room is kept for %s, which waits for it and comes first (priority %d, created %s)",
		e.Key, e.Priority, e.Created.UTC().Format(time.RFC3339))
}
