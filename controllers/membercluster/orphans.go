package membercluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/clusters"
	"github.com/minifleet/minifleet/internal/fleet"
)

// removeOrphans removes what deleted FleetMiniClusters have left on a member that is connected again. It says
// when to reconcile again; 0: not.
func (r *Reconciler) removeOrphans(ctx context.Context, member *v1alpha1.MemberCluster) (again time.Duration, err error) {
	orphans := member.Status.Orphans
	if len(orphans) == 0 {
		return 0, nil
	}
	m, err := r.Provider.Member(member.Name)
	if err != nil {
		return 0, nil //nolint:nilerr // its return is an event
	}
	remaining, removeErr := removeOrphans(orphans, func(o v1alpha1.Orphan) (bool, error) {
		successor, err := r.bearerOf(ctx, o.Owner)
		if err != nil {
			return false, err
		}
		if successor == o.UID {
			return false, nil // it is about to be deleted by the controller of another shard, which has noted this before
		}
		return removeOrphan(ctx, m, o, ownedBy(r.FleetID, o, successor), r.FleetID)
	})
	if len(remaining) < len(orphans) {
		member.Status.Orphans = remaining
		if err := r.Client.Status().Update(ctx, member); apierrors.IsConflict(err) {
			return r.Intervals.Deleted, nil // another write came first
		} else if err != nil {
			return 0, err
		}
		r.Recorder.Eventf(member, nil, corev1.EventTypeNormal, v1alpha1.ReasonOrphanRemoved, "Delete", "removed what was left of %d deleted FleetMiniClusters", len(orphans)-len(remaining))
	}
	switch {
	case removeErr != nil && !clusters.Unanswered(removeErr):
		return 0, fmt.Errorf("removing what was left on member %s: %w", member.Name, removeErr)
	case len(remaining) > 0:
		return r.Intervals.Deleted, nil
	default:
		return 0, nil
	}
}

// removeOrphan removes what an orphan has left, in the namespace that was noted and in those where the cache shows more.
func removeOrphan(ctx context.Context, m *clusters.Member, o v1alpha1.Orphan, owns func(metav1.Object) bool, fleetID string) (bool, error) {
	namespaces := append(m.PlacesOf(ctx, fleet.Origin{FleetID: fleetID, Owner: o.Owner}, o.Name), o.Namespace)
	slices.Sort(namespaces)
	for _, namespace := range slices.Compact(namespaces) {
		if removed, err := m.Cleanup(ctx, types.NamespacedName{Namespace: namespace, Name: o.Name}, clusters.Removal{Owns: owns}); err != nil || !removed {
			return removed, err
		}
	}
	return true, nil
}

// ownedBy says which objects are what a FleetMiniCluster has left that was deleted: all that bear its name, since it may have
// taken some over from another one that had the name before, but not what is made for its successor.
func ownedBy(fleetID string, o v1alpha1.Orphan, successor types.UID) func(metav1.Object) bool {
	origin := fleet.Origin{FleetID: fleetID, Owner: o.Owner, OwnerUID: string(o.UID)}
	return func(obj metav1.Object) bool {
		return origin.Owns(obj) && (successor == "" || fleet.OriginOf(obj).OwnerUID != string(successor))
	}
}

// bearerOf is the UID of the FleetMiniCluster that bears a name (NAMESPACE/NAME) now, empty if none does. The hub itself is
// asked, for its cache may not know a new object yet.
func (r *Reconciler) bearerOf(ctx context.Context, owner string) (types.UID, error) {
	key, ok := fleet.Origin{Owner: owner}.Key()
	if !ok {
		return "", nil
	}
	var fmc metav1.PartialObjectMetadata
	fmc.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("FleetMiniCluster"))
	if err := r.APIReader.Get(ctx, key, &fmc); err != nil {
		return "", client.IgnoreNotFound(err)
	}
	return fmc.UID, nil
}

// removeOrphans removes each orphan, and returns those of which something remains.
func removeOrphans(orphans []v1alpha1.Orphan, remove func(v1alpha1.Orphan) (bool, error)) (remaining []v1alpha1.Orphan, err error) {
	var errs []error
	for _, o := range orphans {
		if clean, err := remove(o); err != nil || !clean {
			remaining = append(remaining, o)
			errs = append(errs, err)
		}
	}
	return remaining, errors.Join(errs...)
}
