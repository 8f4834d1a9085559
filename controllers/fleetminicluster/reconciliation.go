package fleetminicluster

import (
	"context"
	"errors"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/internal/plan"
	"github.com/minifleet/minifleet/internal/queue"
)

// errStale says that the cache is behind the hub: the decision was made on what is not so any more.
var errStale = apierrors.NewConflict(v1alpha1.GroupVersion.WithResource("fleetminiclusters").GroupResource(), "", errors.New("the cache is behind the hub"))

// reconciliation is one reconciliation of a FleetMiniCluster.
type reconciliation struct {
	*Reconciler

	snapshot *plan.Snapshot
	// told is the status that the hub has. That of the object in the snapshot may wait to be written.
	told     v1alpha1.FleetMiniClusterStatus
	members  members
	decision *plan.Decision
	round    plan.Round
	events   []plan.Event
	// again is when to reconcile again although nothing happens; 0: not.
	again       time.Duration
	certificate certificate
	traced      traced
}

func (c *reconciliation) key() queue.Key { return client.ObjectKeyFromObject(c.snapshot.Object) }

// requeueAfter asks for another reconciliation after d, or sooner; 0 asks for nothing.
func (c *reconciliation) requeueAfter(d time.Duration) { c.again = plan.After(c.again, d) }

// learn changes what is known of a member.
func (c *reconciliation) learn(member string, change func(*plan.Facts)) {
	f := c.snapshot.Facts[member]
	change(&f)
	c.snapshot.Facts[member] = f
}

// tell has events sent once the status is written. They are told once.
func (c *reconciliation) tell(events []plan.Event) {
	c.events = append(c.events, events...)
	c.round.Events = nil
}

// upToDate makes sure that the cache is not behind the hub, before something is done that the ledger in it calls for,
// or is taken away or put back that a run which has begun since may need.
func (c *reconciliation) upToDate(ctx context.Context) error {
	var now metav1.PartialObjectMetadata
	now.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("FleetMiniCluster"))
	if err := c.APIReader.Get(ctx, c.key(), &now); err != nil {
		return err
	}
	if now.UID != c.snapshot.Object.UID || now.ResourceVersion != c.snapshot.Object.ResourceVersion {
		return errStale
	}
	return nil
}
