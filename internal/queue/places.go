package queue

import "github.com/minifleet/minifleet/internal/fit"

// Places are the places of all that wait, each the foremost that it has in the line of a member, from 1, with what members
// have as it was seen last.
func (q *Queue) Places() map[Key]int32 {
	out := map[Key]int32{}
	for _, s := range q.everyLine() {
		place := int32(0)
		for t := range s.line.turns(s.holds) {
			place++
			if best := out[t.Key]; best == 0 || place < best {
				out[t.Key] = place
			}
		}
	}
	return out
}

// everyLine are the lines of all members on which somebody may wait.
func (q *Queue) everyLine() []*scene {
	q.mu.Lock()
	defer q.mu.Unlock()
	members := map[string]bool{}
	for member := range q.waiting {
		members[member] = true
	}
	if len(q.anywhere) > 0 {
		for member := range q.known {
			members[member] = true
		}
	}
	out := make([]*scene, 0, len(members))
	for member := range members {
		s := &scene{holds: func(fit.Gang) bool { return true }}
		if room := q.rooms[member].room; room != nil {
			s.line, s.holds = q.line(member, room, Key{}), q.spare(member, room, Key{}).holds
		} else {
			s.line = q.lineOf(member, totals{}, Key{})
		}
		if !s.line.empty() {
			out = append(out, s)
		}
	}
	return out
}
