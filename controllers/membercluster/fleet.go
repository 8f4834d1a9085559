package membercluster

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/clusters"
)

// clockSkew is how far in the future a person's time may lie, for clocks that differ.
const clockSkew = time.Minute

// isDeclared says whether a person has declared with the annotation minifleet.dev/gone that all that ran on a member
// until some time has ended, so that a hub that has never read the member need not wait for it.
func isDeclared(member *v1alpha1.MemberCluster, now time.Time) bool {
	at, err := time.Parse(time.RFC3339, member.Annotations[v1alpha1.AnnotationMemberGone])
	return err == nil && !at.After(now.Add(clockSkew))
}

// release removes the record of this hub from a member that has nothing else of MiniFleet any more. One that cannot be
// reached, of which nothing is known but that, is not waited for.
func (r *Reconciler) release(ctx context.Context, name string) error {
	m, err := r.Provider.Member(name)
	if errors.Is(err, clusters.ErrNotEngaged) {
		return nil
	}
	if err == nil {
		err = m.Release(ctx)
	}
	if err != nil {
		return fmt.Errorf("removing what member %s has recorded of this hub: %w", name, err)
	}
	return nil
}

// removed disconnects a member whose MemberCluster is not there any more, and takes it out of the fleet. One that was
// never connected by this process may be of the fleet and not registered yet.
func (r *Reconciler) removed(ctx context.Context, name string) error {
	if _, connected := r.Provider.State(name); !connected {
		return nil
	}
	if err := r.Identity.Forget(ctx, name); err != nil {
		return err
	}
	r.Provider.Remove(name)
	return nil
}
