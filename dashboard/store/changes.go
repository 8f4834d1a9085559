package store

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/minifleet/minifleet/internal/view"
)

// kind says what a change is about.
type kind uint8

const (
	miniCluster kind = iota
	member
	source
)

// change says that an object is, or is not, any more what it was.
type change struct {
	kind kind
	// queue says that it waits, or waited, for room.
	queue bool
	key   Key
}

// log remembers the latest changes, in a ring. They are numbered from 1.
type log struct {
	epoch   string
	ring    []change
	last    uint64
	changed chan struct{} // closed at the next change
}

func newLog(epoch string, most int) log {
	return log{epoch: epoch, ring: make([]change, most), changed: make(chan struct{})}
}

func (l *log) add(c change) {
	l.last++
	l.ring[l.last%uint64(len(l.ring))] = c
	close(l.changed)
	l.changed = make(chan struct{})
}

func (l *log) cursor() string { return l.epoch + "-" + strconv.FormatUint(l.last, 10) }

// after reads a cursor; ok is false for one whose next changes are not remembered.
func (l *log) after(cursor string) (number uint64, ok bool) {
	epoch, text, _ := strings.Cut(cursor, "-")
	number, err := strconv.ParseUint(text, 10, 64)
	return number, err == nil && epoch == l.epoch && number <= l.last && l.last-number <= uint64(len(l.ring))
}

// Cursor is that of the latest change. Taken before a list is read, nothing is missed between the two.
func (s *Store) Cursor() string {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.log.cursor()
}

// Changed is closed at the next change after a cursor; at once if there has been one.
func (s *Store) Changed(cursor string) <-chan struct{} {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if cursor != s.log.cursor() {
		return closed
	}
	return s.log.changed
}

var closed = func() chan struct{} { c := make(chan struct{}); close(c); return c }()

// Reader says what somebody may see. Place is the place in the line for room of a FleetMiniCluster, 0 for none.
type Reader struct {
	MiniClusters, Sources view.Sees
	Members               bool
	Place                 func(Key) int32
}

// Changes are the objects that a reader may see and that have changed after a cursor, each once and as it is now.
func (s *Store) Changes(after string, r Reader) view.Change {
	s.mu.RLock()
	defer s.mu.RUnlock()
	out := view.Change{Cursor: s.log.cursor(), MiniClusters: []view.Row{}, Removed: []view.Ref{}, Members: []string{}, Sources: []view.Ref{}}
	from, ok := s.log.after(after)
	if !ok {
		out.Reset = true
		return out
	}
	changed := map[change]bool{}
	for n := from + 1; n <= s.log.last; n++ {
		c := s.log.ring[n%uint64(len(s.log.ring))]
		// When one that is hidden is no longer in the line, those behind it are reconciled, and that is told.
		if c.queue && r.MiniClusters(c.key.Namespace) {
			out.Queue = true
		}
		c.queue = false
		changed[c] = true
	}
	for c := range maps.Keys(changed) {
		s.tell(&out, c, r)
	}
	sortChange(&out)
	return out
}

// tell adds an object to a change, if the reader may see it. The store is locked.
func (s *Store) tell(out *view.Change, c change, r Reader) {
	ref := view.Ref{Namespace: c.key.Namespace, Name: c.key.Name}
	switch {
	case c.kind == member:
		if r.Members {
			out.Members = append(out.Members, c.key.Name)
		}
	case c.kind == source:
		if r.Sources(c.key.Namespace) {
			out.Sources = append(out.Sources, ref)
		}
	case !r.MiniClusters(c.key.Namespace):
	default:
		e := s.miniClusters[c.key.Namespace][c.key.Name]
		if e == nil {
			out.Removed = append(out.Removed, ref)
			return
		}
		out.MiniClusters = append(out.MiniClusters, e.For(r.MiniClusters, r.place(c.key)))
	}
}

func (r *Reader) place(key Key) int32 {
	if r.Place == nil {
		return 0
	}
	return r.Place(key)
}

func sortChange(c *view.Change) {
	slices.SortFunc(c.MiniClusters, func(a, b view.Row) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	byName := func(a, b view.Ref) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	}
	slices.SortFunc(c.Removed, byName)
	slices.SortFunc(c.Sources, byName)
	slices.Sort(c.Members)
}
