package condition_test

import (
	"strings"
	"testing"
	"time"

	"github.com/fluxcd/pkg/runtime/conditions"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/controllers/internal/condition"
	"github.com/minifleet/minifleet/internal/sanitize"
)

// Whatever is set in whatever order, the outcome is that of the Kubernetes library, sorted.
func TestSetKeepsTransitionsAsKubernetesDoes(t *testing.T) {
	steps := []*metav1.Condition{
		conditions.UnknownCondition("Ready", "Unreachable", "connection refused"),
		conditions.UnknownCondition("Ready", "Unreachable", "no route to host"),
		conditions.UnknownCondition("Ready", "Connecting", "again"),
		conditions.TrueCondition("Drained", "Drained", "no run is live"),
		conditions.TrueCondition("Ready", "Connected", ""),
		conditions.TrueCondition("Ready", "Connected", ""),
		conditions.FalseCondition("Ready", "Forbidden", "pods is forbidden"),
		conditions.FalseCondition("Drained", "RunsLive", "1 run is live"),
		conditions.FalseCondition("Drained", "RunsLive", "2 runs are live"),
	}
	member := &v1alpha1.MemberCluster{}
	var want []metav1.Condition
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for i, step := range steps {
		now = now.Add(time.Minute)
		member.Generation++
		condition.Set(member, now, step)
		expected := *step
		expected.ObservedGeneration, expected.LastTransitionTime = member.Generation, metav1.NewTime(now)
		meta.SetStatusCondition(&want, expected)
		byType := cmpopts.SortSlices(func(a, b metav1.Condition) bool { return a.Type < b.Type })
		if diff := cmp.Diff(want, member.Status.Conditions, byType); diff != "" {
			t.Fatalf("after step %d (-want +got):\n%s", i, diff)
		}
	}
	if first := member.Status.Conditions[0].Type; first != "Ready" {
		t.Errorf("%s is first, want Ready", first)
	}
}

func TestSetMakesMessagesSafe(t *testing.T) {
	member := &v1alpha1.MemberCluster{}
	condition.Set(member, time.Unix(0, 0), conditions.FalseCondition("Ready", "Unreachable", "%s", "\x1b[2J\n"+strings.Repeat("x", 1<<20)))
	message := conditions.GetMessage(member, "Ready")
	if len(message) > sanitize.MaxMessage || strings.ContainsAny(message, "\x1b\n") {
		t.Errorf("%d bytes: %.40q", len(message), message)
	}
}

func TestSetLeavesItsInputAsItIs(t *testing.T) {
	c := conditions.FalseCondition("Ready", "Unreachable", "a\nb")
	before := *c
	condition.Set(&v1alpha1.MemberCluster{ObjectMeta: metav1.ObjectMeta{Generation: 3}}, time.Unix(1, 0), c)
	if diff := cmp.Diff(before, *c); diff != "" {
		t.Errorf("changed (-before +after):\n%s", diff)
	}
}
