package fit_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/minifleet/minifleet/internal/fit"
	"github.com/minifleet/minifleet/internal/fleet"
)

// A table says of any gang what its nodes say.
func TestTableAgreesWithCheck(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	pick := func(of ...string) string { return of[random.IntN(len(of))] }
	for range 2000 {
		var nodes []fleet.Node
		for i := range random.IntN(6) {
			nodes = append(nodes, with(node(fmt.Sprint(i), "cpu", pick("1", "4", "7"), "memory", pick("1Gi", "8Gi")), func(n *fleet.Node) {
				n.Labels, n.Unschedulable = map[string]string{"zone": pick("a", "b")}, random.IntN(5) == 0
				n.Free = maps.Clone(n.Total)
				n.Free["cpu"] -= int64(random.IntN(6)) * 1000
				if random.IntN(3) == 0 {
					n.Total = maps.Clone(n.Total)
					n.Total["example.com/gpu"], n.Free["example.com/gpu"] = 4, int64(random.IntN(5))
					n.Taints = []corev1.Taint{{Key: "gpu", Value: pick("", "x"), Effect: corev1.TaintEffectNoSchedule}}
				}
			}))
		}
		spec := podSpec("cpu", pick("1", "2500m"), "memory", pick("0", "1Gi"), "example.com/gpu", pick("0", "0", "1"))
		if random.IntN(2) == 0 {
			spec.NodeSelector = map[string]string{"zone": pick("a", "c")}
		}
		if random.IntN(2) == 0 {
			spec.Tolerations = []corev1.Toleration{{Key: "gpu", Operator: corev1.TolerationOpExists}}
		}
		if random.IntN(3) == 0 {
			spec.Affinity = zoneAffinity(pick("a", "b"))
		}
		g := fit.Gang{Pod: fit.PodOf(spec), Size: random.IntN(12)}
		if random.IntN(3) == 0 {
			beside := fit.PodOf(podSpec("cpu", pick("1", "3")))
			g.Beside = &beside
		}
		table := fit.NewTable(nodes)
		want := fit.Check(nodes, g)
		maps.DeleteFunc(want.Free, func(_ corev1.ResourceName, n int64) bool { return n == 0 })
		if diff := cmp.Diff(want, table.Check(g)); diff != "" {
			t.Fatalf("%+v on %+v: (-want +got)\n%s", g.Pod.Key, nodes, diff)
		}
		if want, got := fit.Holds(nodes, g), table.Holds(g); want != got {
			t.Fatalf("%+v on %+v holds: %v, not %v", g.Pod.Key, nodes, got, want)
		}
	}
}

func zoneAffinity(zone string) *corev1.Affinity {
	return &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
		NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{
			{Key: "zone", Operator: corev1.NodeSelectorOpIn, Values: []string{zone}},
		}}},
	}}}
}

// BenchmarkTable is one decision about a member of 1,000 nodes that are prepared.
func BenchmarkTable(b *testing.B) {
	var nodes []fleet.Node
	for i := range 1000 {
		nodes = append(nodes, node(fmt.Sprint(i), "cpu", "64", "memory", "256Gi"))
	}
	table, g := fit.NewTable(nodes), gang(500, "cpu", "60", "memory", "200Gi")
	b.Run("Check", func(b *testing.B) {
		for b.Loop() {
			table.Check(g)
		}
	})
	b.Run("NewTable", func(b *testing.B) {
		for b.Loop() {
			fit.NewTable(nodes)
		}
	})
}
