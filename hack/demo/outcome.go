package main

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/minifleet/minifleet/api/v1alpha1"
)

// notComplete says which MiniClusters did not complete.
type notComplete struct {
	// reasons are NAME: WHY, by name.
	reasons []string
}

func (e *notComplete) Error() string {
	return fmt.Sprintf("%d MiniClusters have not completed:\n  %s", len(e.reasons), strings.Join(e.reasons, "\n  "))
}

// outcome says whether there is nothing to wait for any more among the MiniClusters of these names, and why some have
// not completed (nil if all have).
func outcome(fleet []v1alpha1.FleetMiniCluster, names []string) (over bool, short *notComplete) {
	byName := map[string]*v1alpha1.FleetMiniCluster{}
	for i := range fleet {
		byName[fleet[i].Name] = &fleet[i]
	}
	over = true
	var reasons []string
	for _, name := range names {
		f := byName[name]
		switch {
		case f == nil:
			over = false
			reasons = append(reasons, name+": it is not on the hub: see `kubectl describe gs "+repositoryName+"`")
		case current(f, v1alpha1.ConditionComplete):
		case current(f, v1alpha1.ConditionFailed):
			reasons = append(reasons, name+": "+describe(f.Status.Conditions, v1alpha1.ConditionFailed))
		default:
			over = false
			reasons = append(reasons, name+": "+describe(f.Status.Conditions, v1alpha1.ConditionReady))
		}
	}
	if len(reasons) == 0 {
		return true, nil
	}
	return over, &notComplete{reasons: reasons}
}

// current says whether a condition is true of the spec as it is now.
func current(f *v1alpha1.FleetMiniCluster, kind string) bool {
	return f.Status.ObservedGeneration == f.Generation && isTrue(f.Status.Conditions, kind)
}

func condition(f *v1alpha1.FleetMiniCluster, kind string) *metav1.Condition {
	return meta.FindStatusCondition(f.Status.Conditions, kind)
}
