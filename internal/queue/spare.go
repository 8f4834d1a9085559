package queue

import (
	"sync"

	"github.com/minifleet/minifleet/internal/fit"
	"github.com/minifleet/minifleet/internal/fleet"
	"github.com/minifleet/minifleet/internal/nodeusage"
)

// spare is what a member has free, less what is reserved there, and how gangs fit into that. It is the same for all who have
// reserved nothing there, so that a placement over many members works on those alone of which something has changed. It is a
// value, which remembers answers, and is safe for concurrent use.
type spare struct {
	room  *nodeusage.Room
	table *fit.Table
	// unplaced are the pods that have reserved room and have no node.
	unplaced []fit.Unplaced

	mu   sync.Mutex
	fits map[shape]fit.Result
	held map[shape]bool
	// rivals are the contenders of the line that was asked for last.
	rivals *contenders
}

// maxShapes is for how many different gangs answers are remembered on a member.
const maxShapes = 32

// spare is what a FleetMiniCluster finds on a member. The queue is locked.
func (q *Queue) spare(member string, room *nodeusage.Room, self Key) *spare {
	if q.on[self][member] {
		return newSpare(room, q, member, self)
	}
	s := q.spares[member]
	if s == nil || s.room != room {
		s = newSpare(room, q, member, Key{})
		q.spares[member] = s
	}
	return s
}

func newSpare(room *nodeusage.Room, q *Queue, member string, self Key) *spare {
	nodes, unplaced := q.free(member, room, self)
	return spareOf(room, nodes, unplaced)
}

func spareOf(room *nodeusage.Room, nodes []fleet.Node, unplaced []fit.Unplaced) *spare {
	return &spare{room: room, table: fit.NewTable(nodes), unplaced: unplaced, fits: map[shape]fit.Result{}, held: map[shape]bool{}}
}

// check says how a gang fits. What is not known fits.
func (s *spare) check(g fit.Gang) fit.Result {
	if s.room.State != nodeusage.Known {
		return fit.Result{Fits: true, Pods: g.Size}
	}
	return remembered(s, s.fits, g, s.table.Check)
}

// holds says whether a gang would fit once everything had ended that ever ends.
func (s *spare) holds(g fit.Gang) bool {
	return s.room.State != nodeusage.Known || remembered(s, s.held, g, s.table.Holds)
}

// contenders are those of a line of the member.
func (s *spare) contenders(l *line) *contenders {
	s.mu.Lock()
	known := s.rivals
	s.mu.Unlock()
	if known != nil && known.of == l {
		return known
	}
	c := contendersOf(l, s.holds)
	s.mu.Lock()
	s.rivals = c
	s.mu.Unlock()
	return c
}

// remembered asks only if nobody has asked for a gang of the same shape.
func remembered[T any](s *spare, known map[shape]T, g fit.Gang, ask func(fit.Gang) T) T {
	s.mu.Lock()
	defer s.mu.Unlock()
	key := shapeOf(g)
	if out, ok := known[key]; ok {
		return out
	}
	out := ask(g)
	if len(known) >= maxShapes {
		clear(known)
	}
	known[key] = out
	return out
}
