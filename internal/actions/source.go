package actions

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/minifleet/minifleet/api/v1alpha1"
)

// Source is the outcome of an action on a GitSource.
type Source = Outcome[*v1alpha1.GitSource]

func editSource(ctx context.Context, c client.Client, key client.ObjectKey, o Options, change func(*v1alpha1.GitSource) (string, error)) (Source, error) {
	return edit(ctx, c, func() *v1alpha1.GitSource { return &v1alpha1.GitSource{} }, key, o, change)
}

// SyncSource asks to read the repository now. The token identifies the request: status.lastHandledReconcileAt has it
// once that was done.
func SyncSource(ctx context.Context, c client.Client, key client.ObjectKey, token string, o Options) (Source, error) {
	return editSource(ctx, c, key, o, func(s *v1alpha1.GitSource) (string, error) {
		if err := checkToken(token); err != nil {
			return "", err
		}
		if err := checkSync(s); err != nil {
			return "", err
		}
		annotate(s, v1alpha1.AnnotationReconcileAt, token)
		return "", nil
	})
}

// SyncOnce is SyncSource by a token of its own, unless that is asked for already: then nothing is changed.
func SyncOnce(ctx context.Context, c client.Client, key client.ObjectKey, now time.Time, o Options) (Source, error) {
	return editSource(ctx, c, key, o, func(s *v1alpha1.GitSource) (string, error) {
		if err := checkSync(s); err != nil {
			return "", err
		}
		if SyncAsked(s) {
			return "it is asked for already", nil
		}
		annotate(s, v1alpha1.AnnotationReconcileAt, now.UTC().Format(time.RFC3339Nano))
		return "", nil
	})
}

// SyncAsked says whether it is asked for to read the repository, and that was not done yet.
func SyncAsked(s *v1alpha1.GitSource) bool {
	token, handled := s.Annotations[v1alpha1.AnnotationReconcileAt], s.Status.LastHandledReconcileAt
	if token == "" || token == handled {
		return false
	}
	// What was asked later in the way of Flux CD, and is answered, answers this as well.
	return handled != s.Annotations[v1alpha1.AnnotationRequestedAt] || !v1alpha1.RequestedAfter(handled, token)
}

func checkSync(s *v1alpha1.GitSource) error {
	if err := notDeleting(s); err != nil {
		return err
	}
	if s.Spec.Suspend {
		return &Error{Kind: Conflict, Field: "spec.suspend", Message: "is true: the repository is not read", Remedy: "set it to false"}
	}
	return nil
}

// ApprovePrune has a GitSource delete what the revision no longer declares. The commit, a full
// hash, is that which the person has seen the question about: if another one is applied by now, nothing is approved.
func ApprovePrune(ctx context.Context, c client.Client, key client.ObjectKey, commit string, o Options) (Source, error) {
	return approve(ctx, c, key, commit, v1alpha1.ConditionPruneBlocked, v1alpha1.AnnotationApprovePrune, o)
}

// ApproveRuns has a GitSource apply what the revision would run anew, on the same terms.
func ApproveRuns(ctx context.Context, c client.Client, key client.ObjectKey, commit string, o Options) (Source, error) {
	return approve(ctx, c, key, commit, v1alpha1.ConditionRunsBlocked, v1alpha1.AnnotationApproveRuns, o)
}

func approve(ctx context.Context, c client.Client, key client.ObjectKey, commit, condition, annotation string, o Options) (Source, error) {
	return editSource(ctx, c, key, o, func(s *v1alpha1.GitSource) (string, error) {
		if err := notDeleting(s); err != nil {
			return "", err
		}
		if s.Approved(annotation, commit) && commit == s.Status.Commit {
			return "it was approved already", nil
		}
		if err := checkApproval(s, commit, condition); err != nil {
			return "", err
		}
		annotate(s, annotation, s.Approval(annotation, commit))
		return "", nil
	})
}

func checkApproval(s *v1alpha1.GitSource, commit, condition string) error {
	if !meta.IsStatusConditionTrue(s.Status.Conditions, condition) {
		return &Error{Kind: Invalid, Field: "status.conditions[" + condition + "]", Message: "is not True", Remedy: "nothing waits for approval"}
	}
	if commit == "" || commit != s.Status.Commit {
		return &Error{
			Kind: Conflict, Field: "revision", Message: fmt.Sprintf("%q is not what waits for approval, which is the commit %s", commit, s.Status.Commit),
			Remedy: "read what that one would do, and approve it by its full hash if it is meant",
		}
	}
	return nil
}
