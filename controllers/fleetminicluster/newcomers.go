package fleetminicluster

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/internal/plan"
)

// newFor is for how long an object counts as made just now. Of one whose event comes later the hub is asked.
const newFor = time.Minute

// newcomers are the FleetMiniClusters that were created while this hub was leading, until a run of them has begun: the
// hub knows without a question that none has had one, but for what an earlier one of its name may have left (curvesecret.MayBeLeft).
// Those that were there when it started may have lost their ledger.
type newcomers struct {
	now func() time.Time
	// leading is closed when this process leads; nil is always. What comes before, whoever leads may have begun.
	leading <-chan struct{}

	mu sync.Mutex
	// isNew has all that have come, and whether they are newcomers: what has once been known of one is not found out again.
	isNew map[types.UID]bool
}

// added takes note of what comes, before it is reconciled, so that nothing is asked for which is about to be known. It may be
// told of the same object several times, and of one that was there before any handler of this controller it is told so.
func (n *newcomers) added(obj any, isInInitialList bool) {
	fmc, ok := obj.(*v1alpha1.FleetMiniCluster)
	if !ok || !n.leads() {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if _, known := n.isNew[fmc.UID]; !known || isInInitialList {
		n.set(fmc.UID, !isInInitialList && n.madeJustNow(fmc))
	}
}

func (n *newcomers) leads() bool {
	if n.leading == nil {
		return true
	}
	select {
	case <-n.leading:
		return true
	default:
		return false
	}
}

// predicate lets every event through, having taken note of what it says.
func (n *newcomers) predicate() predicate.Predicate {
	return predicate.Funcs{
		CreateFunc: func(e event.CreateEvent) bool {
			if fmc, ok := e.Object.(*v1alpha1.FleetMiniCluster); ok && !plan.KnowsNoRun(fmc) {
				n.forget(fmc.UID)
			}
			return true
		},
		UpdateFunc: func(e event.UpdateEvent) bool {
			if fmc, ok := e.ObjectNew.(*v1alpha1.FleetMiniCluster); ok && !plan.KnowsNoRun(fmc) {
				n.forget(fmc.UID) // another hub may have begun it, which this one has succeeded
			}
			return true
		},
		DeleteFunc: func(e event.DeleteEvent) bool {
			n.mu.Lock()
			defer n.mu.Unlock()
			delete(n.isNew, e.Object.GetUID())
			return true
		},
	}
}

// madeJustNow says whether an object that has come was made just now, and was not of another shard before.
func (n *newcomers) madeJustNow(fmc *v1alpha1.FleetMiniCluster) bool {
	return fmc.Status.ObservedGeneration == 0 && n.now().Sub(fmc.CreationTimestamp.Time) < newFor
}

func (n *newcomers) set(uid types.UID, is bool) {
	if n.isNew == nil {
		n.isNew = map[types.UID]bool{}
	}
	n.isNew[uid] = is
}

func (n *newcomers) has(uid types.UID) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.isNew[uid]
}

func (n *newcomers) forget(uid types.UID) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.set(uid, false)
}

// hadRuns is false for one that has had no run for certain, true for one that may have had some which its status does not
// tell of, and nil where the hub is to be asked.
func (r *Reconciler) hadRuns(fmc *v1alpha1.FleetMiniCluster) *bool {
	switch {
	case wasPutBack(fmc):
		return ptr.To(true)
	case r.isNewcomer(fmc):
		return ptr.To(false)
	}
	return nil
}

// isNewcomer says whether it is known without a question that there is no run, be it one that an earlier FleetMiniCluster of the name
// has left.
func (r *Reconciler) isNewcomer(fmc *v1alpha1.FleetMiniCluster) bool {
	return r.newcomers.has(fmc.UID) && !r.keys.MayBeLeft(client.ObjectKeyFromObject(fmc))
}

// wasPutBack says that an object was made from a backup without its status, by a tool that says so.
func wasPutBack(fmc *v1alpha1.FleetMiniCluster) bool {
	return fmc.Labels[v1alpha1.LabelVeleroRestore] != ""
}
