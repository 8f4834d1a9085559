package receiver

import (
	"crypto/sha256"
	"sync"
	"time"

	"golang.org/x/time/rate"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/lru"

	"github.com/minifleet/minifleet/api/v1alpha1"
)

// Hook says by what a forge is known, and what concerns a source.
type Hook struct {
	// Source, UID and Generation are those of the GitSource.
	Source     types.NamespacedName
	UID        types.UID
	Generation int64
	Type       v1alpha1.ReceiverType
	// Token is shared with the forge.
	Token []byte
	// Ref is what the source follows; empty for the default branch.
	Ref v1alpha1.GitRef
}

// hook is a Hook and what it has used up.
type hook struct {
	Hook
	path      string
	requests  *allowance
	namespace *allowance

	mu     sync.Mutex
	pace   pace
	logged time.Time // the last refusal
	pinged time.Time // the last ping that was told of
}

// digest stands for a path: how long it takes to find one tells nothing of those that are there.
type digest [sha256.Size]byte

// hooks are those of all sources.
type hooks struct {
	limits Limits
	all    *allowance
	none   *allowance

	mu         sync.Mutex
	byPath     map[digest]*hook
	bySource   map[types.NamespacedName]*hook
	namespaces map[string]*allowance
	strangers  *lru.Cache // of *allowance, by digest: paths without a hook answer as others do
}

// maxStrangers is for how many paths without a hook requests are counted.
const maxStrangers = 4096

func newHooks(l Limits) *hooks {
	return &hooks{
		limits: l, all: newAllowance(l.Hooks), none: newAllowance(l.Unknown), strangers: lru.New(maxStrangers),
		byPath: map[digest]*hook{}, bySource: map[types.NamespacedName]*hook{}, namespaces: map[string]*allowance{},
	}
}

// put adds the hook of a source, or replaces it, and returns its path.
func (s *hooks) put(h Hook) (string, error) {
	path, err := pathOf(h.Token, h.Source, h.UID)
	if err != nil {
		s.remove(h.Source)
		return "", err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	next := &hook{Hook: h, path: path}
	if before := s.bySource[h.Source]; before != nil {
		s.removeLocked(before)
		if before.path == path {
			before.mu.Lock()
			next.pace, next.logged, next.pinged = before.pace, before.logged, before.pinged
			before.mu.Unlock()
			next.requests = before.requests
		}
	}
	if next.requests == nil {
		next.requests = newAllowance(s.limits.Path)
		next.pace.rate = rate.NewLimiter(rate.Limit(s.limits.Triggers.PerSecond), s.limits.Triggers.Burst)
	}
	if s.namespaces[h.Source.Namespace] == nil {
		s.namespaces[h.Source.Namespace] = newAllowance(s.limits.Namespace)
	}
	next.namespace = s.namespaces[h.Source.Namespace]
	s.byPath[sha256.Sum256([]byte(path))] = next
	s.bySource[h.Source] = next
	return path, nil
}

func (s *hooks) remove(source types.NamespacedName) {
	s.mu.Lock()
	defer s.mu.Unlock()
	h := s.bySource[source]
	if h == nil {
		return
	}
	s.removeLocked(h)
	for other := range s.bySource {
		if other.Namespace == source.Namespace {
			return
		}
	}
	delete(s.namespaces, source.Namespace)
}

func (s *hooks) removeLocked(h *hook) {
	delete(s.byPath, sha256.Sum256([]byte(h.path)))
	delete(s.bySource, h.Source)
}

// path is that of a source as it is in one generation; empty where that has no hook yet.
func (s *hooks) path(source types.NamespacedName, uid types.UID, generation int64) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if h := s.bySource[source]; h != nil && h.UID == uid && h.Generation == generation {
		return h.path
	}
	return ""
}

// find returns the hook of a path, nil where there is none, and how many requests the path may still have.
func (s *hooks) find(path string) (*hook, *allowance) {
	key := digest(sha256.Sum256([]byte(path)))
	s.mu.Lock()
	defer s.mu.Unlock()
	if h := s.byPath[key]; h != nil {
		return h, h.requests
	}
	if kept, ok := s.strangers.Get(key); ok {
		if a, is := kept.(*allowance); is {
			return nil, a
		}
	}
	a := newAllowance(s.limits.Path)
	s.strangers.Add(key, a)
	return nil, a
}
