package plan_test

import (
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/minifleet/minifleet/api/v1alpha1"
)

// What is suspended says which of the field and the annotation does it, whether Git will change that, and how to go on.
func TestSuspension(t *testing.T) {
	fromGit := func(f *v1alpha1.FleetMiniCluster) { f.Labels = map[string]string{v1alpha1.LabelSource: "fleet"} }
	declared := func(f *v1alpha1.FleetMiniCluster) { f.Annotations[v1alpha1.AnnotationSourceSuspend] = "true" }
	const (
		unhold = "to go on: kubectl -n hpc annotate fmc run minifleet.dev/hold-"
		resume = `to go on: kubectl -n hpc patch fmc run --type merge -p '{"spec":{"suspend":false}}'`
	)
	for name, tc := range map[string]struct {
		object *ObjectWrapper
		want   string
	}{
		"held":                    {MakeObject("run").With(held), "held by hand (annotation minifleet.dev/hold); " + unhold},
		"held, from Git":          {MakeObject("run").With(held).With(fromGit), "held by hand (annotation minifleet.dev/hold), which Git leaves alone; " + unhold},
		"suspended":               {MakeObject("run").With(suspended), "spec.suspend is true; " + resume},
		"suspended, from Git":     {MakeObject("run").With(suspended).With(fromGit), "spec.suspend was set by hand, which Git leaves alone; " + resume},
		"suspended by Git":        {MakeObject("run").With(suspended).With(fromGit).With(declared), "spec.suspend is true in Git; to go on, change it there"},
		"suspended by Git, held":  {MakeObject("run").With(suspended).With(held).With(fromGit).With(declared), "held by hand (annotation minifleet.dev/hold), which Git leaves alone; " + unhold + "; and spec.suspend is true in Git; to go on, change it there"},
		"suspended by both hands": {MakeObject("run").With(suspended).With(held), "held by hand (annotation minifleet.dev/hold); " + unhold + "; and spec.suspend is true; " + resume},
	} {
		t.Run(name, func(t *testing.T) {
			s := MakeSnapshot(tc.object.Obj(), MakeMember("alpine"))
			anyRoom(s)
			observed(s, "alpine", none())
			d := decided(t, s)
			round := next(t, s, d)
			if len(round.Ledger) > 0 {
				t.Errorf("it begins: %+v", round.Ledger)
			}
			status := round.Status(s, d, nil)
			ready := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionReady)
			if want := "suspended: no new run starts; " + tc.want; ready.Reason != v1alpha1.ReasonSuspended || ready.Message != want {
				t.Errorf("ready is %s:\n%s\nwant\n%s", ready.Reason, ready.Message, want)
			}
		})
	}
}
