package view

import (
	"cmp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/internal/sanitize"
)

// SourceOf is a GitSource in a list.
func SourceOf(s *v1alpha1.GitSource) Source {
	out := Source{
		Namespace: s.Namespace, Name: s.Name, URL: sanitize.Text(s.Spec.URL, 2048), Path: sanitize.Text(pathOf(&s.Spec), maxText),
		Ref: refOf(s.Spec.Ref), Reason: "Reconciling", Message: "has not been read yet", Suspended: s.Spec.Suspend,
		DryRun:       s.Spec.Mode == v1alpha1.SourceDryRun,
		MiniClusters: s.Status.MiniClusters, Problems: s.Status.ProblemCount, Since: s.CreationTimestamp.Time,
		PruneBlocked: meta.IsStatusConditionTrue(s.Status.Conditions, v1alpha1.ConditionPruneBlocked),
		RunsBlocked:  meta.IsStatusConditionTrue(s.Status.Conditions, v1alpha1.ConditionRunsBlocked),
	}
	if s.Spec.Verify != nil {
		out.Verify = string(s.Spec.Verify.Mode)
	}
	if ready := meta.FindStatusCondition(s.Status.Conditions, v1alpha1.ConditionReady); ready != nil {
		out.Ready, out.Reason, out.Since = ready.Status == metav1.ConditionTrue, ready.Reason, ready.LastTransitionTime.Time
		out.Message = sanitize.Text(ready.Message, maxText)
	}
	c := Context{Commits: CommitsOf(s)}
	out.Commit = c.commit(s.Status.Revision)
	if out.Commit != nil && out.Commit.Hash == "" {
		known := *out.Commit
		known.Hash = sanitize.Text(s.Status.Commit, 64)
		out.Commit = &known
	}
	return out
}

func pathOf(spec *v1alpha1.GitSourceSpec) string {
	return cmp.Or(strings.Join(spec.Paths, ", "), spec.Path)
}

func refOf(r *v1alpha1.GitRef) string {
	if r == nil {
		return "the default branch"
	}
	return sanitize.Text(cmp.Or(r.Branch, r.Tag, r.SemVer, r.Name, r.Commit), maxName)
}

// SourceDetailOf is a GitSource with its commits and problems. Live says how many runs of a FleetMiniCluster of its
// namespace are live.
func SourceDetailOf(s *v1alpha1.GitSource, live func(name string) int) SourceDetail {
	out := SourceDetail{
		Source: SourceOf(s), Conditions: conditionsOf(s.Status.Conditions, &Context{}), Commits: []AppliedCommit{}, ProblemList: []Problem{},
		Inventory: []Declared{}, Objects: s.Status.InventoryCount, Planned: plannedOf(s.Status.DryRun),
		Prune: safeNames(s.Status.Prune), RunsAnew: safeNames(s.Status.RunsAnew), Actions: []Action{},
	}
	for _, key := range s.Status.Prune {
		if name, ok := strings.CutPrefix(key, "FleetMiniCluster/"); ok {
			out.PruneRuns += live(name)
		}
	}
	for i := range s.Status.Commits {
		out.Commits = append(out.Commits, appliedCommitOf(&s.Status.Commits[i]))
	}
	if last := s.Status.LastAttempted; last != nil && last.Hash != s.Status.Commit {
		attempted := appliedCommitOf(last)
		out.Attempted = &attempted
	}
	for _, e := range s.Status.Inventory {
		out.Inventory = append(out.Inventory, Declared{Object: sanitize.Text(e.Object, maxText), Path: sanitize.Text(e.Path, maxText), State: string(e.State)})
	}
	for i := range s.Status.Problems {
		p := &s.Status.Problems[i]
		out.ProblemList = append(out.ProblemList, Problem{
			Path: sanitize.Text(p.Path, maxText), Line: p.Line, Object: sanitize.Text(p.Object, maxText),
			Field: sanitize.Text(p.Field, maxText), Message: sanitize.Text(p.Message, maxText), Warning: p.Warning,
		})
	}
	return out
}

// appliedCommitOf is a commit with what came of it.
func appliedCommitOf(c *v1alpha1.Commit) AppliedCommit {
	out := AppliedCommit{Commit: commitOf(c), SignedBy: []string{}, Changed: []string{}}
	if c.AppliedTime != nil {
		out.Applied = &c.AppliedTime.Time
	}
	if v := c.Verification; v != nil {
		out.SignedBy = safeNames(slices.DeleteFunc([]string{v.Commit, v.Tag}, func(key string) bool { return key == "" }))
	}
	if changes := c.Changes; changes != nil {
		out.Created, out.Updated, out.Deleted, out.Changed = changes.Created, changes.Updated, changes.Deleted, safeNames(changes.Objects)
	}
	return out
}

func plannedOf(d *v1alpha1.DryRunStatus) *Planned {
	if d == nil {
		return nil
	}
	out := &Planned{Commit: appliedCommitOf(&d.Commit), Total: d.Total, Changes: []PlannedChange{}}
	for _, c := range d.Changes {
		out.Changes = append(out.Changes, PlannedChange{
			Object: sanitize.Text(c.Object, maxText), Action: string(c.Action), Path: sanitize.Text(c.Path, maxText),
			NeedsApproval: c.NeedsApproval, Message: sanitize.Text(c.Message, maxText),
		})
	}
	return out
}

func safeNames(list []string) []string {
	out := make([]string, 0, len(list))
	for _, name := range list {
		out = append(out, sanitize.Text(name, maxText))
	}
	return out
}
