package plan_test

import (
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/internal/grant"
	"github.com/minifleet/minifleet/internal/override"
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

// What was allowed to a MiniCluster is not allowed to what an override makes of it: that takes every permission that the
// result needs, from whoever declares the override, or from the namespace.
func TestOverridesAreJudgedByWhoseTheyAre(t *testing.T) {
	image := []v1alpha1.ClusterOverride{{Name: "evil", Patches: []v1alpha1.JSONPatch{{
		Op: v1alpha1.PatchReplace, Path: "/containers/0/image", Value: &apiextensionsv1.JSON{Raw: []byte(`"example.org/evil"`)},
	}}}}
	same := []v1alpha1.ClusterOverride{{Name: "same", Patches: []v1alpha1.JSONPatch{{
		Op: v1alpha1.PatchAdd, Path: "/pod/hostIPC", Value: &apiextensionsv1.JSON{Raw: []byte("true")},
	}}}}
	elsewhere := []v1alpha1.ClusterOverride{*image[0].DeepCopy()}
	elsewhere[0].ClusterSelector = metav1.LabelSelector{MatchLabels: map[string]string{"zone": "nowhere"}}
	harmless := func(*v1alpha1.FleetMiniCluster) {}
	cases := map[string]struct {
		overrides []v1alpha1.ClusterOverride
		object    func(*v1alpha1.FleetMiniCluster)
		declared  bool
		namespace string
		begins    bool
	}{
		"somebody's":                              {overrides: image, object: privileged},
		"somebody's, allowed by the namespace":    {overrides: image, object: privileged, namespace: "HostNamespaces", begins: true},
		"somebody's, of what needs nothing":       {overrides: image, object: harmless, begins: true},
		"the source's":                            {overrides: image, object: privileged, declared: true, begins: true},
		"for no member":                           {overrides: elsewhere, object: privileged, begins: true},
		"that change nothing":                     {overrides: same, object: privileged, begins: true},
		"that add what takes a permission":        {overrides: same, object: harmless},
		"that add what the namespace allows":      {overrides: same, object: harmless, namespace: "HostNamespaces", begins: true},
		"that add what the source declares so":    {overrides: same, object: harmless, declared: true, begins: true},
		"the namespace allows something else":     {overrides: image, object: privileged, namespace: "RunAsRoot"},
		"none":                                    {object: privileged, begins: true},
		"the source's, and nothing changes there": {overrides: elsewhere, object: privileged, declared: true, begins: true},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			object := MakeObject("run").With(c.object, func(f *v1alpha1.FleetMiniCluster) {
				f.Labels = map[string]string{v1alpha1.LabelSource: "fleet"}
				f.Spec.Placement.Overrides = c.overrides
			}).Obj()
			spec := object.Spec.MiniCluster.DeepCopy()
			spec.Default()
			need := v1alpha1.DeclaredNeed{Name: object.Name, Digest: runs.FullDigest(object.Name, spec)}
			if c.declared {
				need.Overrides = override.Digest(c.overrides)
			}
			source := &v1alpha1.GitSource{ObjectMeta: metav1.ObjectMeta{Namespace: object.Namespace, Name: "fleet"}}
			source.Spec.Allow, source.Status.Needs = []v1alpha1.Permission{v1alpha1.PermissionHostNamespaces}, []v1alpha1.DeclaredNeed{need}
			grants := grant.For(grant.OfNamespace(object.Namespace, map[string]string{v1alpha1.AnnotationAllow: c.namespace}), object, source,
				grant.Asked{Digest: need.Digest, Overrides: override.Digest(c.overrides)})
			s := MakeSnapshot(object, MakeMember("alpine"))
			s.Grants, s.Confirmed = &grants, true
			anyRoom(s)
			observed(s, "alpine", none())
			d := decided(t, s)
			for _, r := range d.Reserve {
				s.Queue.Reserved[r.View.Member] = r.Reservation
			}
			round := next(t, s, d)
			if begins := len(round.Changed) > 0; begins != c.begins {
				t.Fatalf("it begins: %t", begins)
			}
			if alpine := target(t, round); !c.begins && (alpine.Step.Reason != v1alpha1.ReasonPolicyDenied || alpine.Problem == nil) {
				t.Errorf("it is told: %+v, %+v", alpine.Step, alpine.Problem)
			}
		})
	}
}

// The cache may not have yet what the source has declared: nothing is denied before the hub itself was asked.
func TestDeniedOverridesAreConfirmed(t *testing.T) {
	object := MakeObject("run").With(func(f *v1alpha1.FleetMiniCluster) {
		f.Spec.Placement.Overrides = []v1alpha1.ClusterOverride{{Name: "host", Patches: []v1alpha1.JSONPatch{{
			Op: v1alpha1.PatchAdd, Path: "/pod/hostIPC", Value: &apiextensionsv1.JSON{Raw: []byte("true")},
		}}}}
	}).Obj()
	s := MakeSnapshot(object, MakeMember("alpine"))
	anyRoom(s)
	for _, c := range []struct {
		grants           *grant.Set
		confirmed, reads bool
	}{{nil, false, true}, {&grant.Set{}, false, true}, {&grant.Set{}, true, false}} {
		s.Grants, s.Confirmed = c.grants, c.confirmed
		if _, reads := plan.Decide(s, nil); reads.Grants != c.reads {
			t.Errorf("read %t, confirmed %t: %+v", c.grants != nil, c.confirmed, reads)
		}
	}
}

// A live run whose overrides would be denied to the next one goes on, and grows no further pods.
func TestDeniedOverridesLetLiveRunsGoOn(t *testing.T) {
	cases := map[string]struct {
		job    *JobWrapper
		change func(*v1alpha1.FleetMiniCluster)
		want   runs.Action
	}{
		"runs":            {MakeJob("aa").Running(), resumed, runs.Nothing},
		"to be resumed":   {MakeJob("aa").Suspended(), resumed, runs.Nothing},
		"to be suspended": {MakeJob("aa").Running(), suspended, runs.Adjust},
		"has succeeded":   {MakeJob("aa").Succeeded(), resumed, runs.Finish},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			object := MakeObject("run").With(c.change, func(f *v1alpha1.FleetMiniCluster) {
				f.Spec.Placement.Overrides = []v1alpha1.ClusterOverride{{Name: "host", Patches: []v1alpha1.JSONPatch{{
					Op: v1alpha1.PatchAdd, Path: "/pod/hostIPC", Value: &apiextensionsv1.JSON{Raw: []byte("true")},
				}}}}
			}).Runs(MakeRun("aa", "alpine", v1alpha1.RunRunning)).Placed("alpine").Obj()
			s := MakeSnapshot(object, MakeMember("alpine"))
			s.Grants, s.Confirmed = &grant.Set{}, true
			anyRoom(s)
			observed(s, "alpine", c.job.Observation())
			d := decided(t, s)
			round := next(t, s, d)
			alpine := target(t, round)
			if alpine.Step.Action != c.want {
				t.Errorf("%s, want %s", alpine.Step.Action, c.want)
			}
			if round.Repairable(s, d, alpine) {
				t.Error("what the run was made of is made anew")
			}
		})
	}
}
