package queue

import (
	"maps"
	"slices"
)

// Copy is a queue with the same reservations and the same line. What is done to it is not done to this one: it is for
// finding out what would become of FleetMiniClusters that are not there.
func (q *Queue) Copy() *Queue {
	q.mu.Lock()
	defer q.mu.Unlock()
	out := New()
	out.restored, out.since, out.clock = q.restored, q.since, q.clock
	out.version, out.pending, out.namespaces, out.rooms = maps.Clone(q.version), maps.Clone(q.pending), maps.Clone(q.namespaces), maps.Clone(q.rooms)
	out.newer, out.known = maps.Clone(q.newer), maps.Clone(q.known)
	if out.newer == nil {
		out.newer = map[Key]bool{}
	}
	for member, all := range q.reserved {
		out.reserved[member] = maps.Clone(all)
	}
	for key, members := range q.on {
		out.on[key] = maps.Clone(members)
	}
	out.runs, out.spares, out.orders = maps.Clone(q.runs), maps.Clone(q.spares), maps.Clone(q.orders)
	out.anywhere = maps.Clone(q.anywhere)
	for member, waiting := range q.waiting {
		out.waiting[member] = maps.Clone(waiting)
	}
	for namespace, line := range q.lines {
		out.lines[namespace] = slices.Clone(line)
	}
	for member, served := range q.served {
		out.served[member] = maps.Clone(served)
	}
	for member, s := range q.shares {
		own := *s
		own.terms = maps.Clone(s.terms)
		out.shares[member] = &own
	}
	return out
}
