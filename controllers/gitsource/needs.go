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
		t.needs, t.needing = needsOf(rules, n, t.parsed.Objects), n
	}
	return t.needs
}

func needsOf(rules policy.Rules, n needing, objects []parse.Object) []treeNeed {
	placements := map[string]*v1alpha1.PlacementSpec{}
	for i := range objects {
		if o := &objects[i]; o.Kind == parse.KindPlacement {
			placements[o.Name] = &o.Placement.Spec
		}
	}
	out, perhaps := []treeNeed{}, []treeNeed{}
	for i := range objects {
		need, ok := needOf(rules, n, &objects[i], placements)
		switch {
		case ok && len(need.entry.Permissions) > 0:
			out = append(out, need)
		case ok:
			perhaps = append(perhaps, need)
		}
	}
	return append(out, perhaps...)
}

// needOf is what one object needs, if it needs anything.
func needOf(rules policy.Rules, n needing, o *parse.Object, placements map[string]*v1alpha1.PlacementSpec) (treeNeed, bool) {
	var spec *fluxv1alpha2.MiniClusterSpec
	var placement *v1alpha1.PlacementSpec
	path := field.NewPath("spec")
	switch o.Kind {
	case parse.KindMiniCluster:
		name := o.MiniCluster.Labels[v1alpha1.LabelPlacement]
		if name == "" {
			name = n.placement
		}
		spec, placement = o.MiniCluster.Spec.DeepCopy(), placements[name]
	case parse.KindFleetMiniCluster:
		f := &o.FleetMiniCluster.Spec
		spec, placement, path = f.MiniCluster.DeepCopy(), f.Placement, path.Child("miniCluster")
		if placement == nil && f.PlacementRef != nil {
			placement = placements[f.PlacementRef.Name]
		}
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

// declare records in the status, before anything is applied, which MiniClusters of a source need permissions.
// Those that are refused are applied nevertheless: it is the FleetMiniCluster that says on the hub why nothing
// runs, and what is live of it goes on.
func (r *Reconciler) declare(ctx context.Context, source *v1alpha1.GitSource, namespace grant.Namespace, t *tree, have hubObjects) (declaration, error) {
	unenforced := ""
	if len(source.Spec.Allow) > 0 {
		var err error
		if unenforced, err = r.Enforcement.Missing(ctx); err != nil {
			return declaration{}, err
		}
	}
	d := declarationOf(source, namespace, unenforced, t.needsOf(r.Policy, needingOf(source)), have)
	now := d.beforeApply()
	if equality.Semantic.DeepEqual(now, source.Status.Needs) {
		return d, nil
	}
	source.Status.Needs = now
	return d, r.Client.Status().Update(ctx, source)
}

// declarationOf compares what a tree needs with what is allowed, and with what was declared before.
func declarationOf(source *v1alpha1.GitSource, namespace grant.Namespace, unenforced string, needs []treeNeed, have hubObjects) declaration {
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
		h := have[objectKey(parse.KindFleetMiniCluster, need.Name)]
		if h != nil && belongsTo(h, source.Name) && !declares(d.needs, need) {
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
	replaced := map[string]bool{}
	for _, o := range objects {
		if key := objectKey(o.Kind, o.Name); !slices.Contains(refused, key) {
			replaced[key] = true
		}
	}
	for _, key := range deleted {
		replaced[key] = true
	}
	out := slices.Clone(d.needs)
	for _, need := range d.earlier {
		if !replaced[objectKey(parse.KindFleetMiniCluster, need.Name)] {
			out = append(out, need)
		}
	}
	return atMost(maxNeeds, out)
}

func atMost(n int, needs []v1alpha1.DeclaredNeed) []v1alpha1.DeclaredNeed {
	return needs[:min(len(needs), n)]
}
