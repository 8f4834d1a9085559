package plan_test

import (
	"testing"
	"time"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/internal/eviction"
	"github.com/minifleet/minifleet/internal/plan"
)

// A run that waits to be larger has the room of the pods that its Job has, also after a restart of the hub: what is asked
// for is not what it was given.
func TestRestartedHubGivesNoRoomThatIsNotThere(t *testing.T) {
	w := newWorld(
		MakeObject("run").With(onlyOn("alpine"), elastic(3)).Obj(),
		MakeObject("other").With(onlyOn("alpine"), sized(1)).Obj(),
	)
	w.member("alpine").cpus = 3
	w = begun(func() *world { return w })()
	w.edit(func(f *v1alpha1.FleetMiniCluster) { f.Spec.MiniCluster.Size = 3 })
	restarted(w)
	for range 3 {
		if r := w.reconcile(0, undisturbed); len(r.violations) > 0 {
			t.Fatalf("%v%s", r.violations, w.key())
		}
	}
	if size := w.member("alpine").jobs["run"].Size; size != 2 {
		t.Errorf("it has %d pods, and room for 2", size)
	}
}

// What another cluster that has come under the name of a member says of a run is no proof: the run may be live in the
// one that it was started in.
func TestAnotherClusterProvesNothing(t *testing.T) {
	s := MakeSnapshot(
		MakeObject("run").With(pendingTimeout(30*time.Second)).Runs(MakeRun("aa", "alpine", v1alpha1.RunStarting)).Placed("alpine").Obj(),
		MakeMember("alpine").UID("other"), MakeMember("basalt"))
	anyRoom(s)
	fact(s, "alpine", func(f *plan.Facts) { f.Cached, f.Proof = none(), &eviction.Proof{} })
	if d := decided(t, s); len(d.Evictions) > 0 {
		t.Errorf("it is evicted: %+v, and placed on %v", d.Evictions, d.Placement.Clusters)
	}
}
