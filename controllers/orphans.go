package controllers

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/clusters"
	"github.com/minifleet/minifleet/internal/fleet"
	"github.com/minifleet/minifleet/internal/sanitize"
)

const (
	awayInterval = 30 * time.Second
	goneInterval = 2 * time.Second
)

// workOffOrphans removes what deleted FleetMiniClusters have left on a member that has returned. It says when
// to look again; 0: not.
func (r *MemberClusterReconciler) workOffOrphans(ctx context.Context, member *v1alpha1.MemberCluster) (time.Duration, error) {
	if len(member.Status.Orphans) == 0 {
		return 0, nil
	}
	engaged, err := r.Provider.Member(member.Name)
	if err != nil {
		return 0, nil //nolint:nilerr // its return is news
	}
	var left []v1alpha1.Orphan
	var errs []error
	for _, o := range member.Status.Orphans {
		gone, err := engaged.Cleanup(ctx, o.Namespace, o.Name, fleet.Origin{HubUID: r.HubUID, Owner: o.Owner, OwnerUID: string(o.UID)}, nil)
		if err != nil || !gone {
			left = append(left, o)
			errs = append(errs, err)
		}
	}
	if len(left) < len(member.Status.Orphans) {
		done := member.Status.Orphans
		member.Status.Orphans = left
		if err := r.Client.Status().Update(ctx, member); apierrors.IsConflict(err) {
			return goneInterval, nil // another write came first
		} else if err != nil {
			return 0, err
		}
		r.Recorder.Eventf(member, nil, "Normal", v1alpha1.ReasonOrphanRemoved, "Delete", "removed what was left of %s", owners(done, left))
	}
	if err := errors.Join(errs...); err != nil && !clusters.Unanswered(err) {
		return 0, fmt.Errorf("removing what was left on member %s: %w", member.Name, err)
	}
	if len(left) > 0 {
		return goneInterval, nil
	}
	return 0, nil
}

// owners names the first few of the orphans that are not left.
func owners(all, left []v1alpha1.Orphan) string {
	var names []string
	for _, o := range all {
		if !slices.Contains(left, o) {
			names = append(names, o.Owner)
		}
	}
	return sanitize.Names(names, mostNamed)
}

// orphansChanged lets through that a member was given something to remove, which it may have come back for
// already.
var orphansChanged = memberUpdated(func(before, after *v1alpha1.MemberCluster) bool {
	return len(before.Status.Orphans) < len(after.Status.Orphans)
})
