package plan_test

import (
	"testing"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/internal/grant"
	"github.com/minifleet/minifleet/internal/plan"
	"github.com/minifleet/minifleet/internal/runs"
)

// What is not valid, not allowed, or has no placement begins nothing, and says why.
func TestRequest(t *testing.T) {
	allowed := &grant.Set{Namespace: grant.OfNamespace("hpc", map[string]string{v1alpha1.AnnotationAllow: string(v1alpha1.PermissionHostNamespaces)})}
	cases := map[string]struct {
		object    *ObjectWrapper
		grants    *grant.Set
		confirmed bool
		noSpec    bool
		reads     bool
		reason    string
		stalled   bool
	}{
		"valid":                   {object: MakeObject("run")},
		"not valid":               {object: MakeObject("run").With(invalid), reason: v1alpha1.ReasonInvalidSpec, stalled: true},
		"not read yet":            {object: MakeObject("run").With(privileged), reads: true},
		"allowed":                 {object: MakeObject("run").With(privileged), grants: allowed},
		"not as the cache has it": {object: MakeObject("run").With(privileged), grants: &grant.Set{}, reads: true},
		"not as the hub has it":   {object: MakeObject("run").With(privileged), grants: &grant.Set{}, confirmed: true, reason: v1alpha1.ReasonPolicyDenied, stalled: true},
		"no Placement":            {object: MakeObject("run"), noSpec: true, reason: v1alpha1.ReasonPlacementNotFound},
		"nothing matches":         {object: MakeObject("run").With(onlyOn("nowhere")), reason: v1alpha1.ReasonNoClusterMatches},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			s := MakeSnapshot(c.object.Obj(), MakeMember("alpine"))
			s.Grants, s.Confirmed = c.grants, c.confirmed
			if c.noSpec {
				s.Placement = nil
			}
			anyRoom(s)
			observed(s, "alpine", none())
			d, reads := plan.Decide(s, nil)
			if reads.Grants != c.reads {
				t.Fatalf("reads %+v", reads)
			}
			if c.reads {
				return
			}
			reason := ""
			if d.Problem != nil {
				reason = d.Problem.Reason
			}
			if reason != c.reason || d.Stalled != c.stalled {
				t.Errorf("%s, stalled %t", reason, d.Stalled)
			}
			for _, r := range d.Reserve {
				s.Queue.Reserved[r.View.Member] = r.Reservation
			}
			round := next(t, s, d)
			if begins := len(round.Changed) > 0; begins != (c.reason == "") {
				t.Errorf("it begins: %t", begins)
			}
			status := round.Status(s, d, nil)
			if c.reason != "" && status.Conditions[0].Reason != c.reason {
				t.Errorf("it is told: %+v", status.Conditions[0])
			}
		})
	}
}

// A run that has begun and is not allowed any more may be suspended, and that is all.
func TestWhatIsNotAllowedMayBeSuspended(t *testing.T) {
	cases := map[string]struct {
		job    *JobWrapper
		change func(*v1alpha1.FleetMiniCluster)
		want   runs.Action
	}{
		"to be released":  {MakeJob("aa").Unreleased(), resumed, runs.Nothing},
		"to be resumed":   {MakeJob("aa").Suspended(), resumed, runs.Nothing},
		"to be suspended": {MakeJob("aa").Running(), suspended, runs.Adjust},
		"runs":            {MakeJob("aa").Running(), resumed, runs.Nothing},
		"has succeeded":   {MakeJob("aa").Succeeded(), resumed, runs.Finish},
	}
	for name, c := range cases {
		s := MakeSnapshot(MakeObject("run").With(privileged, c.change).Runs(MakeRun("aa", "alpine", v1alpha1.RunRunning)).Placed("alpine").Obj(), MakeMember("alpine"))
		s.Grants, s.Confirmed = &grant.Set{}, true
		anyRoom(s)
		observed(s, "alpine", c.job.Observation())
		if got := target(t, next(t, s, decided(t, s))).Step.Action; got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}
