package changes

import (
	"cmp"
	"slices"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/gitsource/parse"
)

// defaultPercent is from which share of the objects of a source on a person is asked.
const defaultPercent = 50

// WhyMany is why something waits for approval, in most cases.
const WhyMany = "so many objects at once"

// Why else it does.
const (
	whyMoved   = "spec.url or the path of the GitSource has changed"
	whyOwner   = "this GitSource has not applied them before"
	whyWaiting = "they have waited for approval before"
)

// askForRuns has updates wait that would run something anew, where a person has to approve the commit. All of them
// wait if they are many, or the source reads from elsewhere than before, and else those that are not the source's own.
func askForRuns(in *Input, p *Plan) {
	if in.Source.Approved(v1alpha1.AnnotationApproveRuns, in.Commit.Hash) {
		return
	}
	why := runsReason(in, p.Keys(v1alpha1.ChangeRun))
	for i := range p.Changes {
		c := &p.Changes[i]
		if c.Action == v1alpha1.ChangeRun && (why != "" || appliedByAnother(in.Source, c.Have)) {
			c.NeedsApproval = true
			p.Runs.Keys = append(p.Runs.Keys, c.Key)
		}
	}
	if len(p.Runs.Keys) > 0 {
		p.Runs.Why = cmp.Or(why, whyOwner)
	}
}

func runsReason(in *Input, anew []string) string {
	switch {
	case len(anew) == 0:
		return ""
	case HasMoved(in.Source):
		return whyMoved
	case isLarge(len(anew), countOnHub(in), percents(in.Source).RunsPercent):
		return WhyMany
	case stillWait(in.Source.Status.RunsAnew, anew):
		return whyWaiting
	}
	return ""
}

// countOnHub is how many FleetMiniClusters of the source are on the hub and in Git, and were before this commit: many
// new files do not hide many changed ones.
func countOnHub(in *Input) int {
	n := 0
	for i := range in.Parsed.Objects {
		o := &in.Parsed.Objects[i]
		h := in.Hub[Key(o.Kind, o.Name)]
		if o.Kind != parse.KindPlacement && h != nil && BelongsTo(h, in.Source.Name) && h.GetDeletionTimestamp().IsZero() && !createdBy(h, in.Commit.Hash) {
			n++
		}
	}
	return n
}

// createdBy says whether a commit has created an object of the hub, which nobody has changed since.
func createdBy(obj Object, commit string) bool {
	return commit != "" && obj.GetAnnotations()[v1alpha1.AnnotationSourceCommit] == commit && obj.GetGeneration() <= 1
}

// askForPrune has deletions wait, where a person has to approve the commit: all of them, or those of what is not the
// source's own.
func askForPrune(in *Input, p *Plan, missing []Change, declared int) {
	if in.Source.Approved(v1alpha1.AnnotationApprovePrune, in.Commit.Hash) {
		return
	}
	var undeclared []string
	for i := range missing {
		if missing[i].Action == v1alpha1.ChangeDelete {
			undeclared = append(undeclared, missing[i].Key)
		}
	}
	why := pruneReason(in, undeclared, declared)
	for i := range missing {
		c := &missing[i]
		if c.Action == v1alpha1.ChangeDelete && (why != "" || appliedByAnother(in.Source, c.Have)) {
			c.NeedsApproval = true
			p.Prune.Keys = append(p.Prune.Keys, c.Key)
		}
	}
	if len(p.Prune.Keys) > 0 {
		p.Prune.Why = cmp.Or(why, whyOwner)
	}
}

// pruneReason says why a prune is not done unasked: the path has disappeared, the source reads from elsewhere than
// before, nothing would be left, or a large share would be deleted at once. It is empty where it is done.
func pruneReason(in *Input, undeclared []string, declared int) string {
	n := len(undeclared)
	switch {
	case n == 0:
		return ""
	case in.PathProblem != "":
		return in.PathProblem
	case HasMoved(in.Source):
		return whyMoved
	case declared == 0 || isLarge(n, n+declared, percents(in.Source).PrunePercent):
		return WhyMany
	case stillWait(in.Source.Status.Prune, undeclared):
		return whyWaiting
	}
	return ""
}

// stillWait says whether more than one of those that have waited for approval does now, or all of them. What a commit
// has created, or another commit, does not answer the question.
func stillWait(before, now []string) bool {
	n := 0
	for _, key := range before {
		if slices.Contains(now, key) {
			n++
		}
	}
	return n > 1 || n > 0 && n == len(before)
}

// isLarge says whether a part is more than one, and at least so many percent of the whole.
func isLarge(part, whole int, percent int32) bool {
	return part > 1 && 100*part >= int(percent)*whole
}

// percents are those of a source, or the defaults.
func percents(source *v1alpha1.GitSource) v1alpha1.SourceApproval {
	var a v1alpha1.SourceApproval
	if source.Spec.Approval != nil {
		a = *source.Spec.Approval
	}
	a.PrunePercent, a.RunsPercent = cmp.Or(a.PrunePercent, defaultPercent), cmp.Or(a.RunsPercent, defaultPercent)
	return a
}
