package nodeusage

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

func TestAmountOf(t *testing.T) {
	l := resources("1500m", "2Gi", 2)
	l["amd.com/gpu"] = resource.MustParse("1")
	l["example.com/gpu-memory"] = resource.MustParse("99")
	if got, want := amountOf(l), (amount{cpu: 1500, memory: 2 << 30, gpu: 3}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if got := amountOf(nil); got != (amount{}) {
		t.Errorf("nothing is %+v", got)
	}
}

func TestUnits(t *testing.T) {
	for milli, want := range map[int64]string{0: "0", 99: "0", 100: "0.1", 1000: "1", 1550: "1.5", 64000: "64"} {
		if got := cores(milli); got != want {
			t.Errorf("%d millicores are %s, want %s", milli, got, want)
		}
	}
	for bytes, want := range map[int64]string{0: "0", 1<<20 - 1: "0", 1 << 20: "1Mi", 1 << 30: "1Gi", 3<<29 + 5: "1536Mi", 10<<30 + 1<<29: "10Gi", 1 << 40: "1Ti"} {
		if got := binary(bytes); got != want {
			t.Errorf("%d bytes are %s, want %s", bytes, got, want)
		}
	}
}

// After any sequence of events the sums are those of what is there.
func TestCapacityNeverDrifts(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	s := New(true)
	nodes, pods := map[string]*corev1.Node{}, map[string]*corev1.Pod{}
	some := func() corev1.ResourceList {
		return resources(fmt.Sprintf("%dm", random.IntN(64000)), fmt.Sprint(random.IntN(1<<40)), int64(random.IntN(3)))
	}
	for step := range 5000 {
		uid := fmt.Sprint(random.IntN(20))
		n, p := nodeOf(uid, random.IntN(3) == 0, some()), podOf(uid, fmt.Sprint(random.IntN(20)), some())
		switch random.IntN(8) {
		case 0, 1, 2:
			nodes[uid] = n
			s.SetNode(n)
		case 3:
			delete(nodes, uid)
			s.RemoveNode(n.UID)
		case 4, 5:
			pods[uid] = p
			s.SetPod(PodFrom(p))
		case 6:
			delete(pods, uid)
			s.RemovePod(p.UID)
		default:
			if random.IntN(20) > 0 {
				continue
			}
			delete(nodes, uid)
			pods[uid] = p
			s.ReplaceNodes(maps.Values(nodes))
			s.ReplacePods(reduced(slices.Collect(maps.Values(pods))...))
		}
		var total, used amount
		for _, n := range nodes {
			if !n.Spec.Unschedulable {
				total.add(amountOf(n.Status.Allocatable))
			}
		}
		for _, p := range pods {
			if n := nodes[p.Spec.NodeName]; n != nil && !n.Spec.Unschedulable {
				used.add(amountOf(p.Spec.Containers[0].Resources.Requests))
			}
		}
		gotTotal, gotUsed := s.totals()
		if gotTotal != total || gotUsed != used || len(s.nodes) != len(nodes) || len(s.pods) != len(pods) {
			t.Fatalf("step %d: total %+v and used %+v, want %+v and %+v", step, gotTotal, gotUsed, total, used)
		}
	}
}
