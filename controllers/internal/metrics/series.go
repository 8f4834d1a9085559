package metrics

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"
)

// ofMembers have the label member.
var ofMembers = []interface {
	DeletePartialMatch(prometheus.Labels) int
}{runsStarted, runsEnded, applied, applyFailed, repaired, stale}

// members are those that have series.
var members = seen{names: map[string]bool{}}

// seen remembers which values a label has had.
type seen struct {
	mu    sync.Mutex
	names map[string]bool
}

// note says whether a name is new.
func (s *seen) note(name string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	known := s.names[name]
	s.names[name] = true
	return !known
}

// without returns the names that are not among those given, and forgets them.
func (s *seen) without(keep map[string]bool) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []string
	for name := range s.names {
		if !keep[name] {
			delete(s.names, name)
			out = append(out, name)
		}
	}
	return out
}

// beginMember has the counters of a member begin at 0, so that the first thing that is counted is an increase.
func beginMember(name string) {
	if !members.note(name) {
		return
	}
	for _, vec := range []*prometheus.CounterVec{runsStarted, applyFailed, repaired, stale} {
		vec.WithLabelValues(name)
	}
	for _, result := range results {
		runsEnded.WithLabelValues(name, string(result))
	}
}

// forgetMembers deletes the series of all members but those given. One that is counted for at the same time comes back,
// and is deleted the next time.
func forgetMembers(keep map[string]bool) {
	for _, name := range members.without(keep) {
		for _, vec := range ofMembers {
			vec.DeletePartialMatch(prometheus.Labels{"member": name})
		}
	}
}
