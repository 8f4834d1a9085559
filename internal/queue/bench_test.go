package queue_test

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/minifleet/minifleet/internal/fit"
	"github.com/minifleet/minifleet/internal/nodeusage"
	"github.com/minifleet/minifleet/internal/queue"
)

// long is a queue of 5,000 entries of 50 namespaces on a member of 100 nodes, on half of which something runs. The gangs
// are of many shapes, and the first does not fit.
func long() (*queue.Queue, *nodeusage.Room) {
	var nodes []*corev1.Node
	for i := range 100 {
		nodes = append(nodes, node(fmt.Sprintf("n%03d", i), "64", nil))
	}
	m, q := newMember(nodes...), queue.New()
	for i := range 50 {
		m.schedule(runA, fmt.Sprintf("n%03d", i), "32")
		k := queue.Key{Namespace: fmt.Sprintf("team-%02d", i), Name: "live"}
		q.Update(k, reservations{"alpine": {Run: fmt.Sprintf("%010x", i), Gang: gang(2)}}, nil)
	}
	for i := range 5000 {
		k := queue.Key{Namespace: fmt.Sprintf("team-%02d", i%50), Name: fmt.Sprint("run-", i)}
		e := queue.Entry{
			Rank:  queue.Rank{Priority: int32(i % 7), Created: hour(i % 20), Key: k},
			Gangs: map[string]fit.Gang{"alpine": gang(90+i%40, cpu("60"))}, Reconciled: hour(12),
		}
		q.Update(k, nil, &e)
	}
	q.Known("alpine", 1)
	return q, m.Room()
}

func BenchmarkQueue(b *testing.B) {
	q, room := long()
	self := queue.Rank{Priority: 0, Created: hour(23), Key: queue.Key{Namespace: "team-07", Name: "self"}}
	b.Run("ViewAndCheck", func(b *testing.B) {
		for b.Loop() {
			q.View("alpine", room, self.Key).Check(gang(1), self)
		}
	})
	b.Run("Affected", func(b *testing.B) {
		for b.Loop() {
			q.Affected("alpine", room, hour(12))
		}
	})
	b.Run("Line", func(b *testing.B) {
		for b.Loop() {
			q.Line("alpine", room, 200)
		}
	})
	b.Run("Places", func(b *testing.B) {
		for b.Loop() {
			q.Places()
		}
	})
	e := queue.Entry{Rank: self, Gangs: map[string]fit.Gang{"alpine": gang(99, cpu("60"))}}
	b.Run("Update", func(b *testing.B) {
		for b.Loop() {
			q.Update(self.Key, nil, &e)
			q.Update(self.Key, nil, nil)
		}
	})
}
