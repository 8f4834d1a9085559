package queue

import (
	"hash/maphash"
	"maps"

	"github.com/minifleet/minifleet/internal/fit"
)

// sharedGangs are what entries wait for, by member, of which those that are equal are kept once: many wait for the same on
// as many members as there are.
type sharedGangs struct {
	seed maphash.Seed
	maps map[gangsKey]map[string]fit.Gang
}

// gangsKey is the same for equal gangs on equal members, and hardly ever for others.
type gangsKey struct {
	members int
	hash    uint64
}

// maxShared is how many different ones are remembered.
const maxShared = 256

// of is a map that is equal to the one given. It is not to be changed.
func (s *sharedGangs) of(gangs map[string]fit.Gang) map[string]fit.Gang {
	if s.maps == nil {
		s.seed, s.maps = maphash.MakeSeed(), map[gangsKey]map[string]fit.Gang{}
	}
	key := gangsKey{members: len(gangs)}
	for member, g := range gangs {
		key.hash += maphash.Comparable(s.seed, struct {
			string
			shape
		}{member, shapeOf(g)})
	}
	if known, ok := s.maps[key]; ok && maps.EqualFunc(known, gangs, alike) {
		return known
	}
	if len(s.maps) >= maxShared {
		clear(s.maps)
	}
	s.maps[key] = gangs
	return gangs
}

// alike says whether two gangs need the same.
func alike(a, b fit.Gang) bool { return shapeOf(a) == shapeOf(b) }
