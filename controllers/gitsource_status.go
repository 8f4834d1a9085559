package controllers

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/gitsource/fetch"
	"github.com/minifleet/minifleet/gitsource/parse"
	"github.com/minifleet/minifleet/internal/sanitize"
)

// mostProblems is how many problems a status lists.
const mostProblems = 50

// report writes the status if it has changed, and the events of what has happened.
func (s *gitSync) report(ctx context.Context, err error) error {
	before := s.source.Status.DeepCopy()
	st := &s.source.Status
	st.ObservedGeneration = s.source.Generation
	if err != nil {
		s.condition(v1alpha1.ConditionReady, metav1.ConditionFalse, reasonOf(err), notApplied(err, st.Revision))
	} else {
		s.reportTree(st)
	}
	if !equality.Semantic.DeepEqual(before, st) {
		if err := s.r.Client.Status().Update(ctx, s.source); err != nil {
			return err
		}
	}
	s.tell(before)
	return nil
}

// reportTree is about a repository that could be read.
func (s *gitSync) reportTree(st *v1alpha1.GitSourceStatus) {
	st.Revision, st.Commit = s.tree.revision, s.tree.commit
	st.MiniClusters = 0
	for _, o := range s.tree.parsed.Objects {
		if o.Kind != parse.KindPlacement {
			st.MiniClusters++
		}
	}
	st.Needs = s.declaredNeeds()
	st.ProblemCount = int32(len(s.problems)) //nolint:gosec // far fewer than 2³¹
	st.Problems = nil
	if all := slices.Concat(s.problems, s.warnings); len(all) > 0 {
		st.Problems = all[:min(len(all), mostProblems)]
	}
	s.reportPrune(st)
	switch {
	case len(s.blocked) > 0:
		s.condition(v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonPruneBlocked, s.blockedMessage())
	case s.tree.missing != "":
		s.condition(v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonFetchFailed, "spec.path: "+s.tree.missing)
	case len(s.problems) > 0:
		s.condition(v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonProblemsFound, s.problemsMessage())
	default:
		s.condition(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonSucceeded, fmt.Sprintf("applied revision %s: %d MiniClusters", st.Revision, st.MiniClusters))
	}
}

func (s *gitSync) reportPrune(st *v1alpha1.GitSourceStatus) {
	if len(s.blocked) > 0 {
		s.condition(v1alpha1.ConditionPruneBlocked, metav1.ConditionTrue, v1alpha1.ReasonPruneBlocked, s.blockedMessage())
		return
	}
	meta.RemoveStatusCondition(&st.Conditions, v1alpha1.ConditionPruneBlocked)
}

func (s *gitSync) blockedMessage() string {
	why := "so many objects at once"
	if s.tree.missing != "" {
		why = s.tree.missing
	}
	return fmt.Sprintf("revision %s no longer declares %s (%s); nothing was deleted. If that is meant: kubectl -n %s annotate --overwrite gitsource %s %s=%s",
		s.tree.revision, sanitize.Names(s.blocked, 10), why, s.key.Namespace, s.key.Name, v1alpha1.AnnotationApprovePrune, s.tree.revision)
}

func (s *gitSync) problemsMessage() string {
	p := s.problems[0]
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
	if n := len(s.problems) - 1; n > 0 {
		more = fmt.Sprintf(" (and %d more, see status.problems)", n)
	}
	return fmt.Sprintf("%s: %s%s; everything else of revision %s is applied", where, p.Message, more, s.tree.revision)
}

func (s *gitSync) reportSuspended(ctx context.Context) error {
	before := s.source.Status.DeepCopy()
	s.source.Status.ObservedGeneration = s.source.Generation
	s.condition(v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonSuspended, "suspended: the repository is not looked at while spec.suspend is true; what was applied stays")
	if equality.Semantic.DeepEqual(before, &s.source.Status) {
		return nil
	}
	return s.r.Client.Status().Update(ctx, s.source)
}

func (s *gitSync) condition(kind string, status metav1.ConditionStatus, reason, message string) {
	meta.SetStatusCondition(&s.source.Status.Conditions, metav1.Condition{
		Type: kind, Status: status, Reason: reason, Message: sanitize.Text(message, sanitize.MaxMessage),
		ObservedGeneration: s.source.Generation, LastTransitionTime: metav1.NewTime(s.r.Now()),
	})
}

// tell sends the events of one look at a repository.
func (s *gitSync) tell(before *v1alpha1.GitSourceStatus) {
	event := func(kind, reason, action, message string) {
		s.r.Recorder.Eventf(s.source, nil, kind, reason, action, "%s", sanitize.Text(message, sanitize.MaxNote))
	}
	if len(s.applied) > 0 {
		event("Normal", v1alpha1.ReasonRevisionApplied, "Apply", fmt.Sprintf("revision %s: applied %s", s.tree.revision, sanitize.Names(s.applied, 10)))
	}
	if len(s.pruned) > 0 {
		event("Normal", v1alpha1.ReasonPruned, "Prune", fmt.Sprintf("revision %s: deleted %s, which it no longer declares", s.tree.revision, sanitize.Names(s.pruned, 10)))
	}
	was := meta.FindStatusCondition(before.Conditions, v1alpha1.ConditionReady)
	is := meta.FindStatusCondition(s.source.Status.Conditions, v1alpha1.ConditionReady)
	if is.Status == metav1.ConditionFalse && (was == nil || was.Message != is.Message) {
		event("Warning", is.Reason, "Sync", is.Message)
	}
}

func reasonOf(err error) string {
	var own *sourceError
	var fetching *fetch.Error
	switch {
	case errors.As(err, &own):
		return own.reason
	case errors.As(err, &fetching):
		return fetching.Reason
	default:
		return v1alpha1.ReasonApplyFailed
	}
}

func notApplied(err error, revision string) string {
	if revision == "" {
		return err.Error()
	}
	return fmt.Sprintf("%s; revision %s stays applied", err, revision)
}
