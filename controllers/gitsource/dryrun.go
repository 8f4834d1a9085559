package gitsource

import (
	"slices"
	"time"

	"github.com/fluxcd/pkg/runtime/conditions"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/controllers/internal/condition"
	"github.com/minifleet/minifleet/internal/changes"
	"github.com/minifleet/minifleet/internal/sanitize"
)

func isDry(source *v1alpha1.GitSource) bool { return source.Spec.Mode == v1alpha1.SourceDryRun }

// setDryRun is the status of a dry run. What it says of what is applied stays: the revision, the inventory, what needs
// permissions, and what waits for approval, which nobody can give meanwhile.
func setDryRun(source *v1alpha1.GitSource, done progress, now time.Time) {
	st := &source.Status
	setProblems(st, done)
	st.DryRun = dryRunOf(done)
	for _, q := range questions {
		conditions.Delete(source, q.condition)
	}
	problems, _ := problemsOf(done)
	condition.Set(source, now, dryReady(done, problems))
}

// dryReady says what would be done.
func dryReady(done progress, problems []v1alpha1.FileProblem) *metav1.Condition {
	const kind = v1alpha1.ConditionReady
	summary := "dry run of revision " + done.tree.revision + ": " + done.plan.Summary() + "; nothing of it is done while spec.mode is DryRun"
	switch {
	case done.tree.pathProblem != "":
		return conditions.FalseCondition(kind, v1alpha1.ReasonFetchFailed, "spec.path: %s; %s", done.tree.pathProblem, summary)
	case len(problems) > 0:
		return conditions.FalseCondition(kind, v1alpha1.ReasonProblemsFound, "%s; %s", firstProblem(problems), summary)
	}
	return conditions.TrueCondition(kind, v1alpha1.ReasonDryRun, "%s", summary)
}

// dryRunOf lists what would change, and then what would be refused and kept.
func dryRunOf(done progress) *v1alpha1.DryRunStatus {
	out := &v1alpha1.DryRunStatus{Commit: commitOf(done.tree)}
	var others []v1alpha1.PlannedChange
	for i := range done.plan.Changes {
		c := &done.plan.Changes[i]
		planned := v1alpha1.PlannedChange{
			Object: c.Key, Action: c.Action, Path: sanitize.Text(c.Path, maxPath), NeedsApproval: c.NeedsApproval,
			Message: sanitize.Text(plannedMessage(&done.plan, c), maxPlannedMessage),
		}
		if c.Action == v1alpha1.ChangeKeep || c.Action == v1alpha1.ChangeRefuse {
			others = append(others, planned)
			continue
		}
		out.Total++
		out.Changes = append(out.Changes, planned)
	}
	out.Changes = within(slices.Concat(out.Changes, others), v1alpha1.MaxPlannedChanges, maxPlannedBytes)
	return out
}

// plannedMessage says why something waits, or what the plan says of it.
func plannedMessage(plan *changes.Plan, c *changes.Change) string {
	switch {
	case c.NeedsApproval && c.Action == v1alpha1.ChangeRun:
		return "it would wait for approval: " + plan.Runs.Why
	case c.NeedsApproval:
		return "it would wait for approval: " + plan.Prune.Why
	}
	return c.Message
}
