package rollup_test

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/internal/rollup"
	"github.com/minifleet/minifleet/internal/runs"
)

func TestWaitingForRoom(t *testing.T) {
	short := v1alpha1.RejectedCluster{Name: "basalt", Reason: "3 of 4 pods fit; 2 CPU short on n1"}
	away := v1alpha1.RejectedCluster{Name: "cinder", Reason: "is not connected"}
	more := []v1alpha1.RejectedCluster{short, {Name: "b", Reason: "is full"}, {Name: "c", Reason: "is full"}, {Name: "d", Reason: "is full"}, {Name: "e", Reason: "is full"}}
	cases := map[string]struct {
		decision v1alpha1.PlacementDecision
		awaiting string
		reason   string
		message  string
	}{
		"nowhere": {
			v1alpha1.PlacementDecision{Wanted: 1, Rejected: []v1alpha1.RejectedCluster{short, away}, Waiting: []v1alpha1.RejectedCluster{short}}, "",
			v1alpha1.ReasonInsufficientCapacity, "0 of 1 members chosen (none); waits for room; basalt: 3 of 4 pods fit; 2 CPU short on n1; cinder: is not connected",
		},
		"on some": {
			v1alpha1.PlacementDecision{Wanted: 2, Clusters: []string{"alpine"}, Rejected: []v1alpha1.RejectedCluster{short}, Waiting: []v1alpha1.RejectedCluster{short}}, "",
			v1alpha1.ReasonInsufficientCapacity, "1 of 2 members chosen (alpine); waits for room; basalt: 3 of 4 pods fit; 2 CPU short on n1",
		},
		"on many": {
			v1alpha1.PlacementDecision{Wanted: 1, Rejected: more, Waiting: more}, "", v1alpha1.ReasonInsufficientCapacity,
			"0 of 1 members chosen (none); waits for room; basalt: 3 of 4 pods fit; 2 CPU short on n1; b: is full; c: is full; and 2 more, see status.placement.waiting",
		},
		"until it is known": {
			v1alpha1.PlacementDecision{Wanted: 2, Clusters: []string{"alpine"}, Rejected: []v1alpha1.RejectedCluster{short, away}, Waiting: []v1alpha1.RejectedCluster{short}},
			"waits until it is known what is free; cinder: is not connected",
			v1alpha1.ReasonConnecting, "1 of 2 members chosen (alpine); waits until it is known what is free; cinder: is not connected",
		},
		"for other things": {
			v1alpha1.PlacementDecision{Wanted: 1, Rejected: []v1alpha1.RejectedCluster{away}}, "",
			v1alpha1.ReasonNotEnoughClusters, "0 of 1 members could be chosen (none); cinder: is not connected",
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			s := rollup.Status(rollup.Input{Wanted: runs.Wanted{Digest: "d"}, Decision: &c.decision, Awaiting: c.awaiting})
			got := meta.FindStatusCondition(s.Conditions, v1alpha1.ConditionReady)
			if got.Status != metav1.ConditionFalse || got.Reason != c.reason || got.Message != c.message {
				t.Errorf("%s %s %q", got.Status, got.Reason, got.Message)
			}
			if r := meta.FindStatusCondition(s.Conditions, v1alpha1.ConditionReconciling); r == nil || !strings.HasSuffix(r.Message, "; see the condition Ready") || r.Reason != c.reason {
				t.Errorf("it is not told to be reconciling: %v", r)
			}
		})
	}
}
