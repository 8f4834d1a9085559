package plan

import (
	"strings"
	"unicode"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/util/validation/field"

	fluxv1alpha2 "github.com/minifleet/minifleet/api/flux/v1alpha2"
	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/internal/grant"
	"github.com/minifleet/minifleet/internal/policy"
	"github.com/minifleet/minifleet/internal/rollup"
	"github.com/minifleet/minifleet/internal/runs"
	"github.com/minifleet/minifleet/internal/sanitize"
)

// Request is what a FleetMiniCluster asks for, and whether it may have it.
type Request struct {
	Wanted runs.Wanted
	// Valid says that the MiniCluster's spec is.
	Valid bool
	// Problem is why nothing new may begin anywhere, nil if it may. Stalled says that only an edit can help.
	Problem *rollup.Problem
	Stalled bool
}

// denied says whether the MiniCluster needs permissions that it does not have.
func (r *Request) denied() bool {
	return r.Problem != nil && r.Problem.Reason == v1alpha1.ReasonPolicyDenied
}

// wantedBy is what a FleetMiniCluster asks of every member.
func wantedBy(f *v1alpha1.FleetMiniCluster, spec *fluxv1alpha2.MiniClusterSpec) runs.Wanted {
	return runs.Wanted{
		Digest: runs.Digest(f.Name, spec), RerunAt: sanitize.Text(f.Annotations[v1alpha1.AnnotationRerunAt], 253),
		Size: spec.Size, Suspend: f.Suspended(), OnChange: f.Spec.OnChange,
		Retries: f.Spec.Retries, Cancel: runIDs(f.Annotations[v1alpha1.AnnotationCancel]),
	}
}

// runIDs are the ids in an annotation, which people have separated by commas or spaces.
func runIDs(list string) []string {
	return strings.FieldsFunc(list, func(c rune) bool { return c == ',' || unicode.IsSpace(c) })
}

// request says what is asked for. Grants have to be read where it needs any.
func request(s *Snapshot, reads *Reads) (Request, []Event) {
	spec := s.Object.Spec.MiniCluster.DeepCopy()
	spec.Default()
	r := Request{Wanted: wantedBy(s.Object, spec)}
	errs := fluxv1alpha2.Validate(s.Object.Name, spec, field.NewPath("spec", "miniCluster"))
	if r.Valid = len(errs) == 0; !r.Valid {
		r.Problem, r.Stalled = &rollup.Problem{Reason: v1alpha1.ReasonInvalidSpec, Message: listErrors(errs)}, true
		return r, nil
	}
	needs := s.Policy.Needs(spec, field.NewPath("spec", "miniCluster"))
	if len(needs) == 0 {
		return r, nil
	}
	if s.Grants == nil {
		reads.Grants = true
		return r, nil
	}
	denied := policy.Denied(needs, s.Grants.Permissions())
	if len(denied) == 0 {
		return r, nil
	}
	if !s.Confirmed {
		// What a source wrote before it wrote this object may come later into the cache than the object.
		reads.Grants = true
		return r, nil
	}
	r.Stalled = true
	problem, event := denial(s, denied)
	r.Problem = problem
	return r, event
}

// denial says which fields are not allowed, and how to allow them. An event tells it once.
func denial(s *Snapshot, denied []policy.Need) (*rollup.Problem, []Event) {
	why, remedy := "not allowed: "+policy.Explain(denied, grant.MaxDenied), s.Grants.Remedy(policy.Permissions(denied))
	p := &rollup.Problem{
		Reason:  v1alpha1.ReasonPolicyDenied,
		Message: sanitize.Text(sanitize.Text(why, grant.MaxExplained)+". "+remedy, sanitize.MaxMessage),
	}
	was := meta.FindStatusCondition(s.Object.Status.Conditions, v1alpha1.ConditionReady)
	if was != nil && was.Reason == p.Reason && was.Message == p.Message {
		return p, nil
	}
	return p, []Event{{Type: warning, Reason: p.Reason, Action: "Check", Message: sanitize.Text(why, sanitize.MaxNote/2) + ". " + remedy}}
}

// listErrors is all that is wrong with a MiniCluster, or as much as a condition holds and how much more.
func listErrors(errs field.ErrorList) string {
	items := make([]string, len(errs))
	for i, e := range errs {
		items[i] = e.Error()
	}
	return sanitize.List(items, sanitize.MaxMessage)
}

// permitted takes out of a step what a denied MiniCluster must not do: a run that was about to start does not, and
// one that is live grows no further pods. It may be suspended, which ends pods.
func permitted(r *Request, step runs.Step) runs.Step {
	if !r.denied() {
		return step
	}
	if step.Action == runs.Create || step.Action == runs.Adjust && step.Reason != v1alpha1.ReasonSuspended {
		return runs.Step{Action: runs.Nothing, Reason: v1alpha1.ReasonPolicyDenied, Message: r.Problem.Message}
	}
	return step
}
