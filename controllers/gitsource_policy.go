package controllers

import (
	"context"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	fluxv1alpha2 "github.com/minifleet/minifleet/api/flux/v1alpha2"
	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/controllers/internal/allowance"
	"github.com/minifleet/minifleet/gitsource/parse"
	"github.com/minifleet/minifleet/internal/grant"
	"github.com/minifleet/minifleet/internal/policy"
	"github.com/minifleet/minifleet/internal/runs"
	"github.com/minifleet/minifleet/internal/sanitize"
)

// mostNeeds is how many MiniClusters that need permissions a status lists, at some 250 bytes each.
const mostNeeds = 1000

// needyObject is a MiniCluster in Git that needs permissions.
type needyObject struct {
	object *parse.Object
	needs  []policy.Need
	entry  v1alpha1.DeclaredNeed
}

// needyObjects are those of a tree, in the order of its files.
func (t *tree) needyObjects() []needyObject {
	if t.judged {
		return t.needy
	}
	t.judged = true
	for i := range t.parsed.Objects {
		o := &t.parsed.Objects[i]
		var n needyObject
		switch o.Kind {
		case parse.KindMiniCluster:
			n = judge(o, &o.MiniCluster.Spec, field.NewPath("spec"))
		case parse.KindFleetMiniCluster:
			n = judge(o, &o.FleetMiniCluster.Spec.MiniCluster, field.NewPath("spec", "miniCluster"))
		}
		if len(n.needs) > 0 {
			t.needy = append(t.needy, n)
		}
	}
	return t.needy
}

func judge(o *parse.Object, spec *fluxv1alpha2.MiniClusterSpec, path *field.Path) needyObject {
	spec = spec.DeepCopy()
	spec.Default()
	n := needyObject{object: o, needs: policy.Needs(spec, path)}
	n.entry = v1alpha1.DeclaredNeed{Name: o.Name, Digest: runs.FullDigest(o.Name, spec), Permissions: policy.Permissions(n.needs)}
	return n
}

// vouch writes into the status, before anything is applied, which MiniClusters of this source need
// permissions, and tells those that are refused. They are applied nevertheless: it is the FleetMiniCluster
// that says on the hub why nothing runs, and what is live of it goes on.
func (s *gitSync) vouch(ctx context.Context, have existing) error {
	namespace, err := allowance.OfNamespace(ctx, s.r.Client, s.key.Namespace)
	if err != nil {
		return err
	}
	allowed := slices.Concat(namespace.Permissions, s.source.Spec.Allow)
	for i, n := range s.tree.needyObjects() {
		if i < mostNeeds {
			s.needs = append(s.needs, n.entry)
			s.tellDenied(n, policy.Denied(n.needs, allowed), namespace)
			continue
		}
		if missing := policy.Denied(n.needs, namespace.Permissions); len(missing) > 0 {
			s.problem(n.object.Path, n.object.Line, n.object.Kind+"/"+n.object.Name, missing[0].Field.String(), fmt.Sprintf(
				"a source can allow permissions to %d MiniClusters, and this is one more: use several sources, or allow them in this namespace of the hub: %s",
				mostNeeds, namespace.Command(policy.Permissions(missing))))
		}
	}
	// What is on the hub is still as it was declared before, until it has been applied.
	for _, old := range s.source.Status.Needs {
		key := objectKey(parse.KindFleetMiniCluster, old.Name)
		if h := have[key]; h != nil && h.GetLabels()[v1alpha1.LabelSource] == s.source.Name && !grant.Declares(s.needs, old.Name, old.Digest) {
			s.oldNeeds = append(s.oldNeeds, old)
		}
	}
	now := slices.Concat(s.needs, s.oldNeeds)
	now = now[:min(len(now), mostNeeds)]
	if equality.Semantic.DeepEqual(now, s.source.Status.Needs) {
		return nil
	}
	s.source.Status.Needs = now
	return s.r.Client.Status().Update(ctx, s.source)
}

func (s *gitSync) tellDenied(n needyObject, denied []policy.Need, namespace grant.Namespace) {
	mend := "Remove it, or allow it for this source: " + grant.SourceCommand(s.source, policy.Permissions(denied)) + namespace.UnknownNote()
	for _, d := range denied[:min(len(denied), grant.MaxDenied)] {
		s.problem(n.object.Path, n.object.Line, n.object.Kind+"/"+n.object.Name, d.Field.String(), sanitize.Text(d.Says(), sanitize.MaxNote/2)+". "+mend)
	}
	if more := len(denied) - grant.MaxDenied; more > 0 {
		s.problem(n.object.Path, n.object.Line, n.object.Kind+"/"+n.object.Name, "", fmt.Sprintf("%d more fields take permissions that it does not have. %s", more, mend))
	}
}

// declaredNeeds is what the status lists once everything has been applied. Of what was declared before, that
// stays which is still on the hub as it was: its file cannot be read now, say, or the hub refused the new one.
func (s *gitSync) declaredNeeds() []v1alpha1.DeclaredNeed {
	settled := map[string]bool{}
	for _, o := range s.tree.parsed.Objects {
		if key := objectKey(o.Kind, o.Name); !slices.Contains(s.unapplied, key) {
			settled[key] = true
		}
	}
	for _, key := range s.pruned {
		settled[key] = true
	}
	out := slices.Clone(s.needs)
	for _, old := range s.oldNeeds {
		if !settled[objectKey(parse.KindFleetMiniCluster, old.Name)] {
			out = append(out, old)
		}
	}
	return out[:min(len(out), mostNeeds)]
}

// sourcesIn are the sources of a namespace whose allowance has changed.
func (r *GitSourceReconciler) sourcesIn(ctx context.Context, namespace client.Object) []reconcile.Request {
	var sources v1alpha1.GitSourceList
	if err := r.Client.List(ctx, &sources, client.InNamespace(namespace.GetName()), client.UnsafeDisableDeepCopy); err != nil {
		return nil // a list from memory does not fail
	}
	var out []reconcile.Request
	for i := range sources.Items {
		out = append(out, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&sources.Items[i])})
	}
	return out
}
