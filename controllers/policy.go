package controllers

import (
	"context"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	fluxv1alpha2 "github.com/minifleet/minifleet/api/flux/v1alpha2"
	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/controllers/internal/allowance"
	"github.com/minifleet/minifleet/internal/grant"
	"github.com/minifleet/minifleet/internal/policy"
	"github.com/minifleet/minifleet/internal/rollup"
	"github.com/minifleet/minifleet/internal/runs"
	"github.com/minifleet/minifleet/internal/sanitize"
)

// permit sets a problem if the MiniCluster needs permissions that it does not have. What already runs is not
// touched then, and nothing new begins.
func (p *pass) permit(ctx context.Context, spec *fluxv1alpha2.MiniClusterSpec) error {
	needs := policy.Needs(spec, field.NewPath("spec", "miniCluster"))
	if len(needs) == 0 {
		return nil
	}
	granted, err := p.grants(ctx, p.r.Client, spec)
	if err != nil || len(policy.Denied(needs, granted.Permissions())) == 0 {
		return err
	}
	// What the source wrote before it wrote this object may come later into the cache than the object.
	if granted, err = p.grants(ctx, p.r.APIReader, spec); err != nil {
		return err
	}
	denied := policy.Denied(needs, granted.Permissions())
	if len(denied) == 0 {
		return nil
	}
	why, remedy := "not allowed: "+policy.Explain(denied, grant.MaxDenied), granted.Remedy(policy.Permissions(denied))
	p.problem = &rollup.Problem{
		Reason: v1alpha1.ReasonPolicyDenied, Message: sanitize.Text(sanitize.Text(why, grant.MaxExplained)+". "+remedy, sanitize.MaxMessage),
	}
	p.stalled = true
	was := meta.FindStatusCondition(p.fmc.Status.Conditions, v1alpha1.ConditionReady)
	if was == nil || was.Reason != v1alpha1.ReasonPolicyDenied || was.Message != p.problem.Message {
		p.note("Warning", v1alpha1.ReasonPolicyDenied, "Check", "", "", sanitize.Text(why, sanitize.MaxNote/2)+". "+remedy)
	}
	return nil
}

// permitted takes out of a step what a refused MiniCluster must not do: a run that was about to start does
// not, and one that is live grows no further pods. It may be suspended, which ends pods.
func (p *pass) permitted(step runs.Step) runs.Step {
	if p.problem == nil || p.problem.Reason != v1alpha1.ReasonPolicyDenied {
		return step
	}
	if step.Action == runs.Create || step.Action == runs.Adjust && step.Reason != v1alpha1.ReasonSuspended {
		return runs.Step{Action: runs.Nothing, Reason: v1alpha1.ReasonPolicyDenied, Message: p.problem.Message}
	}
	return step
}

// grants finds who allows what the FleetMiniCluster uses.
func (p *pass) grants(ctx context.Context, reader client.Reader, spec *fluxv1alpha2.MiniClusterSpec) (grant.Set, error) {
	namespace, err := allowance.OfNamespace(ctx, reader, p.fmc.Namespace)
	if err != nil {
		return grant.Set{}, err
	}
	var source *v1alpha1.GitSource
	if name := p.fmc.Labels[v1alpha1.LabelSource]; name != "" {
		var found v1alpha1.GitSource
		switch err := reader.Get(ctx, types.NamespacedName{Namespace: p.fmc.Namespace, Name: name}, &found); {
		case err == nil:
			source = &found
		case !apierrors.IsNotFound(err):
			return grant.Set{}, fmt.Errorf("reading GitSource %s: %w", name, err)
		}
	}
	return grant.For(namespace, p.fmc, source, runs.FullDigest(p.fmc.Name, spec)), nil
}

// usersOfNamespace are those whose run may depend on what their namespace allows.
func (r *FleetMiniClusterReconciler) usersOfNamespace(ctx context.Context, namespace client.Object) []types.NamespacedName {
	return r.which(ctx, func(f *v1alpha1.FleetMiniCluster) bool {
		ready := meta.FindStatusCondition(f.Status.Conditions, v1alpha1.ConditionReady)
		overridden := ready != nil && ready.Reason == v1alpha1.ReasonInvalidOverride
		return f.Namespace == namespace.GetName() && (needy(f) || overridden)
	})
}

// usersOfSource are those whose run may depend on what their source allows.
func (r *FleetMiniClusterReconciler) usersOfSource(ctx context.Context, source client.Object) []types.NamespacedName {
	return r.which(ctx, func(f *v1alpha1.FleetMiniCluster) bool {
		return f.Namespace == source.GetNamespace() && f.Labels[v1alpha1.LabelSource] == source.GetName() && needy(f)
	})
}

func needy(f *v1alpha1.FleetMiniCluster) bool {
	return len(policy.Needs(&f.Spec.MiniCluster, field.NewPath("spec"))) > 0
}

// sourceAllowanceChanged lets through what sources allow, and for whom.
var sourceAllowanceChanged = predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
	before, ok1 := e.ObjectOld.(*v1alpha1.GitSource)
	after, ok2 := e.ObjectNew.(*v1alpha1.GitSource)
	return !ok1 || !ok2 || !slices.Equal(before.Spec.Allow, after.Spec.Allow) ||
		!equality.Semantic.DeepEqual(before.Status.Needs, after.Status.Needs)
}}
