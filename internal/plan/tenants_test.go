package plan_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/utils/ptr"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/internal/eviction"
	"github.com/minifleet/minifleet/internal/plan"
	"github.com/minifleet/minifleet/internal/queue"
	"github.com/minifleet/minifleet/internal/rollup"
	"github.com/minifleet/minifleet/internal/runs"
)

// OpenTo says who may use a member.
func (w *MemberWrapper) OpenTo(access *v1alpha1.NamespaceAccess) *MemberWrapper {
	w.Cluster.Spec.Namespaces = access
	return w
}

// In says which namespaces of a member hold what there is, and what is next.
func (w *MemberWrapper) In(namespace, next string) *MemberWrapper {
	w.Connection.Namespace, w.Connection.NextNamespace = namespace, next
	return w
}

var (
	toOthers = &v1alpha1.NamespaceAccess{From: v1alpha1.NamespacesFromNames, Names: []string{"others"}}
	toUs     = &v1alpha1.NamespaceAccess{From: v1alpha1.NamespacesFromNames, Names: []string{"hpc"}}
)

// A placement knows of no member that the namespace may not use. What has run, or runs, on one stays.
func TestMembersOfOthersAreNotChosen(t *testing.T) {
	tolerant := func(f *v1alpha1.FleetMiniCluster) {
		f.Spec.Placement.Tolerations = []v1alpha1.Toleration{{Operator: v1alpha1.TolerateExists}}
	}
	named := func(f *v1alpha1.FleetMiniCluster) { f.Spec.Placement.ClusterNames = []string{"alpine"} }
	cases := map[string]struct {
		object  *ObjectWrapper
		alpine  *MemberWrapper
		placed  []string
		message string
		hidden  int32
	}{
		"open to it":             {MakeObject("run"), MakeMember("alpine").OpenTo(toUs), []string{"alpine"}, "", 0},
		"open to others":         {MakeObject("run"), MakeMember("alpine").OpenTo(toOthers), []string{}, "this namespace may use none of 1 MemberClusters", 1},
		"nothing is said":        {MakeObject("run"), MakeMember("alpine").OpenTo(nil), []string{}, "this namespace may use none of 1 MemberClusters", 1},
		"tolerated":              {MakeObject("run").With(tolerant), MakeMember("alpine").OpenTo(toOthers), []string{}, "this namespace may use none", 1},
		"named":                  {MakeObject("run").With(named), MakeMember("alpine").OpenTo(toOthers), []string{}, "this namespace may use none", 1},
		"a run is live there":    {MakeObject("run").Placed("alpine").Runs(MakeRun("aa", "alpine", v1alpha1.RunRunning)), MakeMember("alpine").OpenTo(toOthers), []string{"alpine"}, "", 0},
		"it has succeeded there": {MakeObject("run").Placed("alpine").Runs(MakeRun("aa", "alpine", v1alpha1.RunSucceeded)), MakeMember("alpine").OpenTo(toOthers), []string{"alpine"}, "", 0},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			s := MakeSnapshot(c.object.Obj(), c.alpine)
			anyRoom(s)
			observed(s, "alpine", none())
			d := decided(t, s)
			if diff := cmp.Diff(c.placed, d.Placement.Clusters); diff != "" {
				t.Error(diff)
			}
			message := ""
			if d.Problem != nil {
				message = d.Problem.Message
			}
			if (c.message == "") != (message == "") || !strings.Contains(message, c.message) || c.hidden > 0 && strings.Contains(message, "alpine:") {
				t.Errorf("message %q", message)
			}
			if d.Placement.NotPermitted != c.hidden {
				t.Errorf("%d members are not permitted", d.Placement.NotPermitted)
			}
		})
	}
}

// A retry would begin on its member, which may not be open to the namespace any more.
func TestNothingBeginsOnMembersOfOthers(t *testing.T) {
	f := MakeObject("run").Placed("alpine").Runs(MakeRun("aa", "alpine", v1alpha1.RunFailed)).Obj()
	f.Spec.Retries = 3
	s := MakeSnapshot(f, MakeMember("alpine").OpenTo(toOthers))
	anyRoom(s)
	observed(s, "alpine", none())
	round := next(t, s, decided(t, s))
	for i := range round.Targets {
		if target := &round.Targets[i]; target.Failure() == nil {
			t.Errorf("%s on %s", target.Step.Action, target.Name)
		}
	}
	if len(round.Changed) > 0 {
		t.Errorf("the ledger is changed: %+v", round.Ledger)
	}
}

// A run begins where its namespace of the member may be used, and what an earlier one has left in another is removed first.
func TestNamespaces(t *testing.T) {
	denied := &rollup.Problem{Reason: v1alpha1.ReasonNamespaceDenied, Message: "was not made by MiniFleet"}
	again := func() *ObjectWrapper {
		return MakeObject("run").Placed("alpine").Runs(MakeRun("aa", "alpine", v1alpha1.RunSucceeded).Of("another"))
	}
	cases := map[string]struct {
		object *ObjectWrapper
		alpine *MemberWrapper
		use    *plan.NamespaceUse
		step   runs.Action
		reads  []plan.Fact
		failed bool
	}{
		"not read":                  {MakeObject("run"), MakeMember("alpine"), nil, runs.Begin, []plan.Fact{plan.ReadNamespace}, false},
		"may be used":               {MakeObject("run"), MakeMember("alpine"), &plan.NamespaceUse{}, runs.Begin, nil, false},
		"may not be used":           {MakeObject("run"), MakeMember("alpine"), &plan.NamespaceUse{Denied: denied}, runs.Begin, nil, true},
		"the next is in another":    {again(), MakeMember("alpine").In("old", "new"), &plan.NamespaceUse{}, runs.Cleanup, nil, false},
		"the next is in the same":   {again(), MakeMember("alpine").In("old", "old"), &plan.NamespaceUse{}, runs.Begin, nil, false},
		"there is none any more":    {again(), MakeMember("alpine").In("old", ""), &plan.NamespaceUse{Denied: denied}, runs.Begin, nil, true},
		"nothing has run there yet": {MakeObject("run"), MakeMember("alpine").In("new", "new"), &plan.NamespaceUse{}, runs.Begin, nil, false},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			s := MakeSnapshot(c.object.Obj(), c.alpine)
			anyRoom(s)
			s.Queue.Reserved["alpine"] = queue.Reservation{Gang: gang(2)}
			observed(s, "alpine", none())
			fact(s, "alpine", func(f *plan.Facts) { f.NamespaceUse = c.use })
			round, reads := plan.Next(s, decided(t, s), s.Object.Status.Runs)
			alpine := target(t, &round)
			if alpine.Step.Action != c.step || alpine.Failure() != nil != c.failed {
				t.Errorf("%s, %+v", alpine.Step.Action, alpine.Failure())
			}
			if diff := cmp.Diff(c.reads, reads.Members["alpine"]); diff != "" {
				t.Error(diff)
			}
			if begun := len(round.Changed) > 0; begun != (c.step == runs.Begin && c.reads == nil && !c.failed) {
				t.Errorf("begun: %t", begun)
			} else if begun {
				if got := round.Ledger.Last("alpine").Namespace; got != c.alpine.Connection.Namespace {
					t.Errorf("begun in %q", got)
				}
			}
		})
	}
}

// What is told of members that a namespace may not use names none of them.
func TestMembersOfOthersAreNotNamed(t *testing.T) {
	f := MakeObject("run").Obj()
	f.Status.Unasked = []string{"alpine", "basalt"}
	s := MakeSnapshot(f, MakeMember("alpine").OpenTo(toOthers).Unreachable(0), MakeMember("basalt").OpenTo(toUs).Unreachable(0), MakeMember("cinder").OpenTo(toUs))
	anyRoom(s)
	observed(s, "cinder", none())
	fact(s, "cinder", func(f *plan.Facts) { f.Proof = &eviction.Proof{} })
	s.HadRuns = ptr.To(true) // and the ledger has none
	d := decided(t, s)
	round := next(t, s, d)
	status := round.Status(s, d, nil)
	text := ""
	for _, c := range status.Conditions {
		text += c.Message + "\n"
	}
	if !strings.Contains(text, "basalt and a member that this namespace may not use") || strings.Contains(text, "alpine") {
		t.Errorf("%s", text)
	}
}
