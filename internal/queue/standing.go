package queue

import (
	"maps"
	"slices"

	"github.com/minifleet/minifleet/internal/fit"
	"github.com/minifleet/minifleet/internal/fleet"
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
	for _, e := range q.pending {
		if e.Anywhere != nil {
			for _, member := range all {
				found[member] = true
			}
		}
		for member := range e.Gangs {
			found[member] = true
		}
	}
	return slices.Sorted(maps.Keys(found))
}

// Line is who waits on a member, first come first. How they fit is computed for the first most of them, without the lock.
func (q *Queue) Line(member string, room *nodeusage.Room, most int) Line {
	entries, nodes := q.waitingOn(member, room)
	out := Line{Member: member, State: room.State, Standings: make([]Standing, len(entries))}
	for i, e := range entries {
		gang, _ := e.On(member)
		out.Standings[i] = Standing{Entry: e, Gang: gang}
	}
	inTurn(out, nodes, most)
	return out
}

func (q *Queue) waitingOn(member string, room *nodeusage.Room) ([]Entry, []fleet.Node) {
	q.mu.Lock()
	defer q.mu.Unlock()
	entries := q.others(member, Key{})
	if len(entries) == 0 {
		return nil, nil
	}
	return entries, q.free(member, room, Key{})
}

// inTurn computes how the first most of a line fit, in the order in which Affected has them begin. It takes room from the
// nodes.
func inTurn(line Line, nodes []fleet.Node, most int) {
	var blocked []Entry
	for i := range line.Standings[:min(len(line.Standings), most)] {
		s := &line.Standings[i]
		s.Fit = fitInTurn(line, nodes, blocked, s.Gang)
		if s.Fit.Blocked == "" {
			fit.Reserve(nodes, s.Gang.Pod, s.Gang.Size)
		} else if fit.Holds(nodes, s.Gang) {
			blocked = append(blocked, s.Entry)
		}
	}
}

// fitInTurn says how a gang fits, and who comes first that wants the same room, whether or not it fits.
func fitInTurn(line Line, nodes []fleet.Node, blocked []Entry, gang fit.Gang) *Fit {
	f := (&View{Member: line.Member, State: line.State, Nodes: nodes}).Check(gang, Rank{})
	if line.State != nodeusage.Known {
		return &f
	}
	key := firstCompeting(nodes, line.Member, blocked, gang)
	if i := slices.IndexFunc(blocked, func(e Entry) bool { return e.Key == key }); i >= 0 {
		f.Behind = key
		if f.Fits {
			f.Blocked = blocked[i].Turn()
		}
	}
	return &f
}
