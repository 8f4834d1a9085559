package auth

import (
	"encoding/base64"
	"fmt"
	"io"
	"sync"
	"time"
)

const idBytes = 32

// randomID returns 256 random bits as 43 characters of URL-safe base64.
func randomID(source io.Reader) (string, error) {
	var b [idBytes]byte
	if _, err := io.ReadFull(source, b[:]); err != nil {
		return "", fmt.Errorf("no randomness: %w", err)
	}
	return base64.RawURLEncoding.EncodeToString(b[:]), nil
}

// store keeps values under the hashes of random ids that only browsers have. It is bounded, in all and for each owner:
// one more drops the oldest.
type store[T any] struct {
	most, perOwner int
	idle           time.Duration
	now            func() time.Time
	rand           io.Reader

	mu      sync.Mutex
	entries map[digest]*entry[T]
	order   uint64
}

type entry[T any] struct {
	value         T
	owner         string
	order         uint64
	used, expires time.Time
}

func newStore[T any](most, perOwner int, idle time.Duration, now func() time.Time, source io.Reader) *store[T] {
	return &store[T]{most: most, perOwner: perOwner, idle: idle, now: now, rand: source, entries: map[digest]*entry[T]{}}
}

// add returns the new id under which use and take have the value until it expires.
func (s *store[T]) add(value T, owner string, expires time.Time) (string, error) {
	id, err := randomID(s.rand)
	if err != nil {
		return "", err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	for key, e := range s.entries {
		if s.over(e, now) {
			delete(s.entries, key)
		}
	}
	s.drop(s.perOwner, func(e *entry[T]) bool { return e.owner == owner })
	s.drop(s.most, func(*entry[T]) bool { return true })
	s.order++
	s.entries[digestOf(id)] = &entry[T]{value: value, owner: owner, order: s.order, used: now, expires: expires}
	return id, nil
}

// drop removes the oldest of those that match if there are so many.
func (s *store[T]) drop(most int, match func(*entry[T]) bool) {
	var oldest digest
	n, order := 0, s.order+1
	for key, e := range s.entries {
		if !match(e) {
			continue
		}
		n++
		if e.order < order {
			oldest, order = key, e.order
		}
	}
	if n >= most {
		delete(s.entries, oldest)
	}
}

func (s *store[T]) over(e *entry[T], now time.Time) bool {
	return !now.Before(e.expires) || now.Sub(e.used) >= s.idle
}

// use returns what is under a key, for which it is not idle now.
func (s *store[T]) use(key digest) (value T, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e, ok := s.entries[key]
	if !ok {
		return value, false
	}
	now := s.now()
	if s.over(e, now) {
		delete(s.entries, key)
		return value, false
	}
	e.used = now
	return e.value, true
}

// take returns what is under a key once.
func (s *store[T]) take(key digest) (T, bool) {
	value, ok := s.use(key)
	if ok {
		ok = s.end(key)
	}
	return value, ok
}

// end removes what is under a key, and says whether there was something.
func (s *store[T]) end(key digest) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, ok := s.entries[key]
	delete(s.entries, key)
	return ok
}
