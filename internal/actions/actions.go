// Package actions has what a person does to FleetMiniClusters, GitSources and MemberClusters: by the command line, the
// page or a portal. Each action is one patch by the client that is given, so that the person's own credentials
// authorize it, and rests on the resource version that was read: nothing that others have added meanwhile is lost. It
// is repeated on a conflict. What an action would do can be told beforehand (Effect…), in one sentence.
//
// Actions do what they are asked for or nothing: an Error says which object, which field and what to do.
package actions

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// FieldManager is the field manager of every action.
const FieldManager = "minifleet-actions"

// Options are those of every action.
type Options struct {
	// DryRun has the API server check everything and keep nothing.
	DryRun bool
}

// Outcome is what has become of the object of an action.
type Outcome[T client.Object] struct {
	// Object is as the API server has it now, or with DryRun as it would be; Before is as it was when the action was
	// decided on. What is created has none.
	Object, Before T
	// Changed says that it is not what it was before: an action that was done already changes nothing.
	Changed bool
	// Note is one sentence about what else there is to know, or empty.
	Note string
}

// Status is written often while pods start, so that a conflict may come several times in a row: a third of a second in all.
var conflictBackoff = wait.Backoff{Steps: 6, Duration: 10 * time.Millisecond, Factor: 2, Jitter: 0.2}

// edit reads an object, has it changed and patches what differs, on top of what was read. The note of change is
// that of the outcome.
func edit[T client.Object](ctx context.Context, c client.Client, empty func() T, key client.ObjectKey, o Options, change func(T) (note string, err error)) (Outcome[T], error) {
	var out Outcome[T]
	err := retry.RetryOnConflict(conflictBackoff, func() error {
		into := empty() // a new one each time, since maps are decoded on top of what is there
		if err := c.Get(ctx, key, into); err != nil {
			return err
		}
		before, _ := into.DeepCopyObject().(T)
		note, err := change(into)
		if err != nil {
			return err
		}
		out = Outcome[T]{Object: into, Before: before, Note: note, Changed: !equality.Semantic.DeepEqual(before, into)}
		if !out.Changed {
			return nil
		}
		patch := client.MergeFromWithOptions(client.Object(before), client.MergeFromWithOptimisticLock{})
		return c.Patch(ctx, into, patch, patchOptions(o)...)
	})
	if err != nil {
		return Outcome[T]{}, typed(err, Describe(empty(), key))
	}
	return out, nil
}

func patchOptions(o Options) []client.PatchOption {
	options := []client.PatchOption{client.FieldOwner(FieldManager)}
	if o.DryRun {
		options = append(options, client.DryRunAll)
	}
	return options
}

func annotate(object client.Object, annotation, value string) {
	annotations := object.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[annotation] = value
	object.SetAnnotations(annotations)
}

func dropAnnotation(object client.Object, annotation string) {
	annotations := object.GetAnnotations()
	delete(annotations, annotation)
	object.SetAnnotations(annotations)
}

// notDeleting refuses what would have no effect on an object that is being deleted.
func notDeleting(object client.Object) error {
	if object.GetDeletionTimestamp().IsZero() {
		return nil
	}
	return &Error{
		Kind: Conflict, Message: "is being deleted, and nothing new is done for it",
		Remedy: "wait until it is deleted, and create it anew",
	}
}

// typed makes what the API server answers an Error where a caller may do something about it. What else it answers, such
// as that the person may not, stays as it is.
func typed(err error, object string) error {
	if own := AsError(err); own != nil {
		if own.Object == "" {
			own.Object = object
		}
		return own
	}
	switch {
	case apierrors.IsNotFound(err):
		return &Error{Kind: NotFound, Object: object, Message: "not found", Remedy: "check the name and the namespace", Cause: err}
	case apierrors.IsConflict(err):
		return &Error{Kind: Conflict, Object: object, Message: "is being changed by others all the time", Remedy: "try again", Cause: err}
	case apierrors.IsInvalid(err), apierrors.IsBadRequest(err):
		field, message := firstCause(err)
		return &Error{Kind: Invalid, Object: object, Field: field, Message: message, Remedy: "correct it and try again", Cause: err}
	}
	return err
}
