package fleetminicluster

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/clusters"
	"github.com/minifleet/minifleet/controllers/internal/metrics"
	"github.com/minifleet/minifleet/internal/fleet"
)

// A Job that has no pods is deleted at once.
const (
	removalInterval = 200 * time.Millisecond
	removalTimeout  = 5 * time.Second
)

// removeAllStale removes from all members what stale requests have made for a FleetMiniCluster that was deleted.
func (r *Reconciler) removeAllStale(ctx context.Context, key types.NamespacedName) error {
	var list v1alpha1.MemberClusterList
	if err := r.Client.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("listing MemberClusters: %w", err)
	}
	var errs []error
	for i := range list.Items {
		if m, err := r.Provider.Member(list.Items[i].Name); err == nil { // another is asked when it is connected
			errs = append(errs, r.removeStale(ctx, m, key))
		}
	}
	return errors.Join(errs...)
}

// removeStale removes from a member the Job of a FleetMiniCluster that was deleted, if that Job was never released, and
// with it whatever else of the same FleetMiniCluster is there: it was deleted, and its objects removed, before the
// request to create the Job arrived. A Job that runs is left alone, for the hub may be the one that has forgotten
// something.
func (r *Reconciler) removeStale(ctx context.Context, m *clusters.Member, key types.NamespacedName) error {
	var errs []error
	for _, namespace := range m.PlacesOf(ctx, fleet.Origin{FleetID: r.FleetID, Owner: key.String()}, key.Name) {
		errs = append(errs, r.removeStaleIn(ctx, m, key, types.NamespacedName{Namespace: namespace, Name: key.Name}))
	}
	return errors.Join(errs...)
}

func (r *Reconciler) removeStaleIn(ctx context.Context, m *clusters.Member, key, on types.NamespacedName) error {
	origin, err := m.UnreleasedJob(ctx, on, r.FleetID)
	if err != nil || origin.Owner != key.String() || !r.deleted(ctx, origin) {
		return err
	}
	err = wait.PollUntilContextTimeout(ctx, removalInterval, removalTimeout, true, func(ctx context.Context) (bool, error) {
		return m.Cleanup(ctx, on, clusters.Removal{Owns: origin.Made})
	})
	if err != nil {
		return fmt.Errorf("removing the Job %s from member %s, which a stale request has made: %w", on, m.Name, err)
	}
	metrics.StaleRequestRefused(m.Name)
	return nil
}

// deleted says whether a FleetMiniCluster is known to exist no more. The hub itself is asked, for its cache may
// not know a new object yet.
func (r *Reconciler) deleted(ctx context.Context, owner fleet.Origin) bool {
	key, ok := owner.Key()
	if !ok {
		return true // nothing of ours
	}
	var fmc v1alpha1.FleetMiniCluster
	if err := r.Client.Get(ctx, key, &fmc); err == nil && string(fmc.UID) == owner.OwnerUID {
		return false
	}
	err := r.APIReader.Get(ctx, key, &fmc)
	return apierrors.IsNotFound(err) || err == nil && string(fmc.UID) != owner.OwnerUID
}
