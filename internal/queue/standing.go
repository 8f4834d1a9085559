package queue

import (
	"maps"
	"slices"

	"github.com/minifleet/minifleet/internal/fit"
	"github.com/minifleet/minifleet/internal/nodeusage"
)

// Line is who waits on a member, as it was at one time. It is a value: nothing in it changes.
type Line struct {
	Member string
	// State says whether it is known what the member has free. Where it is not, everything is taken to fit.
	State nodeusage.State
	// Standings are in the order of the line.
	Standings []Standing
}

// Standing is an entry in the line of a member.
type Standing struct {
	Entry
	// Gang is what it waits for there.
	Gang fit.Gang
	// Fit is how that fits in its turn, with what those take who come before and can begin. Behind is who waits before it
	// for the same room, even where it does not fit. It is nil for those so far behind that it was not computed.
	Fit *Fit
}

// Members are those that somebody waits for, sorted. Who may go anywhere, as all may after a restart of the hub until they
// are reconciled, waits for those given.
func (q *Queue) Members(all []string) []string {
	q.mu.Lock()
	defer q.mu.Unlock()
	found := map[string]bool{}
	for member := range q.waiting {
		found[member] = true
	}
	if len(q.anywhere) > 0 {
		for _, member := range all {
			found[member] = true
		}
	}
	return slices.Sorted(maps.Keys(found))
}

// Line is who waits on a member, first come first. How they fit is computed for the first most of them, without the lock.
func (q *Queue) Line(member string, room *nodeusage.Room, most int) Line {
	s := q.scene(member, room)
	out := Line{Member: member, State: room.State, Standings: []Standing{}}
	for t := range s.line.turns(s.holds) {
		standing := Standing{Entry: *s.latest(t.Entry), Gang: t.gang}
		if len(out.Standings) < most {
			f := s.next(t, true)
			standing.Fit = &f
		}
		out.Standings = append(out.Standings, standing)
	}
	return out
}
