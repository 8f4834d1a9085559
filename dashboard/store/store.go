// Package store keeps, ready to be sent, what people see of the hub's objects, and which of them have changed.
//
// It is fed by the informers of the hub's cache, or by calls of its methods. Objects in it are shared with the cache and
// are never changed; what a reader gets is shared, too. All methods may be called by several goroutines at once.
package store

import (
	"cmp"
	"maps"
	"reflect"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/types"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/internal/view"
)

// Key is a namespace and a name.
type Key = types.NamespacedName

// Store is the read model.
type Store struct {
	mu           sync.RWMutex
	miniClusters map[string]map[string]*view.Entry // by namespace and name
	sources      map[Key]*v1alpha1.GitSource
	members      map[string]*v1alpha1.MemberCluster
	// stale and commits are replaced and not changed, since contexts hold them.
	stale   map[string]view.Stale
	commits map[Key]map[string]*view.Commit
	log     log
}

// DefaultLog is how many changes are remembered.
const DefaultLog = 8192

// New returns an empty store that remembers so many changes. The epoch tells its cursors from those of another one.
func New(epoch string, changes int) *Store {
	return &Store{
		miniClusters: map[string]map[string]*view.Entry{}, sources: map[Key]*v1alpha1.GitSource{}, members: map[string]*v1alpha1.MemberCluster{},
		stale: map[string]view.Stale{}, commits: map[Key]map[string]*view.Commit{}, log: newLog(epoch, changes),
	}
}

// SetMiniCluster adds or replaces a FleetMiniCluster.
func (s *Store) SetMiniCluster(f *v1alpha1.FleetMiniCluster) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := s.miniClusters[f.Namespace][f.Name]
	if before != nil && before.Object.ResourceVersion == f.ResourceVersion && f.ResourceVersion != "" {
		return // listed again
	}
	s.put(before, view.EntryOf(f, s.context(f, nil)))
}

// put makes an entry the current one, and notes that. The store is locked.
func (s *Store) put(before, e *view.Entry) {
	namespace, name := e.Row.Namespace, e.Row.Name
	if s.miniClusters[namespace] == nil {
		s.miniClusters[namespace] = map[string]*view.Entry{}
	}
	s.miniClusters[namespace][name] = e
	s.log.add(change{kind: miniCluster, key: Key{Namespace: namespace, Name: name}, queue: e.WaitsForRoom || before != nil && before.WaitsForRoom})
}

// DeleteMiniCluster removes a FleetMiniCluster.
func (s *Store) DeleteMiniCluster(key Key) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := s.miniClusters[key.Namespace][key.Name]
	if before == nil {
		return
	}
	delete(s.miniClusters[key.Namespace], key.Name)
	if len(s.miniClusters[key.Namespace]) == 0 {
		delete(s.miniClusters, key.Namespace)
	}
	s.log.add(change{kind: miniCluster, key: key, queue: before.WaitsForRoom})
}

// SetMember adds or replaces a member. Where it was lost or is back, the rows of what it has are different.
func (s *Store) SetMember(m *v1alpha1.MemberCluster) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if before := s.members[m.Name]; before != nil && before.ResourceVersion == m.ResourceVersion && m.ResourceVersion != "" {
		return
	}
	s.members[m.Name] = m
	s.log.add(change{kind: member, key: Key{Name: m.Name}})
	stale, isStale := view.StaleOf(m)
	s.setStale(m.Name, stale, isStale)
}

// DeleteMember removes a member.
func (s *Store) DeleteMember(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.members[name] == nil {
		return
	}
	delete(s.members, name)
	s.log.add(change{kind: member, key: Key{Name: name}})
	s.setStale(name, view.Stale{}, false)
}

// setStale notes whether a member can be reached. The store is locked.
func (s *Store) setStale(name string, stale view.Stale, isStale bool) {
	before, was := s.stale[name]
	if was == isStale && reflect.DeepEqual(before, stale) {
		return
	}
	next := maps.Clone(s.stale)
	delete(next, name)
	if isStale {
		next[name] = stale
	}
	s.stale = next
	s.refresh(func(e *view.Entry) bool { return slices.Contains(e.Row.Members, name) })
}

// SetSource adds or replaces a GitSource.
func (s *Store) SetSource(g *v1alpha1.GitSource) {
	s.mu.Lock()
	defer s.mu.Unlock()
	key := Key{Namespace: g.Namespace, Name: g.Name}
	if before := s.sources[key]; before != nil && before.ResourceVersion == g.ResourceVersion && g.ResourceVersion != "" {
		return
	}
	s.sources[key] = g
	s.log.add(change{kind: source, key: key})
	s.setCommits(key, view.CommitsOf(g))
}

// DeleteSource removes a GitSource.
func (s *Store) DeleteSource(key Key) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sources[key] == nil {
		return
	}
	delete(s.sources, key)
	s.log.add(change{kind: source, key: key})
	s.setCommits(key, nil)
}

// setCommits notes the commits of a source. The store is locked.
func (s *Store) setCommits(key Key, commits map[string]*view.Commit) {
	if reflect.DeepEqual(s.commits[key], commits) {
		return
	}
	delete(s.commits, key)
	if len(commits) > 0 {
		s.commits[key] = commits
	}
	s.refresh(func(e *view.Entry) bool { return e.Row.Namespace == key.Namespace && e.Row.Source == key.Name })
}

// refresh computes the rows anew that may be different, and notes those that are. The store is locked.
func (s *Store) refresh(affected func(*view.Entry) bool) {
	for _, names := range s.miniClusters {
		for _, e := range names {
			if !affected(e) {
				continue
			}
			next := view.EntryOf(e.Object, s.context(e.Object, nil))
			if !reflect.DeepEqual(next.Row, e.Row) {
				s.put(e, next)
			}
		}
	}
}

// context is what is known besides a FleetMiniCluster. The store is locked.
func (s *Store) context(f *v1alpha1.FleetMiniCluster, sees view.Sees) view.Context {
	return view.Context{Stale: s.stale, Commits: s.commits[Key{Namespace: f.Namespace, Name: f.Labels[v1alpha1.LabelSource]}], Sees: sees}
}

// Contexts says for a reader what is known besides a FleetMiniCluster.
func (s *Store) Contexts(sees view.Sees) view.Contexts {
	return func(e *view.Entry) view.Context {
		s.mu.RLock()
		defer s.mu.RUnlock()
		return s.context(e.Object, sees)
	}
}

// MiniClusters are those of the namespaces that a reader may see, in no order.
func (s *Store) MiniClusters(sees view.Sees) []*view.Entry {
	s.mu.RLock()
	defer s.mu.RUnlock()
	out := []*view.Entry{}
	for namespace, names := range s.miniClusters {
		if sees == nil || sees(namespace) {
			out = slices.AppendSeq(slices.Grow(out, len(names)), maps.Values(names))
		}
	}
	return out
}

// MiniCluster is one of them; nil if there is none.
func (s *Store) MiniCluster(key Key) *view.Entry {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.miniClusters[key.Namespace][key.Name]
}

// Namespaces are those that have FleetMiniClusters or GitSources.
func (s *Store) Namespaces() []string {
	s.mu.RLock()
	defer s.mu.RUnlock()
	all := map[string]bool{}
	for namespace := range s.miniClusters {
		all[namespace] = true
	}
	for key := range s.sources {
		all[key.Namespace] = true
	}
	return slices.Sorted(maps.Keys(all))
}

// Members are all of them, by name.
func (s *Store) Members() []*v1alpha1.MemberCluster {
	s.mu.RLock()
	defer s.mu.RUnlock()
	out := slices.Collect(maps.Values(s.members))
	slices.SortFunc(out, func(a, b *v1alpha1.MemberCluster) int { return cmp.Compare(a.Name, b.Name) })
	return out
}

// Member is one of them; nil if there is none.
func (s *Store) Member(name string) *v1alpha1.MemberCluster {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.members[name]
}

// Sources are those of the namespaces that a reader may see, by namespace and name.
func (s *Store) Sources(sees view.Sees) []*v1alpha1.GitSource {
	s.mu.RLock()
	defer s.mu.RUnlock()
	out := make([]*v1alpha1.GitSource, 0, len(s.sources))
	for key, g := range s.sources {
		if sees == nil || sees(key.Namespace) {
			out = append(out, g)
		}
	}
	slices.SortFunc(out, func(a, b *v1alpha1.GitSource) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return out
}

// Source is one of them; nil if there is none.
func (s *Store) Source(key Key) *v1alpha1.GitSource {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.sources[key]
}
