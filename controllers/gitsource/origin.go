package gitsource

import (
	"context"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/internal/changes"
)

// noteOrigin records in the status, before anything is applied, where a source reads from that has nothing noted, or that it
// has come to name another repository or path. That stays known when it is named as before again, with part of the other one
// applied, and when the status cannot be written afterwards.
func (r *Reconciler) noteOrigin(ctx context.Context, source *v1alpha1.GitSource) error {
	switch was := source.Status.Origin; {
	case was == nil:
		origin := changes.OriginOf(&source.Spec)
		source.Status.Origin = &origin
	case changes.HasMoved(source) && !was.Moving:
		was.Moving = true
	default:
		return nil
	}
	return r.Client.Status().Update(ctx, source)
}

// setOrigin notes where what is applied comes from once all of it does, and that the approvals of its commit have been
// used.
func setOrigin(source *v1alpha1.GitSource, done progress, err error) {
	if !done.carriedOut {
		return
	}
	through := err == nil && done.plan.Through && !done.applied.lacking && !done.applied.behind && len(done.pruned.problems) == 0
	if through {
		origin := changes.OriginOf(&source.Spec)
		source.Status.Origin = &origin
		source.UseApprovals(done.tree.commit)
	}
}
