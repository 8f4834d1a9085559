package fleetminicluster

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"github.com/minifleet/minifleet/api/v1alpha1"
)

// newcomers are the FleetMiniClusters that were created while this hub was looking, until it has begun a run of them: the
// hub knows without a question that none has had one. Those that were there when it started may have lost their ledger.
type newcomers struct {
	mu   sync.Mutex
	uids map[types.UID]bool
}

// predicate lets every event through, having taken note of what is new.
func (n *newcomers) predicate() predicate.Predicate {
	return predicate.Funcs{
		CreateFunc: func(e event.CreateEvent) bool {
			if !e.IsInInitialList {
				n.mu.Lock()
				defer n.mu.Unlock()
				if n.uids == nil {
					n.uids = map[types.UID]bool{}
				}
				n.uids[e.Object.GetUID()] = true
			}
			return true
		},
		DeleteFunc: func(e event.DeleteEvent) bool {
			n.forget(e.Object.GetUID())
			return true
		},
	}
}

func (n *newcomers) has(uid types.UID) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.uids[uid]
}

func (n *newcomers) forget(uid types.UID) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.uids, uid)
}

// hadNoRuns is false for one that has had no run for certain, else nil.
func (r *Reconciler) hadNoRuns(fmc *v1alpha1.FleetMiniCluster) *bool {
	if len(fmc.Status.Runs) > 0 {
		r.newcomers.forget(fmc.UID)
	}
	if r.newcomers.has(fmc.UID) {
		return ptr.To(false)
	}
	return nil
}
