package curvesecret

import (
	"maps"

	"k8s.io/apimachinery/pkg/types"
)

// MayBeLeft says whether a FleetMiniCluster that is new may have the name of an earlier one whose certificate is still there, and so
// may what it was made for. It asks nobody: a deletion was told of (Deleted), or Collect has found one, or has found none yet.
func (s *Store) MayBeLeft(name types.NamespacedName) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.hasListed || s.left[name]
}

// Deleted is told of a FleetMiniCluster with runs that is no more. Unless Delete has deleted its certificate, somebody has taken its
// finalizer off.
func (s *Store) Deleted(name types.NamespacedName, uid types.UID) {
	s.mu.Lock()
	is := s.deleted[uid]
	delete(s.deleted, uid)
	s.mu.Unlock()
	if !is {
		s.note(name)
	}
}

func (s *Store) note(name types.NamespacedName) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.left == nil {
		s.left = map[types.NamespacedName]bool{}
	}
	s.left[name] = true
}

func (s *Store) noteDeleted(uid types.UID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.deleted == nil {
		s.deleted = map[types.UID]bool{}
	}
	s.deleted[uid] = true
}

// namesLeft are those that were noted so far.
func (s *Store) namesLeft() map[types.NamespacedName]bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.left)
}

// noteListed takes note that all certificates were listed since, and that those of some names are there no longer.
func (s *Store) noteListed(gone map[types.NamespacedName]bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hasListed, s.deleted = true, nil
	maps.DeleteFunc(s.left, func(name types.NamespacedName, _ bool) bool { return gone[name] })
}
