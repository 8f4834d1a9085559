package controllers

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/clusters"
	"github.com/minifleet/minifleet/internal/fleet"
	"github.com/minifleet/minifleet/internal/sanitize"
)

// orphan writes down, on each member that is away, that a deleted FleetMiniCluster may have left objects
// there, and returns the members that are still to be waited for.
func (r *FleetMiniClusterReconciler) orphan(ctx context.Context, fmc *v1alpha1.FleetMiniCluster, waiting []pending) ([]pending, error) {
	var still []pending
	var errs []error
	for _, w := range waiting {
		if !w.away {
			still = append(still, w)
			continue
		}
		if err := r.writeOrphan(ctx, fmc, w.member); err != nil {
			still = append(still, pending{w.member, notWritten, true})
			if !apierrors.IsConflict(err) {
				errs = append(errs, err)
			}
		}
	}
	return still, errors.Join(errs...)
}

func (r *FleetMiniClusterReconciler) writeOrphan(ctx context.Context, fmc *v1alpha1.FleetMiniCluster, name string) error {
	var member v1alpha1.MemberCluster
	if err := r.Client.Get(ctx, client.ObjectKey{Name: name}, &member); err != nil {
		return client.IgnoreNotFound(err)
	}
	known := func(o v1alpha1.Orphan) bool { return o.UID == fmc.UID }
	if slices.ContainsFunc(member.Status.Orphans, known) {
		return nil
	}
	if len(member.Status.Orphans) >= v1alpha1.MaxOrphans {
		return fmt.Errorf("MemberCluster %s has %d orphans already: make the member reachable, or delete the MemberCluster", name, v1alpha1.MaxOrphans)
	}
	namespace := fmc.Namespace
	if member.Spec.Namespace != "" {
		namespace = member.Spec.Namespace
	}
	member.Status.Orphans = append(member.Status.Orphans, v1alpha1.Orphan{
		UID: fmc.UID, Owner: fmc.Namespace + "/" + fmc.Name, Namespace: namespace, Name: fmc.Name, Since: metav1.NewTime(r.Now()).Rfc3339Copy(),
	})
	if err := r.Client.Status().Update(ctx, &member); err != nil {
		return err
	}
	r.Recorder.Eventf(&member, nil, "Warning", v1alpha1.ReasonOrphaned, "Delete",
		"%s/%s was deleted while this member was away; its objects are removed when it returns", fmc.Namespace, fmc.Name)
	return nil
}

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
