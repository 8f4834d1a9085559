package references

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	fluxv1alpha2 "github.com/minifleet/minifleet/api/flux/v1alpha2"
	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/clusters"
	"github.com/minifleet/minifleet/clusters/copies"
	"github.com/minifleet/minifleet/controllers/internal/hubobjects"
	"github.com/minifleet/minifleet/internal/fleet"
	"github.com/minifleet/minifleet/internal/plan"
)

// endedFactor is how many times as long as a live run one that has ended waits until what it has copies of is read
// again.
const endedFactor = 10

// Uses says what the copies on a member are to a FleetMiniCluster.
type Uses struct {
	// Of is what one copy is.
	Of func(kind, name string, noted, offered bool) plan.Use
	// Live says that a run is live there.
	Live bool
	// Needed are the references of a live run that has got everything that it needs, nil where there is none.
	Needed []fluxv1alpha2.Reference
	// Confirm makes sure, before a copy is released, that no run which needs it has begun since the cache was filled.
	Confirm func(ctx context.Context) error
	// Permit says why nothing may be copied to the namespace of the member, with a *clusters.NamespaceDenied.
	Permit func(ctx context.Context) error
}

// Result is what maintenance comes to, as far as it got.
type Result struct {
	// After is when to do it again, 0: not because of time.
	After time.Duration
	// Remark is something to be told where nothing is wrong otherwise, nil for nothing.
	Remark *Error
	// Changes are the copies that were changed.
	Changes []Change
}

// Change is what was done to a copy of a live run, with the reason of its event.
type Change struct{ Reason, Message string }

// Maintain keeps the copies on a member as the hub has them, for as long as they are needed there, and releases those
// that are not.
func (k *Keeper) Maintain(ctx context.Context, m *clusters.Member, user User, uses Uses) (Result, error) {
	var r Result
	if k.IsHub(ctx, m, user) {
		return r, nil
	}
	used, err := copies.UsedBy(ctx, m, user.On(ctx, m), user.Origin.Owner, k.FleetID)
	if err == nil && len(used) > 0 {
		err = k.maintainAll(ctx, m, user, uses, used, &r)
	}
	if err == nil {
		err = k.restore(ctx, m, user, uses, used, &r)
	}
	return r, err
}

// maintainAll sees to the copies that the user, or an earlier one of its name, is noted on.
func (k *Keeper) maintainAll(ctx context.Context, m *clusters.Member, user User, uses Uses, used []client.Object, r *Result) error {
	interval := k.Interval
	if !uses.Live {
		interval *= endedFactor
	}
	r.After = plan.After(r.After, interval)
	for _, have := range used {
		key := user.key(copies.Kind(have), have.GetName())
		source, err := k.Hub.Recent(ctx, key)
		var denied *hubobjects.Denied
		if err != nil && !errors.As(err, &denied) {
			return err
		}
		offer := hubobjects.OfferOf(key, source)
		noted := slices.Contains(copies.Users(have), user.Origin)
		err = nil
		// What cannot be read may be offered.
		switch uses.Of(key.Kind, key.Name, noted, offer.OK() || denied != nil) {
		case plan.InUse:
			switch {
			case denied != nil:
				r.Remark = notFollowed(denied)
			case offer.OK():
				err = k.follow(ctx, m, user, uses, source, r)
			default:
				r.Remark = &Error{v1alpha1.ReasonReferenceWithdrawn, fmt.Sprintf(
					"%s %s is no longer offered: %s; the copy stays as it is until the run ends", key.Kind, key.Name, offer.Refused)}
			}
		case plan.Unused:
			if err = uses.Confirm(ctx); err == nil {
				err = copies.Release(ctx, m, have, k.FleetID, func(u fleet.Origin) bool { return u == user.Origin || k.Deleted(ctx, u) })
			}
		case plan.KeptForNext:
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// restore brings back copies that a run needs and that the cache does not show.
func (k *Keeper) restore(ctx context.Context, m *clusters.Member, user User, uses Uses, used []client.Object, r *Result) error {
	for _, ref := range uses.Needed {
		if hasCopy(used, ref, user.Origin) {
			continue
		}
		key := user.key(ref.Kind, ref.Name)
		source, err := k.Hub.Recent(ctx, key)
		var denied *hubobjects.Denied
		if errors.As(err, &denied) {
			r.After = plan.After(r.After, k.Interval)
			continue // whether it began with a copy is not known: what the member has stays
		}
		if err != nil {
			return err
		}
		if !hubobjects.OfferOf(key, source).OK() {
			continue // it began with the member's own
		}
		r.After = plan.After(r.After, k.Interval)
		if err := k.follow(ctx, m, user, uses, source, r); err != nil {
			return err
		}
	}
	return nil
}

// notFollowed says that a copy stays as it is, although the hub's object may change.
func notFollowed(denied *hubobjects.Denied) *Error {
	return &Error{v1alpha1.ReasonBindingMissing, fmt.Sprintf("the copy of %s %s stays as it is: %s", denied.Kind, denied.Name, denied.Error())}
}

func hasCopy(used []client.Object, ref fluxv1alpha2.Reference, user fleet.Origin) bool {
	return slices.ContainsFunc(used, func(have client.Object) bool {
		return copies.Kind(have) == ref.Kind && have.GetName() == ref.Name && slices.Contains(copies.Users(have), user)
	})
}

// changeMessages say what was done to a copy, for events.
var changeMessages = map[copies.Change]Change{
	copies.Created:  {v1alpha1.ReasonDriftRepaired, "had been deleted; put back"},
	copies.Repaired: {v1alpha1.ReasonDriftRepaired, "had been edited; put back"},
	copies.Updated:  {v1alpha1.ReasonReferenceUpdated, "has changed on the hub; copied"},
}

// follow makes a copy that a live run uses what the hub's object is. A run that began with the member's own
// is not disturbed by what the hub offers since.
func (k *Keeper) follow(ctx context.Context, m *clusters.Member, user User, uses Uses, source client.Object, r *Result) error {
	if err := uses.Permit(ctx); err != nil {
		var denied *clusters.NamespaceDenied
		if !errors.As(err, &denied) {
			return err
		}
		r.Remark = &Error{v1alpha1.ReasonNamespaceDenied, fmt.Sprintf("the copy of %s %s is not kept as the hub has it: %s", copies.Kind(source), source.GetName(), denied)}
		return nil
	}
	change, err := copies.Ensure(ctx, m, source, user.On(ctx, m), user.Origin)
	var conflict *copies.Conflict
	if errors.As(err, &conflict) {
		r.Remark = &Error{v1alpha1.ReasonConflict, conflict.Error()}
		return nil
	}
	if err != nil {
		return err
	}
	if told, ok := changeMessages[change]; ok {
		r.Changes = append(r.Changes, Change{told.Reason, fmt.Sprintf("%s %s %s", copies.Kind(source), source.GetName(), told.Message)})
	}
	return nil
}
