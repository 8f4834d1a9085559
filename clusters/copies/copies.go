// Package copies keeps copies of the hub's Secrets and ConfigMaps on members, for the runs that reference them. In
// comes the hub's object and the FleetMiniClusters that use it; a member then has the content and the
// names of its users, until there are none. What somebody else has put there is never overwritten.
package copies

import (
	"context"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/minifleet/minifleet/clusters"
	"github.com/minifleet/minifleet/internal/fleet"
)

// attempts bounds how often a write of a copy is tried that somebody else came before.
const attempts = 8

// Change says what was done to a copy on a member.
type Change string

// Values of Change.
const (
	// Kept means that it was as it should be, but for a note of its user.
	Kept Change = "Kept"
	// Created means that it was not there.
	Created Change = "Created"
	// Updated means that the hub's object has changed.
	Updated Change = "Updated"
	// Repaired means that somebody had edited it on the member.
	Repaired Change = "Repaired"
)

// Check says, without writing, whether an object of the hub could be copied to a namespace of the
// member. The error is a *Conflict where the name is in use there.
func Check(ctx context.Context, m *clusters.Member, source client.Object, namespace string, user fleet.Origin) error {
	want := copyOf(source, namespace, user)
	have, err := cached(ctx, m, want)
	if err == nil && have == nil {
		have, err = Find(ctx, m, Kind(want), client.ObjectKeyFromObject(want))
	}
	if err != nil || have == nil || have.GetUID() == source.GetUID() || isCopyOf(m, have, source, user.FleetID) {
		return err
	}
	return conflictOf(want, have, user)
}

// Ensure makes a namespace of the member have a copy of a Secret or ConfigMap of the hub, with its
// content and type, and notes its user on it. Where the cache shows it so already, no request is sent. The
// error is a *Conflict where the name is in use there.
func Ensure(ctx context.Context, m *clusters.Member, source client.Object, namespace string, user fleet.Origin) (Change, error) {
	if err := m.Verify(ctx); err != nil {
		return "", err
	}
	want := copyOf(source, namespace, user)
	have, err := cached(ctx, m, want)
	if err != nil {
		return "", err
	}
	if have != nil && isCopyOf(m, have, source, user.FleetID) && sameContent(want, have) && marked(want, have) && isUser(have, user) {
		return Kept, nil
	}
	defer lock(m, want)()
	for range attempts {
		if have, err = Find(ctx, m, Kind(want), client.ObjectKeyFromObject(want)); err != nil {
			return "", err
		}
		change, err := step(ctx, m, source, want, have, user)
		if !lostRace(err) {
			return change, redact(err, source)
		}
	}
	return "", errContended(want)
}

// Release takes the users for whom released is true off a copy, and deletes the copy when it has no other.
func Release(ctx context.Context, m *clusters.Member, have client.Object, fleetID string, released func(fleet.Origin) bool) error {
	if err := m.Verify(ctx); err != nil {
		return err
	}
	defer lock(m, have)()
	for range attempts {
		now, err := Find(ctx, m, Kind(have), client.ObjectKeyFromObject(have))
		if err != nil {
			return err
		}
		if now == nil || !isCopy(m, now, fleetID) || !now.GetDeletionTimestamp().IsZero() {
			return nil
		}
		if err := removeUsers(ctx, m, now, released); !lostRace(err) {
			return redact(err, now)
		}
	}
	return errContended(have)
}

func errContended(obj client.Object) error {
	return fmt.Errorf("%s %s/%s on the member is being changed by others again and again", Kind(obj), obj.GetNamespace(), obj.GetName())
}

// lock lets those of this hub who write the same copy do so one after the other, and returns what ends the turn.
// Hundreds of MiniClusters may share a pull secret, and begin and end together.
func lock(m *clusters.Member, obj client.Object) (unlock func()) {
	return m.Lock(Kind(obj) + "/" + obj.GetNamespace() + "/" + obj.GetName())
}
