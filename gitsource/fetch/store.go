package fetch

import (
	"container/list"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"maps"
	"sync"
	"time"

	"github.com/go-git/go-git/v5/plumbing"
)

const (
	// DefaultStoreBytes is what a Fetcher keeps of repositories that names no other.
	DefaultStoreBytes = 64 << 20
	// maxDepth is how often is added to what was received at first, before everything is received anew.
	maxDepth = 50
	// slackBytes may be added to the smallest repository before everything is received anew.
	slackBytes = 256 << 10
	// maxLacking is how many objects are remembered that a server does not send.
	maxLacking = 10_000
	// largestShare is the part of the store that one repository may take.
	largestShare = 2
	// waitShare is the part of its time for which a reading waits for the download of another one.
	waitShare = 4
)

// store keeps what was received of repositories, compressed as it came, so that of the next commit only what is new is
// received, and so that readings of one repository share their downloads. Those not used for longest are forgotten.
type store struct {
	most int64 // 0 is DefaultStoreBytes, less is nothing

	mu    sync.Mutex
	byKey map[storeKey]*list.Element // of *repository
	order list.List                  // used last first
	size  int64
}

// storeKey tells repositories apart, with the credentials that they are read with: what was received with some is not
// there for others.
type storeKey [sha256.Size]byte

func keyOf(req Request) storeKey {
	h := sha256.New()
	auth := req.Auth.digest()
	_, _ = h.Write(auth[:])                                                                      // a hash does not fail
	_, _ = h.Write(binary.BigEndian.AppendUint64(nil, uint64(req.Budget.Limits().MaxFileBytes))) //nolint:gosec // limits are positive
	_, _ = h.Write([]byte(req.URL))
	return storeKey(h.Sum(nil))
}

// repository is what the store has of one. Its fields are the store's to read and to change.
type repository struct {
	key   storeKey
	users int // readings that use it: it is not forgotten
	// turn is taken by who downloads.
	turn chan struct{}
	held
	// retired is the size of what was replaced, and may still be used.
	retired int64
}

// held is what was received of a repository.
type held struct {
	top *segment
	// commits are those that were received, by what was asked for: themselves, or annotated tags of them.
	commits map[plumbing.Hash]plumbing.Hash
	// lacking are objects that the server does not send even with everything else: they are too large.
	lacking map[plumbing.Hash]bool
}

// size is about what it takes in memory.
func (h *held) size() int64 {
	if h.top == nil {
		return 0
	}
	return h.top.memory()
}

// use returns a repository until it is released.
func (s *store) use(key storeKey) (r *repository, release func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := s.byKey[key]; e != nil {
		s.order.MoveToFront(e)
		r = repositoryOf(e)
	} else {
		if s.byKey == nil {
			s.byKey = map[storeKey]*list.Element{}
		}
		r = &repository{key: key, turn: make(chan struct{}, 1)}
		s.byKey[key] = s.order.PushFront(r)
	}
	r.users++
	return r, func() { s.release(r) }
}

func (s *store) release(r *repository) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.users--; r.users > 0 {
		return
	}
	s.size -= r.retired
	r.retired = 0
	if r.top == nil {
		s.order.Remove(s.byKey[r.key])
		delete(s.byKey, r.key)
	}
}

// held is what there is of a repository at the moment.
func (s *store) held(r *repository) held {
	s.mu.Lock()
	defer s.mu.Unlock()
	return r.held
}

// put keeps what was received when a commit, or a tag of it, was asked for, unless there is no room for it.
func (s *store) put(r *repository, top *segment, asked, commit plumbing.Hash) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := r.held
	now := held{top: top, commits: map[plumbing.Hash]plumbing.Hash{asked: commit}}
	grown := before.top != nil && before.top.whole() == top.whole()
	if grown {
		now.lacking = before.lacking
		maps.Copy(now.commits, before.commits)
	}
	size := now.size() - before.size()
	if !grown && r.users > 1 {
		size += before.size()
	}
	if now.size() > s.limit()/largestShare || !s.makeRoom(size) {
		return
	}
	if !grown && r.users > 1 {
		r.retired += before.size()
	}
	r.held, s.size = now, s.size+size
}

func (s *store) limit() int64 {
	if s.most == 0 {
		return DefaultStoreBytes
	}
	return s.most
}

// makeRoom forgets repositories that nobody uses until there is room for so many bytes more.
func (s *store) makeRoom(size int64) bool {
	most := s.limit()
	for e := s.order.Back(); e != nil && s.size+size > most; {
		r, next := repositoryOf(e), e.Prev()
		if r.users == 0 {
			s.size -= r.size()
			s.order.Remove(e)
			delete(s.byKey, r.key)
		}
		e = next
	}
	return s.size+size <= most
}

// addLacking remembers what the server did not send with everything else.
func (s *store) addLacking(r *repository, whole *segment, lost map[plumbing.Hash]bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.top == nil || r.top.whole() != whole || len(r.lacking)+len(lost) > maxLacking {
		return
	}
	lacking := maps.Clone(lost) // others may read the one that is there
	maps.Copy(lacking, r.lacking)
	r.lacking = lacking
}

// take waits for the turn to download. Who has waited for a part of its time goes on without one: whoever has the turn may
// be about to fail.
func (r *repository) take(ctx context.Context) (end func()) {
	select {
	case r.turn <- struct{}{}:
		return func() { <-r.turn }
	default:
	}
	if deadline, ok := ctx.Deadline(); ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, deadline.Add(-time.Until(deadline)*(waitShare-1)/waitShare)) //nolint:forbidigo // a part of the time that is left
		defer cancel()
	}
	select {
	case r.turn <- struct{}{}:
		return func() { <-r.turn }
	case <-ctx.Done():
		return func() {}
	}
}

// mayGrow says whether something may be added to what is held, so that its limits are those of what is received at once.
func (h *held) mayGrow(maxInflated int64) bool {
	if h.top == nil {
		return false
	}
	whole := h.top.whole()
	return h.top.depth <= maxDepth && h.top.bytes-whole.bytes <= whole.bytes/2+slackBytes && h.top.inflated <= maxInflated/2
}

// lacks says whether all that was not found is known not to be sent.
func (h *held) lacks(lost map[plumbing.Hash]bool) bool {
	if len(lost) > maxLacking {
		return false
	}
	for hash := range lost {
		if !h.lacking[hash] {
			return false
		}
	}
	return true
}

func repositoryOf(e *list.Element) *repository {
	return e.Value.(*repository) //nolint:forcetypeassert // nothing else is put into the list
}
