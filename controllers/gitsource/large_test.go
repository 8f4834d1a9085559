package gitsource

import (
	"slices"
	"testing"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/internal/changes"
)

// What stays as it is in each sync makes no plan large.
func TestOnlyWhatIsAppliedMakesAPlanLarge(t *testing.T) {
	kept := slices.Repeat([]changes.Change{{Action: v1alpha1.ChangeKeep}, {Action: v1alpha1.ChangeRefuse}}, manyChanges)
	applied := slices.Repeat([]changes.Change{{Action: v1alpha1.ChangeCreate}, {Action: v1alpha1.ChangeRun}}, manyChanges/2)
	if isLarge(&changes.Plan{Changes: kept}) || isLarge(&changes.Plan{Changes: applied[1:]}) {
		t.Error("a small plan is large")
	}
	if !isLarge(&changes.Plan{Changes: append(kept, applied...)}) {
		t.Errorf("%d objects make no large plan", manyChanges)
	}
}
