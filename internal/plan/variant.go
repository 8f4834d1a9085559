package plan

import (
	"errors"
	"fmt"
	"slices"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	fluxv1alpha2 "github.com/minifleet/minifleet/api/flux/v1alpha2"
	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/internal/fit"
	"github.com/minifleet/minifleet/internal/grant"
	"github.com/minifleet/minifleet/internal/override"
	"github.com/minifleet/minifleet/internal/policy"
	"github.com/minifleet/minifleet/internal/render"
	"github.com/minifleet/minifleet/internal/runs"
	"github.com/minifleet/minifleet/internal/sanitize"
)

// Variants are the MiniCluster as members get it: with overrides it may be another one on each. Each is made once,
// when it is first asked for. Variants are not for concurrent use.
type Variants struct {
	object    *v1alpha1.FleetMiniCluster
	valid     bool
	overrides []v1alpha1.ClusterOverride
	judge     func(*fluxv1alpha2.MiniClusterSpec) error // what overrides make of it is allowed; nil: that is not asked
	labels    func(member string) map[string]string
	made      map[string]*Variant // by member, or by "" for all where nothing is overridden
}

// Variant is the MiniCluster for a member.
type Variant struct {
	override.Result
	// Err is why there is none; then the MiniCluster as it is stands in for runs that began without the override. It is a
	// *Denial where that is for want of permissions.
	Err error
	// References are the Secrets and ConfigMaps that it names.
	References []fluxv1alpha2.Reference

	gang    *fit.Gang
	gangErr error
}

// Denial is why overrides may not do to a MiniCluster what they do.
type Denial struct{ Message string }

func (d *Denial) Error() string { return d.Message }

// isDenied says whether the reason why there is no variant is the want of permissions.
func (v *Variant) isDenied() bool {
	var denial *Denial
	return errors.As(v.Err, &denial)
}

func newVariants(s *Snapshot, valid bool, overrides []v1alpha1.ClusterOverride) *Variants {
	v := &Variants{object: s.Object, valid: valid, overrides: overrides, made: map[string]*Variant{}}
	v.labels = func(member string) map[string]string {
		if m := s.Member(member); m != nil {
			return m.Cluster.Labels
		}
		return nil
	}
	v.judge = func(spec *fluxv1alpha2.MiniClusterSpec) error { return overridePermitted(s, spec) }
	return v
}

// For is the MiniCluster for a member.
func (v *Variants) For(member string) *Variant {
	if len(v.overrides) == 0 {
		member = ""
	}
	out := v.made[member]
	if out == nil {
		out = v.make(v.labels(member))
		v.made[member] = out
	}
	return out
}

func (v *Variants) make(labels map[string]string) *Variant {
	own, path := &v.object.Spec.MiniCluster, field.NewPath("spec", "miniCluster")
	out := &Variant{}
	out.Result, out.Err = override.Apply(v.object.Name, own, v.overrides, labels)
	if out.Err == nil && out.Digest != "" && v.judge != nil && changes(v.object.Name, own, &out.Spec) {
		out.Err = v.judge(&out.Spec)
	}
	out.References = fluxv1alpha2.References(own, path)
	if out.Err == nil && out.Digest != "" {
		out.References = fluxv1alpha2.References(&out.Spec, path)
	}
	return out
}

// changes says whether overrides have changed anything that a run is made of.
func changes(name string, own, overridden *fluxv1alpha2.MiniClusterSpec) bool {
	digest := func(spec *fluxv1alpha2.MiniClusterSpec) string {
		spec = spec.DeepCopy()
		spec.Default()
		return runs.FullDigest(name, spec)
	}
	return digest(own) != digest(overridden)
}

// overridePermitted refuses a MiniCluster that overrides have changed for all that it needs permissions for, unless the
// namespace allows that, or the source that declares these overrides does. What was allowed to the MiniCluster as it was
// is not allowed to whatever somebody makes of it.
func overridePermitted(s *Snapshot, overridden *fluxv1alpha2.MiniClusterSpec) error {
	var grants grant.Set
	if s.Grants != nil {
		grants = s.Grants.Overridden()
	}
	denied := policy.Denied(s.Policy.Needs(overridden, field.NewPath("spec", "miniCluster")), grants.Permissions())
	if len(denied) == 0 {
		return nil
	}
	return &Denial{fmt.Sprintf("overrides of the placement: not allowed: %s. %s",
		sanitize.Text(policy.Explain(denied, grant.MaxDenied), grant.MaxExplained), grants.Remedy(policy.Permissions(denied)))}
}

// denied says whether overrides make something of the MiniCluster on any of these members that is not allowed.
func (v *Variants) denied(members []Member) bool {
	return len(v.overrides) > 0 && slices.ContainsFunc(members, func(m Member) bool { return v.For(m.Cluster.Name).isDenied() })
}

// Quorum is the pods of Gang that have to have room before a run begins: minSize of them, where that is set. The others
// come as they have some.
func (v *Variants) Quorum(member string) (fit.Gang, error) {
	gang, err := v.Gang(member)
	if err != nil {
		return fit.Gang{}, err
	}
	return quorumOf(gang, &v.For(member).Spec), nil
}

func quorumOf(g fit.Gang, spec *fluxv1alpha2.MiniClusterSpec) fit.Gang {
	if least := int(spec.MinSize); least > 0 && least < g.Size {
		g.Full, g.Size = g.Size, least
	}
	return g
}

// Gang is the pods that the MiniCluster will have on a member.
func (v *Variants) Gang(member string) (fit.Gang, error) {
	out := v.For(member)
	if out.Err != nil {
		return fit.Gang{}, out.Err
	}
	if out.gang == nil && out.gangErr == nil {
		var g fit.Gang
		if g, out.gangErr = gangOf(v.object, &out.Spec, v.valid); out.gangErr == nil {
			out.gang = &g
		}
	}
	if out.gangErr != nil {
		return fit.Gang{}, out.gangErr
	}
	return *out.gang, nil
}

// gangOf is the pods that a MiniCluster will have. The spec may be known to be valid.
func gangOf(f *v1alpha1.FleetMiniCluster, spec *fluxv1alpha2.MiniClusterSpec, valid bool) (fit.Gang, error) {
	job, services, err := render.Pods(render.Input{Name: f.Name, Namespace: f.Namespace, Spec: *spec, Valid: valid})
	if err != nil {
		return fit.Gang{}, err
	}
	return gangOfJob(job, services), nil
}

func gangOfJob(job *batchv1.Job, services *corev1.Pod) fit.Gang {
	g := fit.Gang{Pod: fit.PodOf(&job.Spec.Template.Spec)}
	if job.Spec.Completions != nil {
		g.Size = int(*job.Spec.Completions)
	}
	if services != nil {
		p := fit.PodOf(&services.Spec)
		g.Beside = &p
	}
	return g
}

// recorded puts on record which overrides each chosen member gets. For a run that has begun that is what it began with.
func (v *Variants) recorded(ds []v1alpha1.ClusterDecision, ledger runs.Ledger, wanted runs.Wanted) []v1alpha1.ClusterDecision {
	for i := range ds {
		last := ledger.Last(ds[i].Name)
		if wanted.IsCurrent(last) && hasJob(last) {
			continue
		}
		if variant := v.For(ds[i].Name); variant.Err == nil {
			ds[i].Overrides, ds[i].OverridesDigest = variant.Names, variant.Digest
		}
	}
	return ds
}
