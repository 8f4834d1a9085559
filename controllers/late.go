package controllers

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/clusters"
)

// dropAllLate removes from all members what requests that arrived late have made for a FleetMiniCluster that is no more.
func (r *FleetMiniClusterReconciler) dropAllLate(ctx context.Context, key types.NamespacedName) error {
	var members v1alpha1.MemberClusterList
	if err := r.Client.List(ctx, &members, client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("listing MemberClusters: %w", err)
	}
	var errs []error
	for i := range members.Items {
		if m, err := r.Provider.Member(members.Items[i].Name); err == nil { // another is looked at when it is connected
			errs = append(errs, r.dropLate(ctx, m, key))
		}
	}
	return errors.Join(errs...)
}

// dropLate removes from a member the Job of a FleetMiniCluster that is gone, if that Job was never released, and with
// it whatever else of the same FleetMiniCluster is there: it was deleted, and its objects removed, before the request to
// create the Job arrived. A Job that runs is left alone, for the hub may be the one that has forgotten something.
func (r *FleetMiniClusterReconciler) dropLate(ctx context.Context, m *clusters.Member, key types.NamespacedName) error {
	on := types.NamespacedName{Namespace: m.TargetNamespace(key.Namespace), Name: key.Name}
	origin, err := m.UnreleasedJob(ctx, on, r.HubUID)
	if err != nil || origin.Owner != key.String() || !r.gone(ctx, origin) {
		return err
	}
	err = wait.PollUntilContextTimeout(ctx, lateInterval, lateTimeout, true, func(ctx context.Context) (bool, error) {
		return m.Cleanup(ctx, on.Namespace, on.Name, origin, nil)
	})
	if err != nil {
		return fmt.Errorf("removing the Job %s from member %s, which came late: %w", on, m.Name, err)
	}
	return nil
}

// A Job that has no pods goes at once.
const (
	lateInterval = 200 * time.Millisecond
	lateTimeout  = 5 * time.Second
)
