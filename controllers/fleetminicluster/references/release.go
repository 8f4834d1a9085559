package references

import (
	"context"
	"errors"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/clusters"
	"github.com/minifleet/minifleet/clusters/copies"
	"github.com/minifleet/minifleet/internal/fleet"
)

// ReleaseAll takes a FleetMiniCluster off the users of all copies on a member: those that the cache shows, in whatever
// namespace, and those in the namespaces given. Copies that are not used any more are deleted. The member itself is asked
// only where references says that there may be any.
func (k *Keeper) ReleaseAll(ctx context.Context, m *clusters.Member, user User, namespaces []string, references int) error {
	if k.IsHub(ctx, m, user) {
		return nil
	}
	used, err := copies.UsedBy(ctx, m, metav1.NamespaceAll, user.Origin.Owner, k.FleetID)
	if err != nil || len(used)+references == 0 {
		return err
	}
	namespaces = slices.Clone(namespaces)
	for _, have := range used {
		namespaces = append(namespaces, have.GetNamespace())
	}
	slices.Sort(namespaces)
	var all []client.Object
	for _, namespace := range slices.Compact(namespaces) { // the cache may not show the latest yet
		live, err := copies.Live(ctx, m, namespace, k.FleetID)
		if err != nil {
			return err
		}
		all = append(all, live...)
	}
	var errs []error
	for _, have := range all {
		errs = append(errs, k.releaseFor(ctx, m, have, func(u fleet.Origin) bool { return u.OwnerUID == user.Origin.OwnerUID }))
	}
	return errors.Join(errs...)
}

// Any says whether the cache shows copies on a member that a FleetMiniCluster uses.
func (k *Keeper) Any(ctx context.Context, m *clusters.Member, user User) (bool, error) {
	if k.IsHub(ctx, m, user) {
		return false, nil
	}
	used, err := copies.UsedBy(ctx, m, user.On(ctx, m), user.Origin.Owner, k.FleetID)
	return len(used) > 0, err
}

// releaseFor takes released users off the users of a copy, if there are any, and with them those that were deleted.
func (k *Keeper) releaseFor(ctx context.Context, m *clusters.Member, have client.Object, isReleased func(fleet.Origin) bool) error {
	if !slices.ContainsFunc(copies.Users(have), isReleased) {
		return nil
	}
	return copies.Release(ctx, m, have, k.FleetID, func(user fleet.Origin) bool { return isReleased(user) || k.Deleted(ctx, user) })
}

// releaseOn releases copies on members where nothing else of a FleetMiniCluster is: one that was deleted while the
// member was not registered, or whose run was ended by that.
func (k *Keeper) releaseOn(ctx context.Context, key types.NamespacedName, except []string, isReleased func(fleet.Origin) bool) error {
	var list v1alpha1.MemberClusterList
	if err := k.Client.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("listing MemberClusters: %w", err)
	}
	var errs []error
	for i := range list.Items {
		m, err := k.Provider.Member(list.Items[i].Name)
		if err != nil || slices.Contains(except, m.Name) {
			continue // a member that is not connected is asked when it is
		}
		used, err := copies.UsedBy(ctx, m, "", key.String(), k.FleetID)
		errs = append(errs, err)
		for _, have := range used {
			errs = append(errs, k.releaseFor(ctx, m, have, isReleased))
		}
	}
	return errors.Join(errs...)
}

// ReleaseDeleted releases the copies of a FleetMiniCluster that was deleted.
func (k *Keeper) ReleaseDeleted(ctx context.Context, key types.NamespacedName) error {
	return k.releaseNoted(key, func() error {
		return k.releaseOn(ctx, key, nil, func(user fleet.Origin) bool { return user.Owner == key.String() && k.Deleted(ctx, user) })
	})
}

// ReleaseElsewhere releases copies on members that a FleetMiniCluster has nothing to do with any more: all but those
// named. It asks confirm first, once.
func (k *Keeper) ReleaseElsewhere(ctx context.Context, key types.NamespacedName, user User, except []string, confirm func(context.Context) error) error {
	return k.releaseNoted(key, func() error {
		confirmed := false
		return k.releaseOn(ctx, key, except, func(u fleet.Origin) bool {
			if u.OwnerUID != user.Origin.OwnerUID {
				return u.Owner == user.Origin.Owner && k.Deleted(ctx, u)
			}
			confirmed = confirmed || confirm(ctx) == nil
			return confirmed
		})
	})
}

// releaseNoted releases copies of a FleetMiniCluster that copies have named as their user since the last time.
func (k *Keeper) releaseNoted(key types.NamespacedName, release func() error) error {
	if _, noted := k.users.LoadAndDelete(key); !noted {
		return nil
	}
	err := release()
	if err != nil {
		k.users.Store(key, nil)
	}
	return err
}

// UsersOf are the FleetMiniClusters that an object on a member, if it is a copy, says it is used by. They are noted, and
// what they do not use any more is released when they are reconciled.
func (k *Keeper) UsersOf(obj client.Object) []types.NamespacedName {
	if obj.GetAnnotations()[v1alpha1.AnnotationFleetID] != k.FleetID {
		return nil
	}
	var out []types.NamespacedName
	for _, user := range copies.Users(obj) {
		if key, ok := user.Key(); ok {
			k.users.Store(key, nil)
			out = append(out, key)
		}
	}
	return out
}
