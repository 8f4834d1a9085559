package controllers

import (
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/internal/fit"
	"github.com/minifleet/minifleet/internal/runs"
)

// What a live run was given stays its own until the Job is seen to have it, and what it has no more goes.
func TestRoomOfLiveRuns(t *testing.T) {
	const id = "00000000aa"
	job := func(size int32, suspended bool) *site {
		return &site{
			name: "alpine", rawJob: &batchv1.Job{Spec: batchv1.JobSpec{Completions: &size}},
			job: &runs.Job{RunID: id, Size: size, Suspended: suspended, SuspendedByUs: suspended},
		}
	}
	admitted := func(s *site) *site { s.admitted = true; return s }
	cases := map[string]struct {
		site *site
		want int // pods claimed
	}{
		"suspended":                      {job(4, true), 0},
		"resumed just now":               {admitted(job(4, true)), 4},
		"it has another size":            {job(2, false), 2},
		"resized just now":               {admitted(job(2, false)), 4},
		"connecting, so nothing is seen": {&site{name: "alpine", connecting: true}, 4},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			fmc := &v1alpha1.FleetMiniCluster{ObjectMeta: metav1.ObjectMeta{Namespace: "hpc", Name: "live"}}
			r := &FleetMiniClusterReconciler{Now: time.Now}
			p := &pass{
				r: r, fmc: fmc, sites: []*site{c.site}, ledger: runs.Ledger{{ID: id, Cluster: "alpine", State: v1alpha1.RunRunning}},
			}
			r.book.claim("alpine", keyOf("live"), claim{run: id, gang: asking(4, "1", nil)})
			p.settle()
			got, _ := r.book.claimOf("alpine", keyOf("live"))
			if got.gang.Size != c.want {
				t.Errorf("%d pods are claimed, want %d", got.gang.Size, c.want)
			}
		})
	}
}

// Who waits goes on waiting while a member is not known, and no longer once it is and nothing is needed.
func TestPlaceInTheLine(t *testing.T) {
	gang := asking(4, "1", nil)
	cases := map[string]struct {
		site *site
		want bool
	}{
		"it needs room":         {&site{name: "alpine", needs: &gang}, true},
		"it is not known":       {&site{name: "alpine", connecting: true}, true},
		"it needs none":         {&site{name: "alpine"}, false},
		"another is not known":  {&site{name: "basalt", connecting: true}, false},
		"another needs to wait": {&site{name: "basalt", needs: &gang}, false},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			r := &FleetMiniClusterReconciler{Now: time.Now}
			p := &pass{r: r, fmc: &v1alpha1.FleetMiniCluster{ObjectMeta: metav1.ObjectMeta{Namespace: "hpc", Name: "live"}}, sites: []*site{c.site}}
			first := p.waiter()
			if (first != nil) != (c.site.needs != nil) {
				t.Errorf("before it has waited: %v", first)
			}
			w := waiter{rank: rankOf(p.fmc), members: map[string]fit.Gang{"alpine": gang}}
			r.book.wait(w.key, &w)
			next, here := p.waiter(), false
			if next != nil {
				_, here = next.on("alpine")
			}
			if here != c.want {
				t.Errorf("it waits on alpine: %v", here)
			}
		})
	}
}
