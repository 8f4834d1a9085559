package gitsource

import (
	"context"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation/field"

	fluxv1alpha2 "github.com/minifleet/minifleet/api/flux/v1alpha2"
	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/gitsource/parse"
	"github.com/minifleet/minifleet/internal/grant"
	"github.com/minifleet/minifleet/internal/policy"
	"github.com/minifleet/minifleet/internal/runs"
	"github.com/minifleet/minifleet/internal/sanitize"
)

// maxNeeds is how many MiniClusters that need permissions a status lists, at some 250 bytes each.
const maxNeeds = 1000

// treeNeed is a MiniCluster in Git that needs permissions.
type treeNeed struct {
	object *parse.Object
	needs  []policy.Need
	entry  v1alpha1.DeclaredNeed
}

// needsOf are the objects of a tree that need permissions, in the order of its files.
func needsOf(objects []parse.Object) []treeNeed {
	var out []treeNeed
	for i := range objects {
		o := &objects[i]
		var n treeNeed
		switch o.Kind {
		case parse.KindMiniCluster:
			n = needOf(o, &o.MiniCluster.Spec, field.NewPath("spec"))
		case parse.KindFleetMiniCluster:
			n = needOf(o, &o.FleetMiniCluster.Spec.MiniCluster, field.NewPath("spec", "miniCluster"))
		}
		if len(n.needs) > 0 {
			out = append(out, n)
		}
	}
	return out
}

func needOf(o *parse.Object, spec *fluxv1alpha2.MiniClusterSpec, path *field.Path) treeNeed {
	spec = spec.DeepCopy()
	spec.Default()
	n := treeNeed{object: o, needs: policy.Needs(spec, path)}
	n.entry = v1alpha1.DeclaredNeed{Name: o.Name, Digest: runs.FullDigest(o.Name, spec), Permissions: policy.Permissions(n.needs)}
	return n
}

// declaration is what a source declares that needs permissions.
type declaration struct {
	needs    []v1alpha1.DeclaredNeed
	earlier  []v1alpha1.DeclaredNeed // what it declared before, and is on the hub yet
	problems []v1alpha1.FileProblem  // what it is not allowed
}

// declare records in the status, before anything is applied, which MiniClusters of a source need permissions.
// Those that are refused are applied nevertheless: it is the FleetMiniCluster that says on the hub why nothing
// runs, and what is live of it goes on.
func (r *Reconciler) declare(ctx context.Context, source *v1alpha1.GitSource, namespace grant.Namespace, t *tree, have hubObjects) (declaration, error) {
	d := declarationOf(source, namespace, t.needs, have)
	now := d.beforeApply()
	if equality.Semantic.DeepEqual(now, source.Status.Needs) {
		return d, nil
	}
	source.Status.Needs = now
	return d, r.Client.Status().Update(ctx, source)
}

// declarationOf compares what a tree needs with what is allowed, and with what was declared before.
func declarationOf(source *v1alpha1.GitSource, namespace grant.Namespace, needs []treeNeed, have hubObjects) declaration {
	var d declaration
	allowed := slices.Concat(namespace.Permissions, source.Spec.Allow)
	for i, n := range needs {
		if i < maxNeeds {
			d.needs = append(d.needs, n.entry)
			d.problems = append(d.problems, deniedProblems(source, namespace, n, policy.Denied(n.needs, allowed))...)
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
		if h != nil && belongsTo(h, source.Name) && !grant.Declares(d.needs, need.Name, need.Digest) {
			d.earlier = append(d.earlier, need)
		}
	}
	return d
}

// deniedProblems says what of one MiniCluster is denied, and how to allow it.
func deniedProblems(source *v1alpha1.GitSource, namespace grant.Namespace, n treeNeed, denied []policy.Need) []v1alpha1.FileProblem {
	if len(denied) == 0 {
		return nil
	}
	var out []v1alpha1.FileProblem
	remedy := "Remove it, or allow it for this source: " + grant.SourceCommand(source, policy.Permissions(denied)) + namespace.UnknownNote()
	for _, d := range denied[:min(len(denied), grant.MaxDenied)] {
		out = append(out, objectProblem(n.object, d.Field.String(), sanitize.Text(d.Says(), sanitize.MaxNote/2)+". "+remedy))
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
// which is still on the hub as it was: its file cannot be read now, say, or the hub refused the new one.
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
