package membercluster

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/fluxcd/pkg/runtime/conditions"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/internal/sanitize"
)

const (
	// drainInterval is how often it is asked whether the reconciliations have ended that may still begin a run.
	drainInterval = 500 * time.Millisecond
	// maxNames is how many of many are named in a message.
	maxNames = 5
)

// drain is how far a member is drained that is to be, or whose MemberCluster is being deleted. It is nil for all
// others.
type drain struct {
	// invalid is what is wrong with the annotation that asks for it.
	invalid  error
	deleting bool
	// live are the runs there that have not ended.
	live []liveRun
	// done says that no run is live there, and that none is about to begin.
	done bool
	// ledgers are all FleetMiniClusters as the hub itself has them, for a deletion that is done.
	ledgers []v1alpha1.FleetMiniCluster
	// again is when to reconcile again although nothing happens; 0: not.
	again time.Duration
}

func (d *drain) requeueAfter() time.Duration {
	if d == nil {
		return 0
	}
	return d.again
}

// liveRun is a run in the ledger of a FleetMiniCluster, NAMESPACE/NAME.
type liveRun struct{ owner, id string }

func (l liveRun) String() string { return fmt.Sprintf("%s (run %s)", l.owner, l.id) }

// drainProgress is how far a member is drained, in this process.
type drainProgress struct {
	mark  uint64 // reconciliations of FleetMiniClusters that began later know that nothing begins there
	clean uidSet // FleetMiniClusters that have nothing there any more
}

// uidSet is a set for several goroutines.
type uidSet struct{ uids sync.Map }

func (s *uidSet) add(uid types.UID) { s.uids.Store(uid, struct{}{}) }

func (s *uidSet) has(uid types.UID) bool {
	_, is := s.uids.Load(uid)
	return is
}

// drain finds out how far a member is drained.
//
// That it is done rests on this order: a reconciliation that begins after the mark sees in the hub's cache that
// nothing begins on this member any more, and that no run is live there for which anything would be put back. When
// all earlier ones have ended, what they have begun is in the ledgers, which are then read from the hub itself.
func (r *Reconciler) drain(ctx context.Context, member *v1alpha1.MemberCluster) (*drain, error) {
	d := &drain{deleting: !member.DeletionTimestamp.IsZero()}
	why, invalid := member.Draining()
	if !d.deleting && why == "" {
		r.drains.Delete(member.UID)
		if d.invalid = invalid; invalid == nil {
			return nil, nil
		}
		return d, nil
	}
	var cached v1alpha1.FleetMiniClusterList
	if err := r.Client.List(ctx, &cached, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing FleetMiniClusters: %w", err)
	}
	if d.live = liveOn(cached.Items, member.Name); len(d.live) > 0 {
		r.drains.Delete(member.UID) // their end is an event
		return d, nil
	}
	if !d.deleting && conditions.IsTrue(member, v1alpha1.ConditionDrained) {
		d.done = true // as it was
		return d, nil
	}
	if !r.InFlight.DoneBefore(r.drainProgress(member.UID).mark) {
		d.again = drainInterval
		return d, nil
	}
	return d, r.confirm(ctx, member, d)
}

// confirm asks the hub itself whether no run is live.
func (r *Reconciler) confirm(ctx context.Context, member *v1alpha1.MemberCluster, d *drain) error {
	var list v1alpha1.FleetMiniClusterList
	if err := r.APIReader.List(ctx, &list); err != nil {
		return fmt.Errorf("listing FleetMiniClusters on the hub: %w", err)
	}
	if d.live = liveOn(list.Items, member.Name); len(d.live) > 0 {
		r.drains.Delete(member.UID)
		d.again = drainInterval // until the cache shows it
		if len(liveOn(ofOthers(list.Items, r.Elsewhere.Shard), member.Name)) == len(d.live) {
			d.again = r.Intervals.Away // it never does
		}
		return nil
	}
	d.done = true
	if d.deleting {
		d.ledgers = list.Items
	}
	return nil
}

// drainProgress is how far a member is drained. The first time sets the mark.
func (r *Reconciler) drainProgress(member types.UID) *drainProgress {
	v, _ := r.drains.LoadOrStore(member, &drainProgress{mark: r.InFlight.Mark()})
	return v.(*drainProgress) //nolint:forcetypeassert // nothing else is stored
}

// liveOn are the live runs on a member, sorted.
func liveOn(all []v1alpha1.FleetMiniCluster, member string) []liveRun {
	var out []liveRun
	for i := range all {
		for j := range all[i].Status.Runs {
			if run := &all[i].Status.Runs[j]; run.Cluster == member && !run.State.Ended() {
				out = append(out, liveRun{all[i].Namespace + "/" + all[i].Name, run.ID})
			}
		}
	}
	slices.SortFunc(out, func(a, b liveRun) int { return strings.Compare(a.String(), b.String()) })
	return out
}

// describeLive says how many runs are live, and which.
func describeLive(live []liveRun) string {
	names := make([]string, len(live))
	for i, l := range live {
		names[i] = l.String()
	}
	if len(live) == 1 {
		return "1 run is live: " + names[0]
	}
	return fmt.Sprintf("%d runs are live: %s", len(live), sanitize.Names(names, maxNames))
}
