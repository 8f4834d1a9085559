package main

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/minifleet/minifleet/api/v1alpha1"
)

// withCondition is a MiniCluster of the given generation, of which the first was observed, and one
// condition of which is true.
func withCondition(name, kind, message string, generation int64) v1alpha1.FleetMiniCluster {
	f := v1alpha1.FleetMiniCluster{ObjectMeta: metav1.ObjectMeta{Name: name, Generation: generation}}
	f.Status.ObservedGeneration = 1
	f.Status.Conditions = []metav1.Condition{{Type: kind, Status: metav1.ConditionTrue, Reason: "Because", Message: message}}
	return f
}

func TestOutcome(t *testing.T) {
	complete := withCondition("a", v1alpha1.ConditionComplete, "", 1)
	failed := withCondition("b", v1alpha1.ConditionFailed, "a pod failed", 1)
	running := withCondition("b", v1alpha1.ConditionReady, "running on alpine", 1)
	for name, c := range map[string]struct {
		fleet []v1alpha1.FleetMiniCluster
		names []string
		over  bool
		short []string
	}{
		"all complete":        {fleet: []v1alpha1.FleetMiniCluster{complete}, names: []string{"a"}, over: true},
		"others do not count": {fleet: []v1alpha1.FleetMiniCluster{complete, running}, names: []string{"a"}, over: true},
		"one runs": {
			fleet: []v1alpha1.FleetMiniCluster{complete, running}, names: []string{"a", "b"},
			short: []string{"b: Because: running on alpine"},
		},
		"one has failed, and there is nothing to wait for": {
			fleet: []v1alpha1.FleetMiniCluster{complete, failed}, names: []string{"a", "b"},
			over: true, short: []string{"b: Because: a pod failed"},
		},
		"one has failed while another is not there": {
			fleet: []v1alpha1.FleetMiniCluster{failed}, names: []string{"a", "b"},
			short: []string{"a: it is not on the hub: see `kubectl describe gs fleet`", "b: Because: a pod failed"},
		},
		"completion of an earlier spec is none": {
			fleet: []v1alpha1.FleetMiniCluster{withCondition("a", v1alpha1.ConditionComplete, "", 2)}, names: []string{"a"},
			short: []string{"a: nothing is known of it yet"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			over, short := outcome(c.fleet, c.names)
			if over != c.over {
				t.Errorf("over: got %t, want %t", over, c.over)
			}
			var reasons []string
			if short != nil {
				reasons = short.reasons
			}
			if diff := cmp.Diff(c.short, reasons); diff != "" {
				t.Errorf("reasons (-want +got):\n%s", diff)
			}
		})
	}
}
