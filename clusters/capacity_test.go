package clusters

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/minifleet/minifleet/api/v1alpha1"
)

func resources(cpu, memory string, gpus int64) corev1.ResourceList {
	l := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory)}
	if gpus > 0 {
		l["nvidia.com/gpu"] = *resource.NewQuantity(gpus, resource.DecimalSI)
	}
	return l
}

func nodeOf(uid string, unschedulable bool, l corev1.ResourceList) *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{UID: types.UID(uid), Name: uid},
		Spec:       corev1.NodeSpec{Unschedulable: unschedulable}, Status: corev1.NodeStatus{Allocatable: l},
	}
}

func podOf(uid, node string, l corev1.ResourceList) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{UID: types.UID(uid), Name: uid},
		Spec:       corev1.PodSpec{NodeName: node, Containers: []corev1.Container{{Resources: corev1.ResourceRequirements{Requests: l}}}},
	}
}

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
	for milli, want := range map[int64]string{0: "0", 99: "0", 100: "100m", 1000: "1", 1550: "1500m", 64000: "64"} {
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

func TestCapacityIsReportedOnceComplete(t *testing.T) {
	c := newCapacity(nil)
	full := func() bool {
		select {
		case <-c.full:
			return true
		default:
			return false
		}
	}
	take := func(want *v1alpha1.MemberCapacity) {
		t.Helper()
		got, ok := c.take()
		if diff := cmp.Diff(want, got); diff != "" || ok != (want != nil) {
			t.Error(diff)
		}
	}
	take(nil)
	_ = nodeStore{c}.Replace([]any{nodeOf("a", false, resources("4", "8Gi", 2)), nodeOf("b", true, resources("4", "8Gi", 2))}, "")
	if full() {
		t.Error("it is reported before pods are known")
	}
	_ = podStore{c}.Replace([]any{podOf("p", "a", resources("1500m", "1Gi", 1))}, "")
	if !full() {
		t.Error("it is not reported although both lists are known")
	}
	take(&v1alpha1.MemberCapacity{Nodes: 2, CPU: "2500m/4", Memory: "7Gi/8Gi", GPUs: "1/2"})
	take(nil) // nothing has changed
	_ = nodeStore{c}.Update(nodeOf("a", false, resources("4", "8Gi", 2)))
	take(nil) // a heartbeat
	_ = nodeStore{c}.Update(nodeOf("b", false, resources("4", "8Gi", 0)))
	take(&v1alpha1.MemberCapacity{Nodes: 2, CPU: "6500m/8", Memory: "15Gi/16Gi", GPUs: "1/2"})
	_ = nodeStore{c}.Delete(nodeOf("a", false, nil))
	_ = podStore{c}.Delete(podOf("p", "a", nil))
	take(&v1alpha1.MemberCapacity{Nodes: 1, CPU: "4/4", Memory: "8Gi/8Gi"})
	_ = nodeStore{c}.Add("not a node")
	_ = podStore{c}.Delete("not a pod")
	take(nil)
}

// After any sequence of events the sums are those of what is there.
func TestCapacityNeverDrifts(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	c := newCapacity(nil)
	nodes, pods := map[string]*corev1.Node{}, map[string]*corev1.Pod{}
	some := func() corev1.ResourceList {
		return resources(fmt.Sprintf("%dm", random.IntN(64000)), fmt.Sprint(random.IntN(1<<40)), int64(random.IntN(3)))
	}
	for step := range 5000 {
		uid := fmt.Sprint(random.IntN(20))
		n, p := nodeOf(uid, random.IntN(3) == 0, some()), podOf(uid, fmt.Sprint(random.IntN(20)), some())
		switch random.IntN(8) {
		case 0, 1:
			nodes[uid] = n
			_ = nodeStore{c}.Add(n)
		case 2:
			nodes[uid] = n
			_ = nodeStore{c}.Update(n)
		case 3:
			delete(nodes, uid)
			_ = nodeStore{c}.Delete(n)
		case 4, 5:
			pods[uid] = p
			_ = podStore{c}.Update(p)
		case 6:
			delete(pods, uid)
			_ = podStore{c}.Delete(p)
		default:
			if random.IntN(20) > 0 {
				continue
			}
			delete(nodes, uid)
			pods[uid] = p
			_ = nodeStore{c}.Replace(list(nodes), "")
			_ = podStore{c}.Replace(asListed(t, podStore{c}, list(pods), random.IntN(2) == 0), "")
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
		gotTotal, gotUsed := c.sums()
		if gotTotal != total || gotUsed != used || len(c.nodes) != len(nodes) || len(c.pods) != len(pods) {
			t.Fatalf("step %d: total %+v and used %+v, want %+v and %+v", step, gotTotal, gotUsed, total, used)
		}
	}
}

// asListed is a list as the store is given it: of pods, or of what they were transformed to as they came.
func asListed(t *testing.T, s podStore, pods []any, transformed bool) []any {
	t.Helper()
	for i, p := range pods {
		out, err := s.Transformer()(p)
		if _, whole := out.(*corev1.Pod); whole || err != nil {
			t.Fatalf("a pod is transformed to %T: %v", out, err)
		}
		if transformed {
			pods[i] = out
		}
	}
	return pods
}

func list[T any](m map[string]T) []any {
	var out []any
	for _, v := range m {
		out = append(out, v)
	}
	return out
}
