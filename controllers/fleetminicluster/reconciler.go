// Package fleetminicluster puts MiniClusters on members and reports how they do.
//
// In come FleetMiniClusters, Placements, MemberClusters and grants on the hub, and what members have; out go objects
// on members, and one status per FleetMiniCluster. Each reconciliation reads a snapshot, asks package plan what is to be
// done, does it, and writes the status once:
//
//	snapshot.go     what the hub and the connections say
//	read.go         what is read of members, as far as the plan asks for it
//	reconcile.go    plan, reserve, write the ledger, execute, until nothing more is to be done
//	execute.go      steps on members: create, adjust, delete, clean up
//	start.go        the creation of a run
//	upkeep.go       what is seen to beside a run: drift, services, what is left after its end
//	health.go       why pods of live runs are not ready
//	references      a package: Secrets and ConfigMaps that the MiniCluster names
//	status.go       the one write of the status, and its events
//	finalize.go     deletion; orphan.go writes down what it cannot remove
//	stale.go        Jobs of stale requests
//	watches.go      what leads to a reconciliation
package fleetminicluster

import (
	"context"
	"errors"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	mcreconcile "sigs.k8s.io/multicluster-runtime/pkg/reconcile"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/clusters"
	"github.com/minifleet/minifleet/controllers/fleetminicluster/references"
	"github.com/minifleet/minifleet/controllers/internal/curvesecret"
	"github.com/minifleet/minifleet/controllers/internal/expectations"
	"github.com/minifleet/minifleet/controllers/internal/hubobjects"
	"github.com/minifleet/minifleet/controllers/internal/inflight"
	"github.com/minifleet/minifleet/controllers/internal/probes"
	"github.com/minifleet/minifleet/controllers/internal/retry"
	"github.com/minifleet/minifleet/internal/fleet"
	"github.com/minifleet/minifleet/internal/queue"
)

// +kubebuilder:rbac:groups=minifleet.dev,resources=fleetminiclusters,verbs=get;list;watch;update
// +kubebuilder:rbac:groups=minifleet.dev,resources=fleetminiclusters/status,verbs=update
// +kubebuilder:rbac:groups=minifleet.dev,resources=fleetminiclusters/finalizers,verbs=update
// +kubebuilder:rbac:groups=minifleet.dev,resources=placements,verbs=get;list;watch

// Options of the Reconciler.
type Options struct {
	Client client.Client
	// APIReader reads the hub itself, where the cache may be behind.
	APIReader client.Reader
	Provider  *clusters.Provider
	// HubUID is the UID of the hub's kube-system namespace.
	HubUID   string
	Recorder events.EventRecorder
	Now      func() time.Time
	// FollowInterval is how often the hub's Secrets and ConfigMaps that live runs have copies of are read.
	FollowInterval time.Duration
	// InFlight tracks reconciliations, for the MemberCluster controller.
	InFlight *inflight.Tracker
}

// Reconciler reconciles FleetMiniClusters.
type Reconciler struct {
	Options

	queue        *queue.Queue
	probes       probes.Probes
	expectations expectations.Expectations
	references   *references.Keeper
	// roomChanged has those reconciled whom the room of a member concerns.
	roomChanged func(member string)
	placeholder func() []byte
}

// New returns a Reconciler.
func New(o Options) *Reconciler {
	r := &Reconciler{Options: o, queue: queue.New(), roomChanged: func(string) {}, placeholder: sync.OnceValue(curvesecret.Placeholder)}
	r.references = &references.Keeper{
		Hub: hubobjects.New(o.APIReader, o.FollowInterval, o.Now), Client: o.Client, Provider: o.Provider,
		HubUID: o.HubUID, Interval: o.FollowInterval, Deleted: r.deleted,
	}
	return r
}

// origin is what marks everything of a FleetMiniCluster on members.
func (r *Reconciler) origin(fmc *v1alpha1.FleetMiniCluster) fleet.Origin {
	return fleet.Origin{HubUID: r.HubUID, Owner: fmc.Namespace + "/" + fmc.Name, OwnerUID: string(fmc.UID)}
}

// Reconcile brings one FleetMiniCluster forward as far as it goes without waiting.
func (r *Reconciler) Reconcile(ctx context.Context, req mcreconcile.Request) (reconcile.Result, error) {
	defer r.InFlight.Start()()
	fmc := &v1alpha1.FleetMiniCluster{}
	if err := r.Client.Get(ctx, req.NamespacedName, fmc); err != nil {
		if apierrors.IsNotFound(err) {
			err = r.forget(ctx, req.NamespacedName)
		}
		return reconcile.Result{}, err
	}
	fmc = r.expectations.Newest(fmc)
	if !fmc.DeletionTimestamp.IsZero() {
		r.wake(r.queue.Dequeue(req.NamespacedName))
		return r.finalize(ctx, fmc)
	}
	if controllerutil.AddFinalizer(fmc, v1alpha1.Finalizer) {
		// Before anything is created on a member, so that nothing can be left behind there.
		if err := r.Client.Update(ctx, fmc); err != nil {
			return retry.OnConflict(err)
		}
	}
	return r.reconcile(ctx, fmc)
}

// forget drops what is remembered of a FleetMiniCluster that was deleted, and removes what has come to members since.
func (r *Reconciler) forget(ctx context.Context, key types.NamespacedName) error {
	r.wake(r.queue.Release(key))
	r.probes.Forget(key)
	return errors.Join(r.references.ReleaseDeleted(ctx, key), r.removeAllStale(ctx, key))
}

// user is a FleetMiniCluster as the user of copies on members.
func (r *Reconciler) user(fmc *v1alpha1.FleetMiniCluster) references.User {
	return references.User{Origin: r.origin(fmc), Namespace: fmc.Namespace}
}

// wake has those reconciled that may have room on these members now.
func (r *Reconciler) wake(members []string) {
	for _, member := range members {
		r.roomChanged(member)
	}
}
