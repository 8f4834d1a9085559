package plan_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	fluxv1alpha2 "github.com/minifleet/minifleet/api/flux/v1alpha2"
	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/internal/grant"
	"github.com/minifleet/minifleet/internal/plan"
	"github.com/minifleet/minifleet/internal/queue"
	"github.com/minifleet/minifleet/internal/rollup"
	"github.com/minifleet/minifleet/internal/runs"
	"github.com/minifleet/minifleet/internal/tenant"
)

// A run begins when all that it references can be had on its member.
func TestReferences(t *testing.T) {
	missing := &rollup.Problem{Reason: v1alpha1.ReasonReferenceMissing, Message: "there is no Secret input"}
	cases := map[string]struct {
		references *plan.References
		reads      []plan.Fact
		begins     bool
		awaits     bool
	}{
		"not read":         {reads: []plan.Fact{plan.ReadReferences}},
		"all can be had":   {references: &plan.References{}, begins: true},
		"one is not there": {references: &plan.References{Missing: missing}, awaits: true},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			f := MakeObject("run").Obj()
			f.Spec.MiniCluster.Containers[0].Volumes = map[string]fluxv1alpha2.ContainerVolume{"input": {SecretName: "input", Path: "/input"}}
			s := MakeSnapshot(f, MakeMember("alpine"))
			anyRoom(s)
			s.Queue.Reserved["alpine"] = queue.Reservation{Gang: gang(2)}
			observed(s, "alpine", none())
			fact(s, "alpine", func(f *plan.Facts) { f.References = c.references })
			round, reads := plan.Next(s, decided(t, s), nil)
			alpine := target(t, &round)
			if diff := cmp.Diff(c.reads, reads.Members["alpine"]); diff != "" {
				t.Error(diff)
			}
			if begins := len(round.Changed) > 0; begins != c.begins || alpine.AwaitsReferences != c.awaits || (alpine.Failure() == missing) != c.awaits {
				t.Errorf("begins: %t, awaits: %t, failure: %+v", begins, alpine.AwaitsReferences, alpine.Failure())
			}
		})
	}
}

// A Job that claims to be a run of another member is not adopted, unless that member is not registered any more: the
// same cluster, it may be, was registered under another name.
func TestJobsThatClaimAnotherMembersRun(t *testing.T) {
	cases := map[string]struct {
		line *RunWrapper
		want []string // members on which a run is live then
	}{
		"nobody's":                     {MakeRun("cc", "cobalt", v1alpha1.RunSucceeded), []string{"alpine"}},
		"another member's":             {MakeRun("bb", "basalt", v1alpha1.RunRunning), []string{"basalt"}},
		"a member's that is no longer": {MakeRun("bb", "cobalt", v1alpha1.RunRunning), []string{"alpine"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			s := MakeSnapshot(MakeObject("run").Everywhere().Runs(c.line).Placed("alpine").Obj(), MakeMember("alpine"), MakeMember("basalt").Unreachable(0))
			anyRoom(s)
			observed(s, "alpine", MakeJob("bb").Running().Observation())
			round := next(t, s, decided(t, s))
			if diff := cmp.Diff(c.want, round.Ledger.Live()); diff != "" {
				t.Error(diff)
			}
			if failed := target(t, round).Failure() != nil; failed != (c.want[0] != "alpine") {
				t.Errorf("failure: %+v", target(t, round).Failure())
			}
		})
	}
}

// An override that is wrong starts nothing, and lets what has begun without it go on.
func TestOverridesThatAreWrong(t *testing.T) {
	cases := map[string]struct {
		object *ObjectWrapper
		job    *plan.Observation
		want   runs.Step
	}{
		"to begin":  {MakeObject("run"), none(), runs.Step{Reason: v1alpha1.ReasonInvalidOverride}},
		"to create": {MakeObject("run").Runs(MakeRun("aa", "alpine", v1alpha1.RunStarting)), none(), runs.Step{Reason: v1alpha1.ReasonInvalidOverride}},
		"it runs":   {MakeObject("run").Runs(MakeRun("aa", "alpine", v1alpha1.RunRunning)), MakeJob("aa").Running().Observation(), runs.Step{}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			c.object.Spec.Placement.Overrides = []v1alpha1.ClusterOverride{{Name: "wrong", Patches: []v1alpha1.JSONPatch{{
				Op: v1alpha1.PatchReplace, Path: "/nothing/there", Value: &apiextensionsv1.JSON{Raw: []byte("1")},
			}}}}
			s := MakeSnapshot(c.object.Placed("alpine").Obj(), MakeMember("alpine"))
			s.Grants = &grant.Set{}
			anyRoom(s)
			observed(s, "alpine", c.job)
			round := next(t, s, decided(t, s))
			alpine := target(t, round)
			if alpine.Step.Action != runs.Nothing || alpine.Step.Reason != c.want.Reason || len(round.Due()) > 0 {
				t.Errorf("%+v", alpine.Step)
			}
		})
	}
}

// A run that is to be in another namespace of its member has the one before removed first, and once.
func TestRunsThatMove(t *testing.T) {
	f := MakeObject("run").Runs(MakeRun("aa", "alpine", v1alpha1.RunSucceeded).Of("before")).Placed("alpine").Shown(v1alpha1.ClusterStatus{Name: "alpine"}).Obj()
	f.Status.Runs[0].Namespace = "old"
	s := MakeSnapshot(f, MakeMember("alpine"))
	s.Members[0].Connection.Namespace, s.Members[0].Connection.NextNamespace = "old", "new"
	s.Members[0].Cluster.Spec.TargetNamespaces = &v1alpha1.TargetNamespaces{Names: []v1alpha1.TargetNamespace{{Namespace: "hpc", Target: "new"}}}
	anyRoom(s)
	observed(s, "alpine", none())
	d := decided(t, s)
	round := next(t, s, d)
	if step := target(t, round).Step; step.Action != runs.Cleanup || len(round.Changed) > 0 {
		t.Fatalf("step %+v, changed %v", step, round.Changed)
	}
	fact(s, "alpine", func(f *plan.Facts) { f.Removed, f.Done, f.Step = true, true, &target(t, round).Step })
	round = next(t, s, d)
	round.Finish(s, d)
	f = f.DeepCopy()
	f.Status = round.Status(s, d, nil)
	if len(f.Status.Clusters) > 0 {
		t.Errorf("the member is in the status: %+v", f.Status.Clusters)
	}
	f.Status.Clusters = []v1alpha1.ClusterStatus{{Name: "alpine", Message: "waits for room"}}
	if got := tenant.NamespaceOf(f, "alpine", &s.Members[0].Cluster.Spec); got != "new" {
		t.Errorf("what is to begin while it waits is in %q, where everything was removed", got)
	}
}

// A run that has failed is not tried again on a member that its namespace may not use any more, and what has begun goes on.
func TestRetriesOnMembersThatMayNotBeUsed(t *testing.T) {
	for name, run := range map[string]*RunWrapper{
		"to be retried": MakeRun("aa", "alpine", v1alpha1.RunFailed),
		"succeeded":     MakeRun("aa", "alpine", v1alpha1.RunSucceeded),
		"starting":      MakeRun("aa", "alpine", v1alpha1.RunStarting),
	} {
		t.Run(name, func(t *testing.T) {
			s := MakeSnapshot(MakeObject("run").With(retried(3)).Runs(run).Placed("alpine").Obj(), MakeMember("alpine"), MakeMember("basalt"))
			s.Members[0].Cluster.Spec.Namespaces = nil
			anyRoom(s)
			s.Queue.Reserved["alpine"] = queue.Reservation{Gang: gang(2)}
			fact(s, "alpine", func(f *plan.Facts) { f.NamespaceUse = &plan.NamespaceUse{} })
			observed(s, "alpine", none())
			fact(s, "alpine", func(f *plan.Facts) { f.Record = &plan.Record{} })
			d := decided(t, s)
			if diff := cmp.Diff([]string{"alpine"}, d.Placement.Clusters); diff != "" {
				t.Errorf("it is placed elsewhere: %s", diff)
			}
			round := next(t, s, d)
			step, failure := target(t, round).Step, target(t, round).Failure()
			switch {
			case len(round.Ledger) != 1 || len(round.Changed) > 0:
				t.Errorf("a run begins: %+v", round.Ledger)
			case name == "to be retried" && (failure == nil || !strings.Contains(failure.Message, "spec.namespaces")):
				t.Errorf("what it waits for is not told: %+v", failure)
			case name == "starting" && step.Action != runs.Create:
				t.Errorf("what has begun does not go on: %+v", step)
			}
		})
	}
}

// On a member where no namespace is for that of the object nothing is asked for, and nothing is told once it is not chosen.
func TestMembersWithoutANamespace(t *testing.T) {
	for name, chosen := range map[string]bool{"chosen": true, "chosen no longer": false} {
		t.Run(name, func(t *testing.T) {
			f := MakeObject("run").Everywhere().Placed("alpine").Shown(v1alpha1.ClusterStatus{Name: "alpine"}).Obj()
			if !chosen {
				onlyOn("basalt")(f)
			}
			s := MakeSnapshot(f, MakeMember("alpine"))
			s.Members[0].Connection.Namespace, s.Members[0].Connection.NextNamespace = "", ""
			anyRoom(s)
			d := decided(t, s)
			round, reads := plan.Next(s, d, nil)
			if reads.Any() {
				t.Errorf("reads %v", reads.Members)
			}
			failure := target(t, &round).Failure()
			if told := failure != nil && strings.Contains(failure.Message, "spec.targetNamespaces.names"); told != chosen {
				t.Errorf("told: %+v", failure)
			}
			if status := round.Status(s, d, nil); (len(status.Clusters) > 0) != chosen {
				t.Errorf("in the status: %+v", status.Clusters)
			}
		})
	}
}
