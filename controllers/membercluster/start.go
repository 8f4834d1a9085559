package membercluster

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/minifleet/minifleet/api/v1alpha1"
)

// Ranks of members, in whose order they are connected where many are to be.
const (
	// rankLive are those on which runs are live.
	rankLive = iota
	// rankAwaited are those that a MiniCluster waits for: it is placed there and has not begun, or would be if there was room.
	rankAwaited
	rankIdle
)

// rankAmong is the rank of a member.
func rankAmong(known map[string]int, member string) int {
	if rank, is := known[member]; is {
		return rank
	}
	return rankIdle
}

// ranks are those of the members that have any reason to be connected before others.
func ranks(fleet []v1alpha1.FleetMiniCluster) map[string]int {
	out := map[string]int{}
	for i := range fleet {
		status := &fleet[i].Status
		begun := map[string]bool{}
		for j := range status.Runs {
			if run := &status.Runs[j]; run.State.Ended() {
				begun[run.Cluster] = true
			} else {
				out[run.Cluster] = rankLive
			}
		}
		for _, name := range awaited(status.Placement) {
			if _, known := out[name]; !known && !begun[name] {
				out[name] = rankAwaited
			}
		}
	}
	return out
}

// awaited are the members of a placement, and those that would be if they had room.
func awaited(placement *v1alpha1.PlacementDecision) []string {
	if placement == nil {
		return nil
	}
	out := slices.Clone(placement.Clusters)
	for i := range placement.Waiting {
		out = append(out, placement.Waiting[i].Name)
	}
	return out
}

// start connects all members as soon as what they are reached by is read, by their rank, and lets none be reconciled before: that
// would connect them in the order of their names. It reads memory alone, and waits for no member.
func (r *Reconciler) start(ctx context.Context, hub cache.Cache) error {
	defer close(r.started)
	for _, kind := range []client.Object{&v1alpha1.MemberCluster{}, &corev1.Secret{}} {
		if _, err := hub.GetInformer(ctx, kind); err != nil {
			return nil // the controller waits for the same, and says so
		}
	}
	var members v1alpha1.MemberClusterList
	if err := r.Client.List(ctx, &members); err != nil {
		return fmt.Errorf("listing MemberClusters: %w", err)
	}
	known, err := r.ranks(ctx, hub, len(members.Items))
	if err != nil {
		return err
	}
	r.connectAll(ctx, members.Items, known)
	return nil
}

// ranks are those of so many members, from the ledgers. Where all of them are connected at once nobody is first: they are not kept
// waiting for the FleetMiniClusters, which take the hub longest to list.
func (r *Reconciler) ranks(ctx context.Context, hub cache.Cache, members int) (map[string]int, error) {
	if most := r.Provider.Connects(); most == 0 || members <= most {
		return nil, nil
	}
	if _, err := hub.GetInformer(ctx, &v1alpha1.FleetMiniCluster{}); err != nil {
		return nil, nil //nolint:nilerr // the controller waits for the same, and says so
	}
	var fleet v1alpha1.FleetMiniClusterList
	if err := r.Client.List(ctx, &fleet, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing FleetMiniClusters: %w", err)
	}
	return ranks(fleet.Items), nil
}

// connectAll connects members by their rank. What is to be said of one, its reconciliation says.
func (r *Reconciler) connectAll(ctx context.Context, members []v1alpha1.MemberCluster, ranks map[string]int) {
	slices.SortStableFunc(members, func(a, b v1alpha1.MemberCluster) int {
		return cmp.Or(cmp.Compare(rankAmong(ranks, a.Name), rankAmong(ranks, b.Name)), cmp.Compare(a.Name, b.Name))
	})
	for i := range members {
		m := &members[i]
		if !m.DeletionTimestamp.IsZero() || !controllerutil.ContainsFinalizer(m, v1alpha1.Finalizer) {
			continue
		}
		r.Identity.Declare(m.Name, isDeclared(m, r.Now()))
		target, without, err := r.target(ctx, m)
		if err != nil || without != nil {
			continue
		}
		target.Quarantine, _ = r.quarantine(m, nil)
		target.Rank = rankAmong(ranks, m.Name)
		r.Provider.Ensure(m.Name, target)
	}
}

// beginning waits until start has ended.
func (r *Reconciler) beginning(ctx context.Context) error {
	if r.started == nil {
		return nil
	}
	select {
	case <-r.started:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
