package fleetminicluster

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/minifleet/minifleet/api/v1alpha1"
)

func statusOf(placement *v1alpha1.PlacementDecision, members ...string) *v1alpha1.FleetMiniCluster {
	f := &v1alpha1.FleetMiniCluster{Status: v1alpha1.FleetMiniClusterStatus{Placement: placement}}
	for _, name := range members {
		f.Status.Clusters = append(f.Status.Clusters, v1alpha1.ClusterStatus{Name: name})
	}
	return f
}

// A change of a member concerns those that have something there, and those that might want to.
func TestConcerning(t *testing.T) {
	decided := &v1alpha1.PlacementDecision{Clusters: []string{"alpine"}, Wanted: 1}
	cases := map[string]struct {
		object *v1alpha1.FleetMiniCluster
		want   []string
	}{
		"not placed yet":               {statusOf(nil), []string{anyMember}},
		"placed":                       {statusOf(decided, "alpine"), []string{"alpine"}},
		"moving":                       {statusOf(decided, "alpine", "basalt"), []string{"alpine", "basalt"}},
		"on fewer than it wants":       {statusOf(&v1alpha1.PlacementDecision{Clusters: []string{"alpine"}, Wanted: 2}, "alpine"), []string{anyMember}},
		"on every member that matches": {statusOf(&v1alpha1.PlacementDecision{Clusters: []string{"alpine"}, Wanted: 1, Open: true}, "alpine"), []string{anyMember}},
		"chosen, and nothing is there": {statusOf(decided), []string{}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, concerning(c.object)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// Of 10,000 FleetMiniClusters on 1,000 members, a change of one member concerns the ten that are there.
func TestChangesOfMembersConcernFew(t *testing.T) {
	counted := 0
	for i := range 10000 {
		name := fmt.Sprint("member-", i%1000)
		if slices.Contains(concerning(statusOf(&v1alpha1.PlacementDecision{Clusters: []string{name}, Wanted: 1}, name)), "member-7") {
			counted++
		}
	}
	if counted != 10 {
		t.Errorf("it concerns %d", counted)
	}
}
