package clusters

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/internal/nodeusage"
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

// podOf is a pod on node a.
func podOf(uid string, l corev1.ResourceList) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{UID: types.UID(uid), Name: uid},
		Spec:       corev1.PodSpec{NodeName: "a", Containers: []corev1.Container{{Resources: corev1.ResourceRequirements{Requests: l}}}},
	}
}

func watching() *capacity {
	return newCapacity(&Member{Spec: v1alpha1.MemberClusterSpec{Capacity: v1alpha1.CapacityObserve}})
}

func TestCapacityIsReportedOnceComplete(t *testing.T) {
	c := watching()
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
	_ = podStore{c}.Replace([]any{podOf("p", resources("1500m", "1Gi", 1))}, "")
	if !full() {
		t.Error("it is not reported although both lists are known")
	}
	take(&v1alpha1.MemberCapacity{Nodes: 2, CPU: "2.5/4", Memory: "7Gi/8Gi", GPUs: "1/2"})
	take(nil) // nothing has changed
	_ = nodeStore{c}.Update(nodeOf("a", false, resources("4", "8Gi", 2)))
	take(nil) // a heartbeat
	_ = nodeStore{c}.Update(nodeOf("b", false, resources("4", "8Gi", 0)))
	take(&v1alpha1.MemberCapacity{Nodes: 2, CPU: "6.5/8", Memory: "15Gi/16Gi", GPUs: "1/2"})
	_ = nodeStore{c}.Delete(nodeOf("a", false, nil))
	_ = podStore{c}.Delete(podOf("p", nil))
	take(&v1alpha1.MemberCapacity{Nodes: 1, CPU: "4/4", Memory: "8Gi/8Gi"})
	_ = nodeStore{c}.Add("not a node")
	_ = podStore{c}.Delete("not a pod")
	take(nil)
}

func TestRoomState(t *testing.T) {
	state := func(want nodeusage.State, c *capacity) {
		t.Helper()
		if got := c.state(); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	c := watching()
	state(nodeusage.Pending, c)
	_ = nodeStore{c}.Replace([]any{nodeOf("a", false, nil)}, "")
	state(nodeusage.Pending, c)
	_ = podStore{c}.Replace(nil, "")
	state(nodeusage.Known, c)
	c.answered(nodeusage.Pods, &forbidden)
	state(nodeusage.Unknown, c)
	c.answered(nodeusage.Pods, fmt.Errorf("no answer")) // which says nothing
	state(nodeusage.Unknown, c)
	if got := (&Member{capacity: c}).RoomError(); got != "the member cannot be reached: no answer" {
		t.Errorf("the error is %q", got)
	}
	c.answered(nodeusage.Pods, nil)
	state(nodeusage.Known, c)
	if got := (&Member{capacity: c}).RoomError(); got != "" {
		t.Errorf("the error that is over is still %q", got)
	}
	_ = nodeStore{c}.Delete(nodeOf("a", false, nil))
	state(nodeusage.Unknown, c) // nodes come when they are needed
	state(nodeusage.Unknown, newCapacity(&Member{Spec: v1alpha1.MemberClusterSpec{Capacity: v1alpha1.CapacityNone}}))
	state(nodeusage.Unknown, newCapacity(&Member{Spec: v1alpha1.MemberClusterSpec{Namespace: "confined"}}))
}

// That the room has become known is reported at once, since all that is to be placed waits for it. Later changes
// are reported together.
func TestRoomIsReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := watching()
		ctx, stop := context.WithCancel(t.Context())
		start := time.Now()
		var reported []time.Duration
		done := make(chan struct{})
		go func() {
			defer close(done)
			c.notify(ctx, DefaultIntervals().Capacity, func(*v1alpha1.MemberCapacity) {}, func() { reported = append(reported, time.Since(start)) })
		}()
		step := func(change error) {
			t.Helper()
			if change != nil {
				t.Error(change)
			}
			synctest.Wait()
		}
		step(nodeStore{c}.Replace([]any{nodeOf("a", false, nil)}, ""))
		step(podStore{c}.Replace(nil, ""))
		for _, name := range []string{"p", "q", "r"} {
			time.Sleep(roomInterval / 4)
			step(podStore{c}.Add(podOf(name, nil)))
		}
		time.Sleep(2 * roomInterval)
		stop()
		<-done
		if diff := cmp.Diff([]time.Duration{0, roomInterval/4 + roomInterval}, reported); diff != "" {
			t.Error(diff)
		}
	})
}

var forbidden = apierrors.StatusError{ErrStatus: metav1.Status{Reason: metav1.StatusReasonForbidden}}

// A list of pods is given as it came, or transformed.
func TestPodStoreTakesTransformedPods(t *testing.T) {
	for name, transformed := range map[string]bool{"whole": false, "transformed": true} {
		t.Run(name, func(t *testing.T) {
			c := watching()
			var p any = podOf("p", resources("1", "1Gi", 0))
			out, err := newTestMeter().observed("Pod", reducePod).store(podStore{c}).Transformer()(p)
			if _, whole := out.(*corev1.Pod); whole || err != nil {
				t.Fatalf("a pod is transformed to %T: %v", out, err)
			}
			if transformed {
				p = out
			}
			_ = nodeStore{c}.Replace([]any{nodeOf("a", false, resources("4", "8Gi", 0))}, "")
			_ = podStore{c}.Replace([]any{p, "not a pod"}, "")
			if got := (&Member{capacity: c}).Room().Nodes[0].Free["cpu"]; got != 3000 {
				t.Errorf("%d millicores are free", got)
			}
		})
	}
}
