package gitsource

import (
	"context"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	fluxv1alpha2 "github.com/minifleet/minifleet/api/flux/v1alpha2"
	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/gitsource/parse"
	"github.com/minifleet/minifleet/internal/changes"
	"github.com/minifleet/minifleet/internal/grant"
	"github.com/minifleet/minifleet/internal/override"
	"github.com/minifleet/minifleet/internal/policy"
	"github.com/minifleet/minifleet/internal/runs"
	"github.com/minifleet/minifleet/internal/sanitize"
)

// maxNeeds is how many MiniClusters that need permissions a status lists, at some 350 bytes each.
const maxNeeds = 1000

// treeNeed is a MiniCluster in Git that needs permissions, or may need some on a member.
type treeNeed struct {
	object *parse.Object
	needs  []policy.Need // of the MiniCluster as it is
	entry  v1alpha1.DeclaredNeed
}

// needing is what the needs of a tree depend on, beside the tree.
type needing struct {
	// placement is the default one.
	placement string
	// secrets says that MiniClusters with Secrets count: whether one takes a permission is seen on the member.
	secrets bool
}

func needingOf(source *v1alpha1.GitSource) needing {
	n := needing{secrets: slices.Contains(source.Spec.Allow, v1alpha1.PermissionServiceAccountToken)}
	if source.Spec.DefaultPlacement != nil {
		n.placement = source.Spec.DefaultPlacement.Name
	}
	return n
}

// needsOf are the objects of a tree that need permissions, in the order of its files, and then those that may need some.
// They are found once for what they depend on.
func (t *tree) needsOf(rules policy.Rules, n needing) []treeNeed {
	if t.needs == nil || t.needing != n {
		t.needs, t.found = needsSince(t.foundBefore, rules, n, t.parsed.Objects)
		t.needing, t.foundBefore = n, nil
	}
	return t.needs
}

// foundNeed is what one object needs, with what that depends on beside the object and the rules.
type foundNeed struct {
	needing   needing
	placement *v1alpha1.PlacementSpec
	need      treeNeed
	needs     bool
}

// needsSince takes what was found before for the same objects, by their identity.
func needsSince(before map[any]foundNeed, rules policy.Rules, n needing, objects []parse.Object) ([]treeNeed, map[any]foundNeed) {
	placements := map[string]*v1alpha1.PlacementSpec{}
	for i := range objects {
		if o := &objects[i]; o.Kind == parse.KindPlacement {
			placements[o.Name] = &o.Placement.Spec
		}
	}
	found := make(map[any]foundNeed, len(objects))
	out, perhaps := []treeNeed{}, []treeNeed{}
	for i := range objects {
		o := &objects[i]
		placement := placementOf(o, n, placements)
		f, known := before[identity(o)]
		if !known || f.needing != n || f.placement != placement {
			f = foundNeed{needing: n, placement: placement}
			f.need, f.needs = needOf(rules, n, o, placement)
		}
		f.need.object = o
		found[identity(o)] = f
		switch {
		case f.needs && len(f.need.entry.Permissions) > 0:
			out = append(out, f.need)
		case f.needs:
			perhaps = append(perhaps, f.need)
		}
	}
	return append(out, perhaps...), found
}

// placementOf is the placement of an object in Git, nil for one that is not there.
func placementOf(o *parse.Object, n needing, placements map[string]*v1alpha1.PlacementSpec) *v1alpha1.PlacementSpec {
	switch o.Kind {
	case parse.KindMiniCluster:
		name := o.MiniCluster.Labels[v1alpha1.LabelPlacement]
		if name == "" {
			name = n.placement
		}
		return placements[name]
	case parse.KindFleetMiniCluster:
		f := &o.FleetMiniCluster.Spec
		if f.Placement == nil && f.PlacementRef != nil {
			return placements[f.PlacementRef.Name]
		}
		return f.Placement
	}
	return nil
}

// needOf is what one object needs, if it needs anything.
func needOf(rules policy.Rules, n needing, o *parse.Object, placement *v1alpha1.PlacementSpec) (treeNeed, bool) {
	var spec *fluxv1alpha2.MiniClusterSpec
	path := field.NewPath("spec")
	switch o.Kind {
	case parse.KindMiniCluster:
		spec = o.MiniCluster.Spec.DeepCopy()
	case parse.KindFleetMiniCluster:
		spec, path = o.FleetMiniCluster.Spec.MiniCluster.DeepCopy(), path.Child("miniCluster")
	default:
		return treeNeed{}, false
	}
	spec.Default()
	need := treeNeed{object: o, needs: rules.Needs(spec, path)}
	permissions := policy.Permissions(need.needs)
	need.entry = v1alpha1.DeclaredNeed{Name: o.Name}
	if placement != nil {
		need.entry.Overrides = override.Digest(placement.Overrides)
		permissions = policy.Permissions(slices.Concat(need.needs, overriddenNeeds(rules, o.Name, spec, placement.Overrides)))
	}
	mounts := n.secrets && slices.ContainsFunc(fluxv1alpha2.References(spec, path), func(r fluxv1alpha2.Reference) bool { return r.Kind == fluxv1alpha2.KindSecret })
	if len(permissions) == 0 && !mounts {
		return need, false
	}
	need.entry.Digest, need.entry.Permissions = runs.FullDigest(o.Name, spec), permissions
	if need.entry.Permissions == nil {
		need.entry.Permissions = []v1alpha1.Permission{}
	}
	return need, true
}

// overriddenNeeds is what overrides may make a MiniCluster need: each of them alone, and all together. Which of them apply
// depends on the labels of members.
func overriddenNeeds(rules policy.Rules, name string, spec *fluxv1alpha2.MiniClusterSpec, overrides []v1alpha1.ClusterOverride) []policy.Need {
	everywhere := make([]v1alpha1.ClusterOverride, len(overrides))
	for i := range overrides {
		everywhere[i] = overrides[i]
		everywhere[i].ClusterSelector = metav1.LabelSelector{}
	}
	var out []policy.Need
	add := func(some []v1alpha1.ClusterOverride) {
		if made, err := override.Apply(name, spec, some, nil); err == nil { // what is wrong begins nothing
			out = append(out, rules.Needs(&made.Spec, field.NewPath("spec"))...)
		}
	}
	for i := range everywhere {
		add(everywhere[i : i+1])
	}
	if len(everywhere) > 1 {
		add(everywhere)
	}
	return out
}

// declaration is what a source declares that needs permissions.
type declaration struct {
	needs    []v1alpha1.DeclaredNeed
	earlier  []v1alpha1.DeclaredNeed // what it declared before, and is on the hub yet
	problems []v1alpha1.FileProblem  // what it is not allowed
	// unenforced is why what the source allows does not count, empty if it does.
	unenforced string
}

// declare finds out what a source declares that needs permissions.
func (r *Reconciler) declare(ctx context.Context, source *v1alpha1.GitSource, namespace grant.Namespace, t *tree, have changes.Hub) (declaration, error) {
	unenforced := ""
	if len(source.Spec.Allow) > 0 {
		var err error
		if unenforced, err = r.Enforcement.Missing(ctx); err != nil {
			return declaration{}, err
		}
	}
	return declarationOf(source, namespace, unenforced, t.needsOf(r.Policy, needingOf(source)), have), nil
}

// record writes to the status, before anything is applied, which MiniClusters of a source need permissions. Those that
// are refused are applied nevertheless: it is the FleetMiniCluster that says on the hub why nothing runs, and what is
// live of it goes on.
func (r *Reconciler) record(ctx context.Context, source *v1alpha1.GitSource, d declaration) error {
	now := d.beforeApply()
	if equality.Semantic.DeepEqual(now, source.Status.Needs) {
		return nil
	}
	source.Status.Needs = now
	return r.Client.Status().Update(ctx, source)
}

// declarationOf compares what a tree needs with what is allowed, and with what was declared before.
func declarationOf(source *v1alpha1.GitSource, namespace grant.Namespace, unenforced string, needs []treeNeed, have changes.Hub) declaration {
	d := declaration{unenforced: unenforced}
	allowed := namespace.Permissions
	if unenforced == "" {
		allowed = slices.Concat(allowed, source.Spec.Allow)
	}
	for i, n := range needs {
		if i < maxNeeds {
			d.needs = append(d.needs, n.entry)
			d.problems = append(d.problems, d.deniedProblems(source, namespace, n, policy.Denied(n.needs, allowed))...)
			continue
		}
		if missing := policy.Denied(n.needs, namespace.Permissions); len(missing) > 0 {
			d.problems = append(d.problems, objectProblem(n.object, missing[0].Field.String(), fmt.Sprintf(
				"a source can allow permissions to %d MiniClusters, and this is one more: use several sources, or allow them in this namespace of the hub: %s",
				maxNeeds, namespace.Command(policy.Permissions(missing)))))
		}
	}
	// What is on the hub is still as it was declared before, until it has been applied.
	for _, need := range source.Status.Needs {
		h := have[changes.Key(parse.KindFleetMiniCluster, need.Name)]
		if h != nil && changes.BelongsTo(h, source.Name) && !declares(d.needs, need) {
			d.earlier = append(d.earlier, need)
		}
	}
	return d
}

// declares says whether needs have a MiniCluster with just these digests.
func declares(needs []v1alpha1.DeclaredNeed, need v1alpha1.DeclaredNeed) bool {
	return slices.ContainsFunc(needs, func(n v1alpha1.DeclaredNeed) bool {
		return n.Name == need.Name && n.Digest == need.Digest && n.Overrides == need.Overrides
	})
}

// deniedProblems says what of one MiniCluster is denied, and how to allow it.
func (d *declaration) deniedProblems(source *v1alpha1.GitSource, namespace grant.Namespace, n treeNeed, denied []policy.Need) []v1alpha1.FileProblem {
	if len(denied) == 0 {
		return nil
	}
	var out []v1alpha1.FileProblem
	remedy := "Remove it, or allow it for this source: " + grant.SourceCommand(source, policy.Permissions(denied)) + namespace.UnknownNote()
	if d.unenforced != "" {
		remedy = "Remove it, or allow it in this namespace of the hub: " + namespace.Command(policy.Permissions(denied)) +
			", since what the source allows does not count: " + d.unenforced
	}
	for _, need := range denied[:min(len(denied), grant.MaxDenied)] {
		out = append(out, objectProblem(n.object, need.Field.String(), sanitize.Text(need.Says(), sanitize.MaxNote/2)+". "+remedy))
	}
	if more := len(denied) - grant.MaxDenied; more > 0 {
		out = append(out, objectProblem(n.object, "", fmt.Sprintf("%d more fields take permissions that it does not have. %s", more, remedy)))
	}
	return out
}

// beforeApply is what the status lists until everything has been applied.
func (d declaration) beforeApply() []v1alpha1.DeclaredNeed {
	return atMost(maxNeeds, slices.Concat(d.needs, d.earlier))
}

// afterApply is what the status lists once everything has been applied. Of what was declared before, that stays
// which is still on the hub as it was: its file cannot be read now, say, or the hub refused the new one, or the new one of
// the Placement with its overrides.
func (d declaration) afterApply(objects []parse.Object, refused, deleted []string) []v1alpha1.DeclaredNeed {
	if len(d.earlier) == 0 {
		return atMost(maxNeeds, slices.Clone(d.needs))
	}
	replaced := map[string]bool{}
	for _, o := range objects {
		if key := changes.Key(o.Kind, o.Name); !slices.Contains(refused, key) {
			replaced[key] = true
		}
	}
	for _, key := range deleted {
		replaced[key] = true
	}
	out := slices.Clone(d.needs)
	for _, need := range d.earlier {
		if !replaced[changes.Key(parse.KindFleetMiniCluster, need.Name)] {
			out = append(out, need)
		}
	}
	return atMost(maxNeeds, out)
}

func atMost(n int, needs []v1alpha1.DeclaredNeed) []v1alpha1.DeclaredNeed {
	return needs[:min(len(needs), n)]
}
