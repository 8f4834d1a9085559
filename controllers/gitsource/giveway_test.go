package gitsource

import (
	"testing"
	"testing/synctest"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/controllers/internal/commits"
	"github.com/minifleet/minifleet/gitsource/parse"
	"github.com/minifleet/minifleet/internal/changes"
)

// What was applied is reconciled before the status of its source is written, which does not wait for long.
func TestAppliedGoesFirst(t *testing.T) {
	miniCluster := parse.Object{Kind: parse.KindFleetMiniCluster, Name: "m", Path: "m.yaml", FleetMiniCluster: &v1alpha1.FleetMiniCluster{}}
	placement := parse.Object{Kind: parse.KindPlacement, Name: "p", Path: "p.yaml", Placement: &v1alpha1.Placement{}}
	const soon = 20 * time.Millisecond
	for name, tc := range map[string]struct {
		object     parse.Object
		reconciled time.Duration
		want       time.Duration
	}{
		"it is reconciled at once": {miniCluster, soon, soon},
		"nobody reconciles it":     {miniCluster, time.Hour, firstRun},
		"nothing that runs":        {placement, time.Hour, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				source := newSource()
				r := &Reconciler{Client: newHub(t, source), Live: newHub(t, source), Commits: &commits.Tracker{}, Now: time.Now}
				tr := treeOf(tc.object)
				begun := time.Now()
				time.AfterFunc(tc.reconciled, func() { r.Commits.Reconciled(client.ObjectKeyFromObject(source), tr.commit) })
				done, err := r.carryOut(t.Context(), source, progress{tree: tr, plan: changes.Compare(input(source, tr, changes.Hub{}))})
				if err != nil || len(done.applied.changed) != 1 {
					t.Fatalf("%+v: %v", done.applied, err)
				}
				if got := time.Since(begun); got != tc.want {
					t.Errorf("it took %s, want %s", got, tc.want)
				}
			})
		})
	}
}
