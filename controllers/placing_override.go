package controllers

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/util/validation/field"

	fluxv1alpha2 "github.com/minifleet/minifleet/api/flux/v1alpha2"
	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/controllers/internal/allowance"
	"github.com/minifleet/minifleet/internal/fit"
	"github.com/minifleet/minifleet/internal/grant"
	"github.com/minifleet/minifleet/internal/override"
	"github.com/minifleet/minifleet/internal/policy"
	"github.com/minifleet/minifleet/internal/runs"
)

// variants are the MiniCluster as members get it: with overrides it may be another one on each.
type variants struct {
	overrides []v1alpha1.ClusterOverride
	namespace grant.Namespace              // what overrides may use that the MiniCluster does not
	labels    map[string]map[string]string // of members

	mu   sync.Mutex
	made map[string]*variant // by member, or by "" for all where nothing is overridden
}

// variant is the MiniCluster for a member.
type variant struct {
	override.Result
	err        error
	gang       *fit.Gang // once it was needed
	references []fluxv1alpha2.Reference
}

func (v *variants) labelsOf(members []v1alpha1.MemberCluster) {
	v.labels = make(map[string]map[string]string, len(members))
	for i := range members {
		v.labels[members[i].Name] = members[i].Labels
	}
}

// variant is the MiniCluster with the overrides for a member, each made once.
func (p *pass) variant(member string) (*variant, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	v := p.variantOf(member)
	return v, v.err
}

func (p *pass) variantOf(member string) *variant {
	if len(p.overrides) == 0 {
		member = ""
	}
	v := p.made[member]
	if v == nil {
		v = &variant{}
		v.Result, v.err = override.Apply(p.fmc.Name, &p.fmc.Spec.MiniCluster, p.overrides, p.labels[member])
		if v.err == nil {
			v.err = p.permitOverride(&v.Spec)
		}
		v.references = fluxv1alpha2.References(&p.fmc.Spec.MiniCluster, field.NewPath("spec", "miniCluster"))
		if v.err == nil && v.Digest != "" {
			v.references = fluxv1alpha2.References(&v.Spec, field.NewPath("spec", "miniCluster"))
		}
		if p.made == nil {
			p.made = map[string]*variant{}
		}
		p.made[member] = v
	}
	return v
}

// readOverrides keeps the overrides of a placement, with what its namespace allows.
func (p *pass) readOverrides(ctx context.Context, overrides []v1alpha1.ClusterOverride) (err error) {
	if p.overrides = overrides; len(overrides) > 0 {
		p.namespace, err = allowance.OfNamespace(ctx, p.r.Client, p.fmc.Namespace)
	}
	return err
}

// permitOverride refuses what an overridden MiniCluster needs permissions for beyond the MiniCluster itself.
// A source speaks for its MiniClusters as it declares them, so only the namespace can allow that.
func (p *pass) permitOverride(spec *fluxv1alpha2.MiniClusterSpec) error {
	path := field.NewPath("spec", "miniCluster")
	own := map[string]bool{}
	for _, need := range policy.Needs(&p.fmc.Spec.MiniCluster, path) {
		own[need.Field.String()+need.Why] = true
	}
	more := slices.DeleteFunc(policy.Needs(spec, path), func(n policy.Need) bool { return own[n.Field.String()+n.Why] })
	denied := policy.Denied(more, p.namespace.Permissions)
	if len(denied) == 0 {
		return nil
	}
	return fmt.Errorf("overrides of the placement: not allowed: %s. Remove what is named, or allow it in this namespace of the hub: %s",
		policy.Explain(denied, grant.MaxDenied), p.namespace.Command(policy.Permissions(denied)))
}

// gang is the pods that the MiniCluster will have on a member.
func (p *pass) gang(member string) (fit.Gang, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	v := p.variantOf(member)
	if v.err != nil {
		return fit.Gang{}, v.err
	}
	if v.gang == nil {
		g, err := gangOf(p.fmc, &v.Spec, p.valid)
		if err != nil {
			return fit.Gang{}, err
		}
		v.gang = &g
	}
	return *v.gang, nil
}

// specFor is the MiniCluster to render for a site. An override that is wrong starts nothing; what it is
// wrong for has begun without it, and is looked after as it is.
func (p *pass) specFor(s *site) (*fluxv1alpha2.MiniClusterSpec, error) {
	v, err := p.variant(s.name)
	switch {
	case err == nil:
		return &v.Spec, nil
	case s.step.Action == runs.Create:
		return nil, err
	default:
		return &p.fmc.Spec.MiniCluster, nil
	}
}

// referencesOn are the Secrets and ConfigMaps that the MiniCluster names on a member.
func (p *pass) referencesOn(s *site) []fluxv1alpha2.Reference {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.variantOf(s.name).references
}

// overridden says that the overrides for a site are no longer those that its run began with.
func (p *pass) overridden(s *site) bool {
	v, err := p.variant(s.name)
	if err != nil || p.decision == nil {
		return true
	}
	i := slices.IndexFunc(p.decision.Decisions, func(d v1alpha1.ClusterDecision) bool { return d.Name == s.name })
	return i >= 0 && p.decision.Decisions[i].OverridesDigest != v.Digest
}

// withOverrides puts on record which overrides each chosen member gets. For a run that has begun that is what
// it began with.
func (p *pass) withOverrides(ds []v1alpha1.ClusterDecision) []v1alpha1.ClusterDecision {
	for i := range ds {
		last := p.ledger.Last(ds[i].Name)
		if p.wanted.IsCurrent(last) && last.State != v1alpha1.RunStarting {
			continue
		}
		if v, err := p.variant(ds[i].Name); err == nil {
			ds[i].Overrides, ds[i].OverridesDigest = v.Names, v.Digest
		}
	}
	return ds
}
