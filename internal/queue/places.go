package queue

import (
	"maps"
	"slices"
)

// Places are the places of all that wait, each the foremost that it has in the line of a member, from 1.
func (q *Queue) Places() map[Key]int32 {
	q.mu.Lock()
	line := slices.Collect(maps.Values(q.pending))
	members := slices.Collect(maps.Keys(q.known))
	q.mu.Unlock()
	slices.SortFunc(line, func(a, b Entry) int { return a.Compare(b.Rank) })
	out := make(map[Key]int32, len(line))
	length := map[string]int32{}
	for _, e := range line {
		on := members
		if e.Anywhere == nil {
			on = slices.Collect(maps.Keys(e.Gangs))
		}
		for _, member := range on {
			length[member]++
			if best := out[e.Key]; best == 0 || length[member] < best {
				out[e.Key] = length[member]
			}
		}
	}
	return out
}
