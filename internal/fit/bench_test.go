package fit_test

import (
	"fmt"
	"testing"

	"github.com/minifleet/minifleet/internal/fit"
	"github.com/minifleet/minifleet/internal/fleet"
)

// BenchmarkCheck is one decision about a member of 1,000 nodes.
func BenchmarkCheck(b *testing.B) {
	var nodes []fleet.Node
	for i := range 1000 {
		nodes = append(nodes, node(fmt.Sprint(i), "cpu", "64", "memory", "256Gi"))
	}
	g := gang(500, "cpu", "60", "memory", "200Gi")
	b.Run("Check", func(b *testing.B) {
		for b.Loop() {
			fit.Check(nodes, g)
		}
	})
	b.Run("CloneAndReserve", func(b *testing.B) {
		for b.Loop() {
			fit.Reserve(fit.Clone(nodes), g.Pod, g.Size)
		}
	})
}
