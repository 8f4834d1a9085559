package controllers

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
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
	"github.com/minifleet/minifleet/internal/policy"
	"github.com/minifleet/minifleet/internal/rollup"
	"github.com/minifleet/minifleet/internal/runs"
	"github.com/minifleet/minifleet/internal/sanitize"
)

// +kubebuilder:rbac:groups="",resources=namespaces,verbs=get;list;watch

const (
	// mostDenied is how many fields of one MiniCluster a message names.
	mostDenied = 10
	// mostExplained bounds, in bytes, what a message says of these fields, so that there is room for the mend.
	mostExplained = 3000
)

// permit sets a problem if the MiniCluster needs permissions that it does not have. What already runs is not
// touched then, and nothing new begins.
func (p *pass) permit(ctx context.Context, spec *fluxv1alpha2.MiniClusterSpec) error {
	needs := policy.Needs(spec, field.NewPath("spec", "miniCluster"))
	if len(needs) == 0 {
		return nil
	}
	a, err := p.allowance(ctx, p.r.Client, spec)
	if err != nil || len(policy.Denied(needs, a.permissions)) == 0 {
		return err
	}
	// What the source wrote before it wrote this object may come later into the cache than the object.
	if a, err = p.allowance(ctx, p.r.APIReader, spec); err != nil {
		return err
	}
	denied := policy.Denied(needs, a.permissions)
	if len(denied) == 0 {
		return nil
	}
	why, mend := "not allowed: "+policy.Explain(denied, mostDenied), a.mend(policy.Permissions(denied))
	p.problem = &rollup.Problem{
		Reason: v1alpha1.ReasonPolicyDenied, Message: sanitize.Text(sanitize.Text(why, mostExplained)+". "+mend, sanitize.MaxMessage),
	}
	p.stalled = true
	was := meta.FindStatusCondition(p.fmc.Status.Conditions, v1alpha1.ConditionReady)
	if was == nil || was.Reason != v1alpha1.ReasonPolicyDenied || was.Message != p.problem.Message {
		p.note("Warning", v1alpha1.ReasonPolicyDenied, "Check", "", "", sanitize.Text(why, sanitize.MaxNote/2)+". "+mend)
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

// allowance is what a FleetMiniCluster may use, and who could allow more.
type allowance struct {
	permissions []v1alpha1.Permission
	namespace   namespaceAllowance
	// source is the GitSource that declares the object as it is, or nil.
	source *v1alpha1.GitSource
	// stranger is why the GitSource that the object's label names does not speak for it, or empty.
	stranger string
}

// allowance adds up what the namespace and the source allow. A label proves nothing, since whoever edits the
// object can set it: a source speaks for an object if its status, which the controller alone writes, says
// that Git declares just this.
func (p *pass) allowance(ctx context.Context, reader client.Reader, spec *fluxv1alpha2.MiniClusterSpec) (*allowance, error) {
	a := &allowance{}
	var err error
	if a.namespace, err = readNamespaceAllowance(ctx, reader, p.fmc.Namespace); err != nil {
		return nil, err
	}
	a.permissions = a.namespace.permissions
	name := p.fmc.Labels[v1alpha1.LabelSource]
	if name == "" {
		return a, nil
	}
	var source v1alpha1.GitSource
	err = reader.Get(ctx, types.NamespacedName{Namespace: p.fmc.Namespace, Name: name}, &source)
	switch {
	case apierrors.IsNotFound(err):
		a.stranger = fmt.Sprintf("There is no GitSource %s/%s any more that could allow it. ", p.fmc.Namespace, name)
	case err != nil:
		return nil, fmt.Errorf("reading GitSource %s: %w", name, err)
	case !declares(source.Status.Needs, p.fmc.Name, runs.FullDigest(p.fmc.Name, spec)):
		a.stranger = fmt.Sprintf("GitSource %s/%s does not declare this MiniCluster as it is here, so what it allows does not count. ", p.fmc.Namespace, name)
	default:
		a.source = &source
		a.permissions = slices.Concat(a.permissions, source.Spec.Allow)
	}
	return a, nil
}

func declares(declared []v1alpha1.DeclaredNeed, name, digest string) bool {
	return slices.ContainsFunc(declared, func(n v1alpha1.DeclaredNeed) bool { return n.Name == name && n.Digest == digest })
}

// mend says how to allow what is missing.
func (a *allowance) mend(missing []v1alpha1.Permission) string {
	if a.source != nil {
		return "Remove what is named, or allow it for this source: " + allowForSource(a.source, missing) + a.namespace.misspelt()
	}
	return a.stranger + "Remove what is named, or allow it in this namespace of the hub: " + a.namespace.allow(missing) + a.namespace.misspelt()
}

// allowForSource is the command that lets a source use more permissions.
func allowForSource(source *v1alpha1.GitSource, more []v1alpha1.Permission) string {
	list, err := json.Marshal(union(source.Spec.Allow, more))
	if err != nil {
		panic(err) // not reachable: these are words
	}
	return fmt.Sprintf(`kubectl -n %s patch gitsource %s --type merge -p '{"spec":{"allow":%s}}'`, source.Namespace, source.Name, list)
}

// union is sorted, and has each permission once.
func union(a, b []v1alpha1.Permission) []v1alpha1.Permission {
	out := slices.Concat(a, b)
	slices.Sort(out)
	return slices.Compact(out)
}

// namespaceAllowance is what a namespace of the hub allows everything in it.
type namespaceAllowance struct {
	namespace   string
	permissions []v1alpha1.Permission
	unknown     []string // words of the annotation that are no permission
}

func readNamespaceAllowance(ctx context.Context, c client.Reader, namespace string) (namespaceAllowance, error) {
	var ns corev1.Namespace
	if err := c.Get(ctx, client.ObjectKey{Name: namespace}, &ns); client.IgnoreNotFound(err) != nil {
		return namespaceAllowance{}, fmt.Errorf("reading namespace %s: %w", namespace, err)
	}
	a := namespaceAllowance{namespace: namespace}
	a.permissions, a.unknown = policy.Parse(ns.Annotations[v1alpha1.AnnotationAllow])
	return a, nil
}

// allow is the command that lets everything in the namespace use more permissions.
func (a namespaceAllowance) allow(more []v1alpha1.Permission) string {
	return fmt.Sprintf("kubectl annotate --overwrite namespace %s %s=%s", a.namespace, v1alpha1.AnnotationAllow, policy.Join(union(a.permissions, more)))
}

func (a namespaceAllowance) misspelt() string {
	if len(a.unknown) == 0 {
		return ""
	}
	return sanitize.Text(fmt.Sprintf(". The annotation %s of namespace %s has words that are no permission: %s (there are %s)",
		v1alpha1.AnnotationAllow, a.namespace, sanitize.Names(a.unknown, 5), policy.Join(v1alpha1.Permissions())), sanitize.MaxNote)
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

// allowanceChanged lets through what namespaces allow, and not their other changes.
var allowanceChanged = predicate.Funcs{
	CreateFunc: func(e event.CreateEvent) bool { return e.Object.GetAnnotations()[v1alpha1.AnnotationAllow] != "" },
	UpdateFunc: func(e event.UpdateEvent) bool {
		return e.ObjectOld.GetAnnotations()[v1alpha1.AnnotationAllow] != e.ObjectNew.GetAnnotations()[v1alpha1.AnnotationAllow]
	},
	DeleteFunc: func(event.DeleteEvent) bool { return false }, // what was in it goes with it
}

// sourceAllowanceChanged lets through what sources allow, and for whom.
var sourceAllowanceChanged = predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
	before, ok1 := e.ObjectOld.(*v1alpha1.GitSource)
	after, ok2 := e.ObjectNew.(*v1alpha1.GitSource)
	return !ok1 || !ok2 || !slices.Equal(before.Spec.Allow, after.Spec.Allow) ||
		!equality.Semantic.DeepEqual(before.Status.Needs, after.Status.Needs)
}}
