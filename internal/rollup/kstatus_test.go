package rollup_test

import (
	"testing"
	"time"

	"github.com/fluxcd/pkg/runtime/conditions"
	"github.com/fluxcd/pkg/runtime/conditions/check"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/internal/rollup"
)

// Whatever comes after whatever, tools for kstatus understand the status.
//
// Flux CD's controllers end a reconciliation with Ready True or False. Here Ready is Unknown while a member cannot be
// reached, of which False would claim too much; that is a status in the middle of a reconciliation, and is held to the
// rules for those: it must be Reconciling.
func TestStatusesAreConsistent(t *testing.T) {
	complete := check.NewChecker(nil, &check.Conditions{})
	inProgress := check.NewInProgressChecker(nil)
	complete.DisableFetch, inProgress.DisableFetch = true, true
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			for before, other := range cases {
				in := c.in
				in.Previous, in.Now = rollup.Status(other.in), now.Add(time.Hour)
				f := &v1alpha1.FleetMiniCluster{ObjectMeta: metav1.ObjectMeta{Generation: in.Generation}, Status: rollup.Status(in)}
				checker := complete
				if conditions.IsUnknown(f, v1alpha1.ConditionReady) {
					checker = inProgress
				}
				if fail, warn := checker.Check(t.Context(), f); fail != nil || warn != nil {
					t.Fatalf("after %q: %v, %v: %+v", before, fail, warn, f.Status.Conditions)
				}
			}
		})
	}
}
