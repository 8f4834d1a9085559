package membercluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/clusters"
	"github.com/minifleet/minifleet/clusters/copies"
	"github.com/minifleet/minifleet/controllers/internal/retry"
	"github.com/minifleet/minifleet/internal/fleet"
	"github.com/minifleet/minifleet/internal/runs"
	"github.com/minifleet/minifleet/internal/sanitize"
)

const (
	// concurrentRemovals is how many FleetMiniClusters are removed from a member at once.
	concurrentRemovals = 8

	orphanRemedy = "set spec.deletionPolicy: Orphan to leave"
)

// footprint is what there may be of MiniFleet on a member.
type footprint struct {
	// users are the FleetMiniClusters that may have something there.
	users []*v1alpha1.FleetMiniCluster
	// uses says of every FleetMiniCluster of the hub whether it is one of them.
	uses map[types.UID]bool
}

// footprintOn finds what there may be on a member. Whatever is there was once recorded in the ledger, which keeps
// the latest run of each member.
func footprintOn(all []v1alpha1.FleetMiniCluster, member string) footprint {
	out := footprint{uses: map[types.UID]bool{}}
	for i := range all {
		f := &all[i]
		out.uses[f.UID] = slices.ContainsFunc(f.Status.Clusters, func(c v1alpha1.ClusterStatus) bool { return c.Name == member }) ||
			slices.ContainsFunc(f.Status.Runs, func(run v1alpha1.Run) bool { return run.Cluster == member })
		if out.uses[f.UID] {
			out.users = append(out.users, f)
		}
	}
	return out
}

// owners are the users, NAMESPACE/NAME, sorted, and then the owners of orphans.
func (f footprint) owners(orphans []v1alpha1.Orphan) []string {
	var names []string
	for _, user := range f.users {
		names = append(names, ownerOf(user))
	}
	slices.Sort(names)
	for _, o := range orphans {
		names = append(names, o.Owner)
	}
	return names
}

func ownerOf(f *v1alpha1.FleetMiniCluster) string { return f.Namespace + "/" + f.Name }

// isRemoved says whether the use of a copy by a FleetMiniCluster ends: it is one of the users, or does not exist.
func (f footprint) isRemoved(uid types.UID) bool {
	uses, known := f.uses[uid]
	return uses || !known
}

// removal is how far everything of MiniFleet is removed from a member whose MemberCluster is being deleted.
type removal struct {
	// remaining says what is to be removed yet, and what that waits for.
	remaining string
	// done says that nothing is but orphans.
	done bool
	// again is when to reconcile again although nothing happens; 0: not.
	again time.Duration
}

// complete says whether nothing of MiniFleet is on the member any more: orphans count as well.
func (r removal) complete(orphans []v1alpha1.Orphan) bool { return r.done && len(orphans) == 0 }

// remove removes what MiniFleet has on a member that is being deleted and has no live run any more.
func (r *Reconciler) remove(ctx context.Context, member *v1alpha1.MemberCluster, d *drain, state clusters.State) (removal, error) {
	if d == nil || !d.deleting || !d.done {
		return removal{}, nil
	}
	there := footprintOn(d.ledgers, member.Name)
	owners := there.owners(member.Status.Orphans)
	m, err := r.Provider.Member(member.Name)
	if err != nil {
		return whileAway(owners, state.Reason), nil //nolint:nilerr // its return is an event
	}
	terminating, err := r.removeFrom(ctx, m, there, &r.drainProgress(member.UID).clean)
	out := r.Intervals.afterRemoval(owners, terminating, err)
	if err != nil && !clusters.Unanswered(err) {
		return out, fmt.Errorf("removing what is on member %s: %w", member.Name, err)
	}
	return out, nil
}

// whileAway is the removal from a member that is not connected.
func whileAway(owners []string, reason string) removal {
	if len(owners) == 0 {
		return removal{done: true}
	}
	return removal{remaining: fmt.Sprintf("the member cannot be reached (%s), and the deletion waits for it to remove what is left there of %s: %s it there",
		reason, sanitize.Names(owners, maxNames), orphanRemedy)}
}

// afterRemoval is the removal from a member that was asked, where something is being deleted yet or an error came.
func (i Intervals) afterRemoval(owners, terminating []string, err error) removal {
	switch {
	case clusters.Unanswered(err):
		return removal{remaining: "the member does not answer; what is left there of " + sanitize.Names(owners, maxNames) + " is removed when it does", again: i.Away}
	case err != nil:
		return removal{remaining: "removing what is left there of " + sanitize.Names(owners, maxNames) + ": " + sanitize.Text(err.Error(), sanitize.MaxNote) +
			": correct that, or " + orphanRemedy + " it there"}
	case len(terminating) > 0:
		return removal{remaining: "being deleted there is what is left of " + sanitize.Names(terminating, maxNames), again: i.Deleted}
	default:
		return removal{done: true}
	}
}

// removeFrom removes everything of the users from a member, the copies that they use last. It returns those of
// which something is still there.
func (r *Reconciler) removeFrom(ctx context.Context, m *clusters.Member, there footprint, clean *uidSet) (terminating []string, err error) {
	terminating, err = removeEach(ctx, there.users, clean, func(ctx context.Context, f *v1alpha1.FleetMiniCluster) (bool, error) {
		origin := fleet.Origin{FleetID: r.FleetID, Owner: ownerOf(f), OwnerUID: string(f.UID)}
		for _, key := range m.KeysOf(ctx, f, origin) {
			if removed, err := m.Cleanup(ctx, key, clusters.Removal{Owns: origin.Owns, Over: runs.Ledger(f.Status.Runs).Ended}); err != nil || !removed {
				return removed, err
			}
		}
		return true, nil
	})
	if err != nil || len(terminating) > 0 {
		return terminating, err
	}
	for range 2 { // the second time makes sure that they are no longer there
		if terminating, err = r.releaseCopies(ctx, m, there); err != nil || len(terminating) == 0 {
			return nil, err
		}
	}
	return terminating, nil
}

// releaseCopies releases the copies of Secrets and ConfigMaps on a member for the users, and returns those that
// they used.
func (r *Reconciler) releaseCopies(ctx context.Context, m *clusters.Member, there footprint) (used []string, err error) {
	var all []client.Object
	for _, namespace := range m.Namespaces() {
		live, err := copies.Live(ctx, m, namespace, r.FleetID)
		if err != nil {
			return nil, err
		}
		all = append(all, live...)
	}
	isRemoved := func(user fleet.Origin) bool { return there.isRemoved(types.UID(user.OwnerUID)) }
	var errs []error
	for _, have := range all {
		if slices.ContainsFunc(copies.Users(have), isRemoved) {
			used = append(used, fmt.Sprintf("%s %s/%s", copies.Kind(have), have.GetNamespace(), have.GetName()))
			errs = append(errs, copies.Release(ctx, m, have, r.FleetID, isRemoved))
		}
	}
	return used, errors.Join(errs...)
}

// removeEach removes what users have on a member, but for those that are clean, several at once, and returns those
// of which something is being deleted yet. It ends early when the member does not answer.
func removeEach(ctx context.Context, users []*v1alpha1.FleetMiniCluster, clean *uidSet, remove func(context.Context, *v1alpha1.FleetMiniCluster) (bool, error)) (terminating []string, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var mu sync.Mutex
	var wg sync.WaitGroup
	var errs []error
	slots := make(chan struct{}, concurrentRemovals)
	for _, f := range users {
		if clean.has(f.UID) {
			continue
		}
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			if ctx.Err() != nil {
				return
			}
			none, err := remove(ctx, f)
			mu.Lock()
			defer mu.Unlock()
			switch {
			case ctx.Err() != nil: // another's error was first
			case err != nil && clusters.Unanswered(err):
				errs = []error{err}
				cancel()
			case err != nil:
				errs = append(errs, err)
			case none:
				clean.add(f.UID)
			default:
				terminating = append(terminating, ownerOf(f))
			}
		})
	}
	wg.Wait()
	slices.Sort(terminating)
	return terminating, errors.Join(errs...)
}

// removeFinalizer ends the deletion of a MemberCluster whose policy is carried out. The write fails if something
// was recorded in it since it was read, such as an orphan.
func (r *Reconciler) removeFinalizer(ctx context.Context, member *v1alpha1.MemberCluster, kind, reason, message string) (reconcile.Result, error) {
	if err := r.Identity.Forget(ctx, member.Name); err != nil {
		return reconcile.Result{}, err
	}
	controllerutil.RemoveFinalizer(member, v1alpha1.Finalizer)
	if err := r.Client.Update(ctx, member); err != nil {
		return retry.OnConflict(err)
	}
	if err := r.removed(ctx, member.Name); err != nil { // it may have been connected anew since it was forgotten
		return reconcile.Result{}, err
	}
	r.drains.Delete(member.UID)
	r.Recorder.Eventf(member, nil, kind, reason, "Delete", "%s", sanitize.Text(message, sanitize.MaxNote))
	return reconcile.Result{}, nil
}

// orphanAll ends the deletion of a MemberCluster with everything on the member as it is.
func (r *Reconciler) orphanAll(ctx context.Context, member *v1alpha1.MemberCluster) (reconcile.Result, error) {
	var list v1alpha1.FleetMiniClusterList // of all shards
	if err := r.APIReader.List(ctx, &list); err != nil {
		return reconcile.Result{}, fmt.Errorf("listing FleetMiniClusters on the hub: %w", err)
	}
	return r.removeFinalizer(ctx, member, corev1.EventTypeWarning, v1alpha1.ReasonOrphaned, orphanedMessage(member, list.Items))
}

// orphanedMessage says what is left on a member.
// orphanedMessage is for an event, which may be read by those who may not see whose runs these are.
func orphanedMessage(member *v1alpha1.MemberCluster, all []v1alpha1.FleetMiniCluster) string {
	const policy = "left on the member as it is (deletionPolicy: Orphan): "
	live, users, orphans := liveOn(all, member.Name), len(footprintOn(all, member.Name).users), len(member.Status.Orphans)
	switch {
	case len(live) > 0:
		return policy + fmt.Sprintf("live runs, %d of them, whose end is not known any more, and what there is of %d FleetMiniClusters", len(live), users)
	case users+orphans > 0:
		return policy + fmt.Sprintf("no live run, and what there is of %d FleetMiniClusters", users+orphans)
	default:
		return policy + "nothing that is known of"
	}
}
