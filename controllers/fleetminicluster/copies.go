package fleetminicluster

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	fluxv1alpha2 "github.com/minifleet/minifleet/api/flux/v1alpha2"
	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/clusters"
	"github.com/minifleet/minifleet/clusters/copies"
	"github.com/minifleet/minifleet/controllers/internal/hubobjects"
	"github.com/minifleet/minifleet/internal/fleet"
	"github.com/minifleet/minifleet/internal/plan"
	"github.com/minifleet/minifleet/internal/runs"
)

// endedFactor is how many times as long as a live run one that has ended waits until what it has copies of is read
// again.
const endedFactor = 10

// followReferences keeps the copies on a member as the hub has them, for as long as they are needed there,
// and releases those that are not.
func (c *reconciliation) followReferences(ctx context.Context, t *plan.Target, w *maintenance) error {
	m := c.members[t.Name]
	if !t.FollowsReferences() || c.isHub(m, c.snapshot.Object.Namespace) {
		return nil
	}
	used, err := copies.UsedBy(ctx, m, t.Namespace, c.origin(c.snapshot.Object).Owner, c.HubUID)
	if err == nil && len(used) > 0 {
		err = c.maintainCopies(ctx, t, used, w)
	}
	if err == nil && c.round.UsesReferences(c.decision, t) {
		err = c.restoreCopies(ctx, t, used, w)
	}
	return err
}

// maintainCopies sees to the copies that this object, or an earlier one of its name, is noted as a user of.
func (c *reconciliation) maintainCopies(ctx context.Context, t *plan.Target, used []client.Object, w *maintenance) error {
	last := c.round.Ledger.Last(t.Name)
	interval := c.FollowInterval
	if last == nil || last.State.Ended() {
		interval *= endedFactor
	}
	w.requeueAfter(interval)
	for _, have := range used {
		key := c.hubKey(copies.Kind(have), have.GetName())
		source, err := c.hubObjects.Recent(ctx, key)
		if err != nil {
			return err
		}
		offer := hubobjects.OfferOf(key, source)
		noted := slices.Contains(copies.Users(have), c.origin(c.snapshot.Object))
		switch c.round.UseOf(c.decision, t, key.Kind, key.Name, noted, offer.OK()) {
		case plan.InUse:
			if offer.OK() {
				err = c.follow(ctx, t, source, w)
			} else {
				w.remark = &runs.Step{Reason: v1alpha1.ReasonReferenceWithdrawn, Message: fmt.Sprintf(
					"%s %s is no longer offered: %s; the copy stays as it is until the run ends", key.Kind, key.Name, offer.Refused)}
			}
		case plan.Unused:
			err = c.releaseOwn(ctx, c.members[t.Name], have)
		case plan.KeptForNext:
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// restoreCopies brings back copies that a run needs and that the cache does not show.
func (c *reconciliation) restoreCopies(ctx context.Context, t *plan.Target, used []client.Object, w *maintenance) error {
	for _, ref := range c.referencesOn(t.Name) {
		if c.hasCopy(used, ref) {
			continue
		}
		key := c.hubKey(ref.Kind, ref.Name)
		source, err := c.hubObjects.Recent(ctx, key)
		if err != nil {
			return err
		}
		if !hubobjects.OfferOf(key, source).OK() {
			continue // it began with the member's own
		}
		w.requeueAfter(c.FollowInterval)
		if err := c.follow(ctx, t, source, w); err != nil {
			return err
		}
	}
	return nil
}

func (c *reconciliation) hasCopy(used []client.Object, ref fluxv1alpha2.Reference) bool {
	return slices.ContainsFunc(used, func(have client.Object) bool {
		return copies.Kind(have) == ref.Kind && have.GetName() == ref.Name && slices.Contains(copies.Users(have), c.origin(c.snapshot.Object))
	})
}

// changeMessages say what was done to a copy, for events.
var changeMessages = map[copies.Change]struct{ reason, message string }{
	copies.Created:  {v1alpha1.ReasonDriftRepaired, "had been deleted; put back"},
	copies.Repaired: {v1alpha1.ReasonDriftRepaired, "had been edited; put back"},
	copies.Updated:  {v1alpha1.ReasonReferenceUpdated, "has changed on the hub; copied"},
}

// follow makes a copy that a live run uses what the hub's object is. A run that began with the member's own
// is not disturbed by what the hub offers since.
func (c *reconciliation) follow(ctx context.Context, t *plan.Target, source client.Object, w *maintenance) error {
	change, err := copies.Ensure(ctx, c.members[t.Name], source, t.Namespace, c.origin(c.snapshot.Object))
	var conflict *copies.Conflict
	if errors.As(err, &conflict) {
		w.remark = &runs.Step{Reason: v1alpha1.ReasonConflict, Message: conflict.Error()}
		return nil
	}
	if err != nil {
		return err
	}
	if told, ok := changeMessages[change]; ok {
		w.events = append(w.events, upkeepEvent(t, told.reason, "Propagate", fmt.Sprintf("%s %s %s", copies.Kind(source), source.GetName(), told.message)))
	}
	return nil
}

// releaseOwn takes this object off the users of a copy, and with it those that were deleted.
func (c *reconciliation) releaseOwn(ctx context.Context, m *clusters.Member, have client.Object) error {
	if err := c.confirm(ctx); err != nil {
		return err
	}
	origin := c.origin(c.snapshot.Object)
	return copies.Release(ctx, m, have, c.HubUID, func(user fleet.Origin) bool { return user == origin || c.deleted(ctx, user) })
}

// releaseFor takes those who leave off the users of a copy, if there are any, and with them those that were deleted.
func (r *Reconciler) releaseFor(ctx context.Context, m *clusters.Member, have client.Object, leaves func(fleet.Origin) bool) error {
	if !slices.ContainsFunc(copies.Users(have), leaves) {
		return nil
	}
	return copies.Release(ctx, m, have, r.HubUID, func(user fleet.Origin) bool { return leaves(user) || r.deleted(ctx, user) })
}

// releaseOn releases copies on members where nothing else of a FleetMiniCluster is: one that was deleted while the
// member was not registered, or whose run was ended by that. It is called for objects that a copy names as its user,
// when the cache comes to show it.
func (r *Reconciler) releaseOn(ctx context.Context, key types.NamespacedName, except []string, leaves func(fleet.Origin) bool) error {
	var list v1alpha1.MemberClusterList
	if err := r.Client.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("listing MemberClusters: %w", err)
	}
	var errs []error
	for i := range list.Items {
		m, err := r.Provider.Member(list.Items[i].Name)
		if err != nil || slices.Contains(except, m.Name) {
			continue // a member that is not connected is asked when it is
		}
		used, err := copies.UsedBy(ctx, m, "", key.String(), r.HubUID)
		errs = append(errs, err)
		for _, have := range used {
			errs = append(errs, r.releaseFor(ctx, m, have, leaves))
		}
	}
	return errors.Join(errs...)
}

// releaseDeleted releases the copies of a FleetMiniCluster that was deleted.
func (r *Reconciler) releaseDeleted(ctx context.Context, key types.NamespacedName) error {
	return r.releaseNoted(key, func() error {
		return r.releaseOn(ctx, key, nil, func(user fleet.Origin) bool { return user.Owner == key.String() && r.deleted(ctx, user) })
	})
}

// releaseElsewhere releases copies on members that this object has nothing to do with any more.
func (c *reconciliation) releaseElsewhere(ctx context.Context) error {
	return c.releaseNoted(c.key(), func() error {
		var except []string
		for i := range c.round.Targets {
			if t := &c.round.Targets[i]; !t.Unregistered {
				except = append(except, t.Name)
			}
		}
		checked, origin := false, c.origin(c.snapshot.Object)
		return c.releaseOn(ctx, c.key(), except, func(user fleet.Origin) bool {
			if user.OwnerUID != origin.OwnerUID {
				return user.Owner == origin.Owner && c.deleted(ctx, user)
			}
			checked = checked || c.upToDate(ctx) == nil
			return checked
		})
	})
}

// releaseNoted releases copies of a FleetMiniCluster that copies have named as their user since the last time.
func (r *Reconciler) releaseNoted(key types.NamespacedName, release func() error) error {
	if _, noted := r.copyUsers.LoadAndDelete(key); !noted {
		return nil
	}
	err := release()
	if err != nil {
		r.copyUsers.Store(key, nil)
	}
	return err
}

// usersOfCopy are the FleetMiniClusters that a copy on a member says it is used by.
func (r *Reconciler) usersOfCopy(obj client.Object) []types.NamespacedName {
	if obj.GetAnnotations()[v1alpha1.AnnotationHubUID] != r.HubUID {
		return nil
	}
	var out []types.NamespacedName
	for _, user := range copies.Users(obj) {
		if key, ok := parseKey(user.Owner); ok {
			r.copyUsers.Store(key, nil)
			out = append(out, key)
		}
	}
	return out
}
