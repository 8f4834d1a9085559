// Package membercluster reconciles MemberClusters. What comes in are a MemberCluster, its kubeconfig or ClusterProfile, what its
// connection says and the ledgers of all FleetMiniClusters; what goes out are connections, the MemberCluster's
// status, and a member from which everything of MiniFleet is removed once its MemberCluster is deleted.
//
//	start.go     all members and ledgers, when the hub starts -> connections, what has live runs first
//	connect.go   kubeconfig or ClusterProfile -> connection
//	profiles.go  ClusterProfiles of the hub -> how to reach a member
//	identity.go  cluster UIDs -> which member may be which cluster, and which are quarantined
//	shard.go     a MemberCluster that comes from another shard, or goes to one -> whether this process may use it
//	drain.go     ledgers -> which runs are live on a member that is drained or deleted, and whether none can begin
//	deletion.go  a drained member whose MemberCluster is deleted -> nothing of MiniFleet there, no finalizer
//	orphans.go   what deleted FleetMiniClusters have left there -> nothing
//	unowned.go   live Jobs of this fleet on a member, and all FleetMiniClusters -> the Jobs that none of them owns
//	status.go    all of these -> status and events
//	fleet.go     a MemberCluster that is deleted, or whose member a person declares to have nothing live -> what is known of the fleet
//	watches.go   what has which MemberClusters reconciled
package membercluster

import (
	"context"
	"errors"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/clusters"
	"github.com/minifleet/minifleet/controllers/internal/inflight"
	"github.com/minifleet/minifleet/controllers/internal/retry"
	"github.com/minifleet/minifleet/controllers/internal/shards"
	"github.com/minifleet/minifleet/internal/sanitize"
)

// +kubebuilder:rbac:groups=minifleet.dev,resources=memberclusters,verbs=get;list;watch;update
// +kubebuilder:rbac:groups=minifleet.dev,resources=memberclusters/status,verbs=update
// +kubebuilder:rbac:groups=minifleet.dev,resources=memberclusters/finalizers,verbs=update

// Reconciler keeps the connection to each member, and reports on it.
type Reconciler struct {
	Client client.Client
	Cache  client.Reader
	// APIReader reads the hub itself, where the cache may be behind.
	APIReader client.Reader
	Provider  *clusters.Provider
	// Elsewhere are the MemberClusters of other shards than that of this process.
	Elsewhere *shards.Members
	// Namespace is the manager's own, which holds the kubeconfigs.
	Namespace string
	// Profiles are the hub's ClusterProfiles; nil where no credential plugins are configured.
	Profiles *ClusterProfiles
	FleetID  string
	// Identity is that of the fleet, whose members it lists.
	Identity Identity
	Recorder events.EventRecorder
	Now      func() time.Time
	// Intervals must be set.
	Intervals Intervals
	// InFlight are the reconciliations of FleetMiniClusters.
	InFlight *inflight.Tracker

	// drains has, by the UID of a member that is drained or being deleted, how far that has got (*drainProgress).
	drains sync.Map
	// claims has, by the name of a member that claims the identity of another one, the name of that.
	claims sync.Map
	// started is closed when all members were begun to be connected; nil where there is no start (start.go).
	started chan struct{}
}

// Identity is that of the fleet.
type Identity interface {
	// Declare says whether a person has declared that nothing of the fleet is live on a member.
	Declare(member string, nothingLive bool)
	// Forget takes a member out of the fleet.
	Forget(ctx context.Context, member string) error
	// Refresh learns what people have changed, and says when to do so again; 0: not.
	Refresh(ctx context.Context) (again time.Duration, err error)
}

// Reconcile connects one member, or disconnects it, and writes its status.
func (r *Reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	if err := r.beginning(ctx); err != nil {
		return reconcile.Result{}, err
	}
	var member v1alpha1.MemberCluster
	if err := r.Client.Get(ctx, req.NamespacedName, &member); err != nil {
		if apierrors.IsNotFound(err) {
			return reconcile.Result{}, r.absent(ctx, req.Name)
		}
		return reconcile.Result{}, err
	}
	deleting := !member.DeletionTimestamp.IsZero()
	switch {
	case !deleting && controllerutil.AddFinalizer(&member, v1alpha1.Finalizer):
		// Before anything is created on the member, so that nothing can be left behind there unseen.
		if err := r.Client.Update(ctx, &member); err != nil {
			return retry.OnConflict(err)
		}
	case deleting && !controllerutil.ContainsFinalizer(&member, v1alpha1.Finalizer):
		r.Provider.Remove(req.Name) // it is still there for the sake of others
		return reconcile.Result{}, nil
	case deleting && member.Spec.DeletionPolicy == v1alpha1.DeletionOrphan:
		return r.orphanAll(ctx, &member)
	}
	return r.reconcile(ctx, &member)
}

// reconcile keeps one member connected, and removes what is to be removed from it.
func (r *Reconciler) reconcile(ctx context.Context, member *v1alpha1.MemberCluster) (reconcile.Result, error) {
	r.Identity.Declare(member.Name, isDeclared(member, r.Now()))
	state, err := r.connect(ctx, member)
	if err != nil {
		return reconcile.Result{}, err
	}
	state.Message = sanitize.Text(state.Message, sanitize.MaxNote) // some of it is the member's own
	drained, err := r.drain(ctx, member)
	if err != nil {
		return reconcile.Result{}, err
	}
	removed, removeErr := r.remove(ctx, member, drained, state)
	jobs, err := r.unownedJobs(ctx, member)
	if err != nil {
		return reconcile.Result{}, errors.Join(err, removeErr)
	}
	if err := r.report(ctx, member, state, drained, removed, jobs); err != nil {
		return retry.OnConflict(err)
	}
	orphansAgain, err := r.removeOrphans(ctx, member)
	refreshAgain, refreshErr := r.Identity.Refresh(ctx)
	if err = errors.Join(err, removeErr, refreshErr); err != nil {
		return reconcile.Result{}, err
	}
	if removed.complete(member.Status.Orphans) {
		if err := r.release(ctx, member.Name); err != nil {
			return reconcile.Result{}, err
		}
		return r.removeFinalizer(ctx, member, corev1.EventTypeNormal, v1alpha1.ReasonCleanedUp, "everything of MiniFleet is removed from the member")
	}
	elsewhereAgain, err := r.againElsewhere(ctx, state)
	return reconcile.Result{RequeueAfter: soonest(orphansAgain, drained.requeueAfter(), removed.again, refreshAgain, elsewhereAgain)}, err
}

// soonest is the shortest of some delays, of which 0 stands for none.
func soonest(delays ...time.Duration) time.Duration {
	var out time.Duration
	for _, d := range delays {
		if out == 0 || d > 0 && d < out {
			out = d
		}
	}
	return out
}
