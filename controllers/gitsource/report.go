package gitsource

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/fluxcd/pkg/runtime/conditions"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/controllers/internal/condition"
	"github.com/minifleet/minifleet/gitsource/budget"
	"github.com/minifleet/minifleet/gitsource/fetch"
	"github.com/minifleet/minifleet/gitsource/parse"
	"github.com/minifleet/minifleet/internal/changes"
	"github.com/minifleet/minifleet/internal/sanitize"
)

const (
	// maxProblems is how many problems a status lists.
	maxProblems = 50
	// maxNames is how many objects a message names.
	maxNames = 10
)

// report writes the status if it has changed, and the events of what has happened. An error is what ended the
// reconciliation early.
func (r *Reconciler) report(ctx context.Context, source *v1alpha1.GitSource, done progress, err error) error {
	before := source.DeepCopy()
	_, done.request = r.requests.latest(source)
	setStatus(source, done, err, r.Now())
	unreadable := r.reportWebhook(ctx, source)
	if !sameStatus(before.Status, source.Status) {
		if err := r.Client.Status().Update(ctx, source); err != nil {
			return err
		}
	}
	if err == nil && !isDry(source) {
		done.tree.changed = nil // the status tells it; one that could not be written is made up again
	}
	measureChanges(before, done)
	r.sendEvents(source, before, done)
	return unreadable
}

// sameStatus says whether two statuses say the same. Their inventories are by far the longest, and compared without
// reflection.
func sameStatus(a, b v1alpha1.GitSourceStatus) bool {
	if !slices.Equal(a.Inventory, b.Inventory) {
		return false
	}
	a.Inventory, b.Inventory = nil, nil
	return equality.Semantic.DeepEqual(&a, &b)
}

func (r *Reconciler) reportSuspended(ctx context.Context, source *v1alpha1.GitSource) error {
	before := source.Status.DeepCopy()
	waits := unanswered(source, &r.requests)
	source.Status.ObservedGeneration = source.Generation
	forgetUnasked(source)
	condition.Set(source, r.Now(), conditions.FalseCondition(v1alpha1.ConditionReady, v1alpha1.ReasonSuspended, "%s",
		"suspended: the repository is not read while spec.suspend is true; what was applied stays"+waits))
	unreadable := r.reportWebhook(ctx, source)
	if equality.Semantic.DeepEqual(before, &source.Status) {
		return unreadable
	}
	if err := r.Client.Status().Update(ctx, source); err != nil {
		return err
	}
	if waits != "" {
		r.Recorder.Eventf(source, nil, corev1.EventTypeNormal, v1alpha1.ReasonSuspended, "Sync", "%s", sanitize.Text("suspended"+waits, sanitize.MaxNote))
	}
	return unreadable
}

// reportWaiting says of a source that was never reconciled why it is not yet. Others keep what their last reconciliation
// said.
func (r *Reconciler) reportWaiting(ctx context.Context, source *v1alpha1.GitSource) error {
	if conditions.Get(source, v1alpha1.ConditionReady) != nil {
		return nil
	}
	condition.Set(source, r.Now(), conditions.UnknownCondition(v1alpha1.ConditionReady, v1alpha1.ReasonWaitingForTurn, "%s",
		fmt.Sprintf("waits for other sources of namespace %s, of which only so many are read at once (--git-sources-per-namespace)", source.Namespace)))
	return r.Client.Status().Update(ctx, source)
}

// unanswered says that somebody has asked to read the repository of a source that is suspended.
func unanswered(source *v1alpha1.GitSource, asked *requests) string {
	annotation, token := asked.latest(source)
	if token == "" || token == source.Status.LastHandledReconcileAt {
		return ""
	}
	return fmt.Sprintf("; the request %s=%s waits until spec.suspend is false", annotation, token)
}

// setStatus makes up the status of one reconciliation.
func setStatus(source *v1alpha1.GitSource, done progress, err error, now time.Time) {
	st := &source.Status
	st.ObservedGeneration = source.Generation
	if token := done.request; token != "" && (done.tree != nil || isSourceError(err)) {
		st.LastHandledReconcileAt = token // the repository was asked, whatever the answer
	}
	setVerified(source, done, err, now)
	if done.tree != nil {
		attempted := commitOf(done.tree)
		st.LastAttempted = &attempted
	}
	setOrigin(source, done, err)
	forgetUnasked(source)
	if err != nil {
		if done.carriedOut {
			setInventory(source, done) // some of it may have been done
		}
		condition.Set(source, now, conditions.FalseCondition(v1alpha1.ConditionReady, reasonOf(err), "%s", notApplied(err, st.Revision)))
		return
	}
	if isDry(source) {
		setDryRun(source, done, now)
		return
	}
	problems := setProblems(st, done)
	st.Revision, st.Commit = done.tree.revision, done.tree.commit
	st.Commits = remember(st.Commits, done.tree, now)
	st.MiniClusters = countMiniClusters(done.tree.parsed.Objects)
	st.Needs = done.declared.afterApply(done.tree.parsed.Objects, slices.Concat(done.applied.refused, done.applied.blocked), done.pruned.deleted)
	setInventory(source, done)
	condition.Set(source, now, ready(source, done, problems))
	for _, q := range questions {
		if message := q.message(source, done); message != "" {
			condition.Set(source, now, conditions.TrueCondition(q.condition, q.reason, "%s", message))
		} else {
			conditions.Delete(source, q.condition)
		}
	}
	st.Prune, st.RunsAnew = blocked(done.pruned.blocked), blocked(done.applied.blocked)
}

// forgetUnasked removes what the spec does not ask for any more.
func forgetUnasked(source *v1alpha1.GitSource) {
	if !isDry(source) {
		source.Status.DryRun = nil
	}
	if source.Spec.Verify == nil {
		conditions.Delete(source, v1alpha1.ConditionSourceVerified)
	}
}

// setProblems lists the problems, and returns all of them, without warnings.
func setProblems(st *v1alpha1.GitSourceStatus, done progress) []v1alpha1.FileProblem {
	problems, warnings := problemsOf(done)
	st.ProblemCount = int32(len(problems)) //nolint:gosec // far fewer than 2³¹
	st.Problems = nil
	if all := slices.Concat(problems, warnings); len(all) > 0 {
		st.Problems = within(all, maxProblems, maxProblemsBytes)
	}
	return problems
}

// blocked are the first of those that wait for approval.
func blocked(keys []string) []string {
	if len(keys) == 0 {
		return nil
	}
	return slices.Clone(keys[:min(len(keys), v1alpha1.MaxBlocked)])
}

// questions are what a person may have to approve, each with its condition, which is there while it is true. The
// message is empty where there is nothing to approve.
var questions = []struct {
	condition, reason string
	message           func(*v1alpha1.GitSource, progress) string
}{
	{v1alpha1.ConditionPruneBlocked, v1alpha1.ReasonPruneBlocked, pruneQuestion},
	{v1alpha1.ConditionRunsBlocked, v1alpha1.ReasonRunsBlocked, runsQuestion},
}

// ready is the condition of a repository that could be read.
func ready(source *v1alpha1.GitSource, done progress, problems []v1alpha1.FileProblem) *metav1.Condition {
	const kind = v1alpha1.ConditionReady
	for _, q := range questions {
		if message := q.message(source, done); message != "" {
			return conditions.FalseCondition(kind, q.reason, "%s", message) // the others have conditions of their own
		}
	}
	switch {
	case done.tree.pathProblem != "":
		return conditions.FalseCondition(kind, v1alpha1.ReasonFetchFailed, "spec.path: %s", done.tree.pathProblem)
	case done.declared.unenforced != "":
		return conditions.FalseCondition(kind, v1alpha1.ReasonAllowUnenforced, "spec.allow does not count: %s; everything else of revision %s is applied",
			done.declared.unenforced, done.tree.revision)
	case len(problems) > 0:
		return conditions.FalseCondition(kind, v1alpha1.ReasonProblemsFound, "%s", problemsMessage(problems, done.tree.revision, done.applied.deleting))
	case len(done.applied.deleting) > 0:
		return conditions.FalseCondition(kind, v1alpha1.ReasonDeletionPending, "waits for the end of a deletion, to create anew: %s; everything else of revision %s is applied",
			sanitize.Names(done.applied.deleting, maxNames), done.tree.revision)
	default:
		return conditions.TrueCondition(kind, v1alpha1.ReasonSucceeded, "applied revision %s: %d MiniClusters%s", source.Status.Revision, source.Status.MiniClusters, stillThere(done.pruned))
	}
}

func countMiniClusters(objects []parse.Object) int32 {
	var n int32
	for i := range objects {
		if objects[i].Kind != parse.KindPlacement {
			n++
		}
	}
	return n
}

// stillThere names what is no longer declared and not removed from all members yet.
func stillThere(p pruned) string {
	if len(p.pending) == 0 {
		return ""
	}
	return "; no longer declared, and still being deleted: " + sanitize.Names(p.pending, maxNames)
}

func pruneQuestion(source *v1alpha1.GitSource, done progress) string {
	if len(done.pruned.blocked) == 0 {
		return ""
	}
	return fmt.Sprintf("revision %s no longer declares %s (%s); nothing was deleted. %s",
		done.tree.revision, sanitize.Names(done.pruned.blocked, maxNames), done.plan.Prune.Why, approve(source, v1alpha1.AnnotationApprovePrune, done.tree.commit))
}

func runsQuestion(source *v1alpha1.GitSource, done progress) string {
	blocked := done.applied.blocked
	if len(blocked) == 0 {
		return ""
	}
	why := ""
	if done.plan.Runs.Why != changes.WhyMany {
		why = ", and " + done.plan.Runs.Why
	}
	return fmt.Sprintf("revision %s would run %d MiniClusters anew that have run before (%s)%s; these were not updated. %s",
		done.tree.revision, len(blocked), sanitize.Names(blocked, maxNames), why, approve(source, v1alpha1.AnnotationApproveRuns, done.tree.commit))
}

// approve says how to approve a commit, and that a value which is no full hash approves none. The command is at the end.
func approve(source *v1alpha1.GitSource, annotation, commit string) string {
	bad := ""
	if value := source.Annotations[annotation]; value != "" && !v1alpha1.IsApproval(value) {
		bad = fmt.Sprintf("The annotation %s is %q, which approves nothing: it has to be the full hash of the commit. ", annotation, sanitize.Text(value, maxApproval))
	}
	return fmt.Sprintf("%sIf that is meant: kubectl -n %s annotate --overwrite gitsource %s %s=%s", bad, source.Namespace, source.Name, annotation, source.Approval(annotation, commit))
}

// maxApproval is how much is shown of a value that approves nothing, in bytes.
const maxApproval = 80

// problemsMessage is about the first problem, of which there is one. What is still being deleted is not applied either.
func problemsMessage(problems []v1alpha1.FileProblem, revision string, deleting []string) string {
	waits := ""
	if len(deleting) > 0 {
		waits = "; waits for the end of a deletion, to create anew: " + sanitize.Names(deleting, maxNames)
	}
	return fmt.Sprintf("%s%s; everything else of revision %s is applied", firstProblem(problems), waits, revision)
}

// firstProblem tells one problem, and how many more there are.
func firstProblem(problems []v1alpha1.FileProblem) string {
	p := problems[0]
	where := p.Path
	if p.Line > 0 {
		where = fmt.Sprintf("%s:%d", p.Path, p.Line)
	}
	if p.Object != "" {
		where += ": " + p.Object
	}
	if p.Field != "" {
		where += ": " + p.Field
	}
	more := ""
	if n := len(problems) - 1; n > 0 {
		more = fmt.Sprintf(" (and %d more, see status.problems)", n)
	}
	return fmt.Sprintf("%s: %s%s", where, p.Message, more)
}

// problemsOf are what could not be applied (first what is not allowed, then what cannot be read, then what the
// hub refused), and what could with a warning.
func problemsOf(done progress) (problems, warnings []v1alpha1.FileProblem) {
	problems = slices.Clone(done.declared.problems)
	for _, p := range done.tree.parsed.Problems {
		found := fileProblem(p.Path, p.Line, p.Object, p.Field, p.Message)
		if found.Warning = p.Warning; p.Warning {
			warnings = append(warnings, found)
			continue
		}
		problems = append(problems, found)
	}
	return slices.Concat(problems, done.applied.problems, done.pruned.problems), warnings
}

func objectProblem(o *parse.Object, field, message string) v1alpha1.FileProblem {
	return fileProblem(o.Path, o.Line, o.Kind+"/"+o.Name, field, message)
}

func fileProblem(path string, line int, object, field, message string) v1alpha1.FileProblem {
	safe := func(text string) string { return sanitize.Text(text, sanitize.MaxNote) }
	return v1alpha1.FileProblem{
		Path: safe(path), Line: int32(line), Object: safe(object), Field: safe(field), Message: safe(message), //nolint:gosec // files are far shorter than 2³¹ lines
	}
}

// sendEvents sends those of one reconciliation, after its status was written.
func (r *Reconciler) sendEvents(source, before *v1alpha1.GitSource, done progress) {
	send := func(kind, reason, action, message string) {
		r.Recorder.Eventf(source, nil, kind, reason, action, "%s", sanitize.Text(message, sanitize.MaxNote))
	}
	if changed := done.applied.changed; len(changed) > 0 {
		send(corev1.EventTypeNormal, v1alpha1.ReasonRevisionApplied, "Apply", fmt.Sprintf("revision %s: applied %s", done.tree.revision, sanitize.Names(changed, maxNames)))
	}
	if deleted := done.pruned.deleted; len(deleted) > 0 {
		send(corev1.EventTypeNormal, v1alpha1.ReasonPruned, "Prune", fmt.Sprintf("revision %s: deleted %s, which it no longer declares", done.tree.revision, sanitize.Names(deleted, maxNames)))
	}
	for _, c := range newTroubles(source, before) {
		kind := corev1.EventTypeWarning
		if c.Reason == v1alpha1.ReasonDeletionPending {
			kind = corev1.EventTypeNormal // it goes on by itself
		}
		send(kind, c.Reason, "Sync", c.Message)
	}
}

// newTroubles are the conditions that say what is wrong or is asked, and did not say so before: Ready, and questions
// that Ready does not tell.
func newTroubles(source, before *v1alpha1.GitSource) []metav1.Condition {
	told := map[string]bool{}
	for _, c := range before.Status.Conditions {
		told[c.Message] = true
	}
	var out []metav1.Condition
	add := func(kind string, trouble metav1.ConditionStatus) {
		c := conditions.Get(source, kind)
		if c != nil && c.Status == trouble && !told[c.Message] {
			told[c.Message] = true
			out = append(out, *c)
		}
	}
	add(v1alpha1.ConditionReady, metav1.ConditionFalse)
	add(v1alpha1.ConditionReceiverFailed, metav1.ConditionTrue)
	for _, q := range questions {
		add(q.condition, metav1.ConditionTrue)
	}
	return out
}

func reasonOf(err error) string {
	var own *sourceError
	var fetching *fetch.Error
	var exceeded *budget.Exceeded
	switch {
	case errors.As(err, &own):
		return own.reason
	case errors.As(err, &fetching):
		return fetching.Reason
	case errors.As(err, &exceeded):
		return fetch.ReasonLimitExceeded
	default:
		return v1alpha1.ReasonApplyFailed
	}
}

func notApplied(err error, revision string) string {
	if revision == "" || cannotAct(err) != nil { // that says it itself, with a command at its end
		return err.Error()
	}
	return fmt.Sprintf("%s; revision %s stays applied", err, revision)
}
