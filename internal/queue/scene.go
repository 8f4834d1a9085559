package queue

import (
	"github.com/minifleet/minifleet/internal/fit"
	"github.com/minifleet/minifleet/internal/fleet"
	"github.com/minifleet/minifleet/internal/nodeusage"
)

// scene is a member on which those who wait have their turn, one after the other. Who may begin takes its room from those
// that follow.
type scene struct {
	line  *line
	state nodeusage.State
	spare *spare
	// nodes are those of spare until somebody begins.
	nodes []fleet.Node
	begun bool
	holds func(fit.Gang) bool
	// pending are the entries as they were told last, by who waits.
	pending map[Key]*Entry
	// waiters are those who do not begin.
	waiters waiters
	// missed are the gangs that do not fit, until somebody begins. kept is who might miss what such a gang takes: nothing is
	// freed from one turn to the next, and nobody waits any less.
	missed map[shape]fit.Result
	kept   map[shape]*Entry
	// checked is for how many it was checked whether somebody might miss what they take.
	checked int
}

// maxChecked bounds that, which goes through all nodes. Others are taken to be missed; when they are reconciled, as all
// who wait are each minute, it is checked for them alone.
const maxChecked = 100

func (q *Queue) scene(member string, room *nodeusage.Room) *scene {
	q.mu.Lock()
	defer q.mu.Unlock()
	s := &scene{line: q.line(member, room, Key{}), state: room.State, missed: map[shape]fit.Result{}, kept: map[shape]*Entry{}}
	if s.line.empty() {
		return s
	}
	s.spare = q.spare(member, room, Key{})
	s.nodes, s.waiters.placed, s.holds = s.spare.table.Nodes, s.spare.unplaced, s.spare.holds
	s.waiters.nodes = s.nodes
	s.pending = make(map[Key]*Entry)
	for _, t := range s.line.tenants {
		for _, e := range t.waiting {
			s.pending[e.Key] = q.pending[e.Key]
		}
	}
	return s
}

// latest is an entry as it was told last: it may have been reconciled since it has its place.
func (s *scene) latest(e *Entry) *Entry {
	if told := s.pending[e.Key]; told != nil {
		return told
	}
	return e
}

func (l *line) empty() bool {
	for _, t := range l.tenants {
		if len(t.waiting) > 0 {
			return false
		}
	}
	return true
}

// next is how the next one in the line fits, with its reasons if those are to be told. Behind is set where somebody waits
// before it for the same room, also if it does not fit.
func (s *scene) next(t turn, told bool) Fit {
	f := Fit{Result: s.check(t.gang)}
	if t.excess != nil {
		f.Blocked, f.Quota, f.Behind = "quota exceeded", true, t.first
		if told {
			f.Blocked = t.excess.String()
		}
		return f
	}
	first := s.first(t.gang)
	switch {
	case first == nil && f.Fits:
		s.begin(t.gang)
		return f
	case !f.Fits:
		f.Blocked = f.Miss
		if told && !t.holds {
			f.Blocked += neverFits
		}
	case told:
		f.Blocked = s.line.tenants[t.Key.Namespace].turnOf(first, t.Rank)
	default:
		f.Blocked = "its room is kept"
	}
	if first != nil {
		f.Behind = first.Key
	}
	if t.holds {
		s.waiters.entries = append(s.waiters.entries, t)
	}
	return f
}

// begin takes the room of a gang from those that follow.
func (s *scene) begin(g fit.Gang) {
	if s.state != nodeusage.Known {
		return
	}
	if !s.begun {
		s.nodes, s.begun = fit.Clone(s.nodes), true
		s.waiters.nodes = s.nodes
	}
	fit.Reserve(s.nodes, g.Pod, g.Size)
	s.waiters.place(g)
	clear(s.missed)
}

// first is who might miss what a gang takes, nil if nobody.
func (s *scene) first(g fit.Gang) *Entry {
	if s.state != nodeusage.Known {
		return nil
	}
	key := shapeOf(g)
	if e := s.kept[key]; e != nil {
		return e
	}
	var e *Entry
	if s.checked++; s.checked > maxChecked {
		e = s.waiters.competing(g)
	} else {
		e = s.waiters.delayed(g)
	}
	if e != nil {
		s.kept[key] = e
	}
	return e
}

// check says how a gang fits now.
func (s *scene) check(g fit.Gang) fit.Result {
	if s.state != nodeusage.Known {
		return fit.Result{Fits: true, Pods: g.Size}
	}
	key := shapeOf(g)
	if r, ok := s.missed[key]; ok {
		return r
	}
	if !s.begun {
		return s.spare.check(g)
	}
	r := fit.Check(s.nodes, g)
	if !r.Fits {
		s.missed[key] = r
	}
	return r
}
