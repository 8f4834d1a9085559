package gitsource

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/internal/changes"
)

// pruned is what became of hub objects (KIND/NAME) that Git no longer declares.
type pruned struct {
	deleted []string
	blocked []string // what would be deleted if somebody approved it
	pending []string // what was deleted before, and is there until its deletion has ended
	// problems are those of what could not be deleted.
	problems []v1alpha1.FileProblem
}

// prune deletes as planned what this source created and Git no longer declares.
func prune(ctx context.Context, to client.Writer, plan *changes.Plan, done applied) (pruned, error) {
	if done.lacking {
		return pruned{}, nil // what could not be created may be what replaces it
	}
	out, err := deleteAll(ctx, to, plan)
	out.blocked, out.pending = plan.Prune.Keys, plan.Pending
	return out, err
}

// deleteAll deletes objects as they were read, and none that was edited or replaced since.
func deleteAll(ctx context.Context, to client.Writer, plan *changes.Plan) (out pruned, err error) {
	var errs []error
	for i := range plan.Changes {
		c := &plan.Changes[i]
		if c.Action != v1alpha1.ChangeDelete || c.NeedsApproval {
			continue
		}
		key, obj := c.Key, c.Have
		uid, version := obj.GetUID(), obj.GetResourceVersion()
		err := to.Delete(ctx, obj, client.Preconditions{UID: &uid, ResourceVersion: &version})
		err = explained(err, obj.GetNamespace())
		if denied := cannotAct(err); denied != nil || ctx.Err() != nil {
			return out, cmp.Or(denied, ctx.Err())
		}
		if isLacking(err) {
			out.problems = append(out.problems, fileProblem(c.Path, 0, key, "", c.Message+", and it could not be deleted: "+err.Error()))
			continue
		}
		if client.IgnoreNotFound(err) != nil {
			errs = append(errs, fmt.Errorf("pruning %s: %w", key, err))
			continue
		}
		out.deleted = append(out.deleted, key)
	}
	return out, errors.Join(errs...)
}
