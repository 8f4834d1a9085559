package fleetminicluster

import (
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/internal/plan"
	"github.com/minifleet/minifleet/internal/queue"
)

// What is read of one member is noted while it is still being begun to read others: see -race.
func TestMembersAreReadAtOnce(t *testing.T) {
	c := &reconciliation{
		Reconciler: &Reconciler{queue: queue.New()},
		snapshot: &plan.Snapshot{
			Object: &v1alpha1.FleetMiniCluster{ObjectMeta: metav1.ObjectMeta{Namespace: "hpc", Name: "run"}}, Facts: map[string]plan.Facts{},
		},
	}
	reads := plan.Reads{Members: map[string][]plan.Fact{}}
	for i := range 5000 {
		reads.Members[fmt.Sprint(i)] = []plan.Fact{plan.ReadRoom}
	}
	if err := c.read(t.Context(), reads, nil); err != nil {
		t.Fatal(err)
	}
	for name := range reads.Members {
		if c.snapshot.Facts[name].Room == nil {
			t.Errorf("nothing is noted of %s", name)
		}
	}
}
