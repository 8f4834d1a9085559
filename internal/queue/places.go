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
	waiting := map[string]map[string][]*Entry{} // by member and namespace
	for namespace, entries := range q.lines {
		add := func(member string, e *Entry) {
			if !q.waits(e, member) {
				return
			}
			if waiting[member] == nil {
				waiting[member] = map[string][]*Entry{}
			}
			waiting[member][namespace] = append(waiting[member][namespace], e)
		}
		for _, e := range entries {
			for member := range e.Gangs {
				add(member, e)
			}
			if e.Anywhere != nil {
				for member := range q.known {
					add(member, e)
				}
			}
		}
	}
	out := make([]*scene, 0, len(waiting))
	for member, entries := range waiting {
		s := &scene{line: q.lineOf(member, q.rooms[member].total, entries, Key{}), holds: func(fit.Gang) bool { return true }}
		if room := q.rooms[member].room; room != nil {
			s.holds = holding(room.State, room.Nodes)
		}
		out = append(out, s)
	}
	return out
}
