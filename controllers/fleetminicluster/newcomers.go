package fleetminicluster

import (
	"context"
	"fmt"
	"sync"

	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/cache"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/internal/plan"
)

// newcomers are the FleetMiniClusters that were created while this hub was looking, until a run of them has begun: the
// hub knows without a question that none has had one. Those that were there when it started may have lost their ledger.
type newcomers struct {
	mu   sync.Mutex
	uids map[types.UID]bool
}

// watch takes note of what comes. Events of a controller do not say what was there before.
func (n *newcomers) watch(ctx context.Context, c cache.Cache) error {
	informer, err := c.GetInformer(ctx, &v1alpha1.FleetMiniCluster{}, cache.BlockUntilSynced(false))
	if err != nil {
		return fmt.Errorf("watching FleetMiniClusters: %w", err)
	}
	_, err = informer.AddEventHandler(n.handler())
	return err
}

func (n *newcomers) handler() toolscache.ResourceEventHandler {
	return toolscache.ResourceEventHandlerDetailedFuncs{
		AddFunc: func(obj any, isInInitialList bool) {
			if fmc, ok := obj.(*v1alpha1.FleetMiniCluster); ok && !isInInitialList {
				n.add(fmc.UID)
			}
		},
		UpdateFunc: func(_, obj any) {
			if fmc, ok := obj.(*v1alpha1.FleetMiniCluster); ok && !plan.KnowsNoRun(fmc) {
				n.forget(fmc.UID) // another hub may have begun it, of which this one is the standby
			}
		},
		DeleteFunc: func(obj any) {
			if unknown, ok := obj.(toolscache.DeletedFinalStateUnknown); ok {
				obj = unknown.Obj
			}
			if fmc, ok := obj.(*v1alpha1.FleetMiniCluster); ok {
				n.forget(fmc.UID)
			}
		},
	}
}

func (n *newcomers) add(uid types.UID) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.uids == nil {
		n.uids = map[types.UID]bool{}
	}
	n.uids[uid] = true
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
	if r.newcomers.has(fmc.UID) {
		return ptr.To(false)
	}
	return nil
}
