package gitsource

import (
	"context"
	"errors"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/controllers/internal/metrics"
	"github.com/minifleet/minifleet/internal/changes"
)

// measured is fetch, and counts it.
func (r *Reconciler) measured(ctx context.Context, source *v1alpha1.GitSource, have changes.Hub) (*tree, error) {
	begun, key := r.Now(), client.ObjectKeyFromObject(source)
	before := source.Status.Commit // which is read anew after a restart
	if t := r.trees.get(key); t != nil {
		before = t.commit
	}
	t, err := r.fetch(ctx, source, have)
	now := r.Now()
	if err != nil {
		if !errors.Is(err, context.Canceled) {
			metrics.GitRead(now.Sub(begun), false, fetchReason(err))
		}
		return t, err
	}
	found := ""
	if t.commit != before {
		found = t.commit
	}
	metrics.GitRead(now.Sub(begun), found != "", "")
	r.Arrivals.Read(key, found, begun, now)
	return t, nil
}

// fetchReason is that of a failure, one of the constants. What the hub itself has answered is no fault of the repository.
func fetchReason(err error) string {
	switch {
	case isSourceError(err):
		return reasonOf(err)
	case errors.Is(err, context.DeadlineExceeded):
		return v1alpha1.ReasonTimedOut
	default:
		return "HubError"
	}
}

// measureChanges counts what one reconciliation has come to, as it is reported.
func measureChanges(before *v1alpha1.GitSource, done progress) {
	metrics.Pruned(len(done.pruned.deleted))
	if done.tree != nil && done.tree.commit != before.Status.Commit {
		metrics.PolicyDenied("GitSource", len(done.declared.problems))
	}
}
