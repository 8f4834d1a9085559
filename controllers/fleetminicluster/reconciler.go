// Package fleetminicluster puts MiniClusters on members and reports how they do.
//
// In come FleetMiniClusters, Placements, MemberClusters and grants on the hub, and what members have; out go objects
// on members, and one status per FleetMiniCluster. Each reconciliation reads a snapshot, asks package plan what is to be
// done, does it, and writes the status once:
//
//	reconcile.go    plan, reserve, write the ledger, execute, until nothing more is to be done
//	snapshot.go     what the hub and the connections say
//	elsewhere.go    what concerns it of other shards
//	read.go         what is read of members, as far as the plan asks for it; job.go reduces a Job, errors.go an error
//	execute.go      steps on members: create (start.go), adjust, delete, clean up; releases.go keeps what they answer to that
//	                until their caches have it
//	upkeep.go       what is seen to beside a run: drift, services, what is left after its end; health.go asks why pods are
//	                not ready
//	intervals.go    how often something is done although nothing happens
//	references      a package: Secrets and ConfigMaps that the MiniCluster names
//	status.go       the one write of the status, and its events; pending.go is about those that wait for the next
//	finalize.go     deletion; orphan.go writes down what it cannot remove
//	stale.go        Jobs of stale requests
//	keys.go         CURVE certificates, beside what controllers/internal/curvesecret does
//	watches.go      what leads to a reconciliation; hold.go, what does not while the hub starts
//	measure.go      what of all this is counted (controllers/internal/metrics)
//	reconciler.go   what lives as long as the controller; reconciliation.go, as long as one reconciliation
package fleetminicluster

import (
	"context"
	"sync"
	"time"

	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/clusters"
	"github.com/minifleet/minifleet/controllers/fleetminicluster/references"
	"github.com/minifleet/minifleet/controllers/internal/commits"
	"github.com/minifleet/minifleet/controllers/internal/curvesecret"
	"github.com/minifleet/minifleet/controllers/internal/enforcement"
	"github.com/minifleet/minifleet/controllers/internal/expectations"
	"github.com/minifleet/minifleet/controllers/internal/hubcache"
	"github.com/minifleet/minifleet/controllers/internal/hubobjects"
	"github.com/minifleet/minifleet/controllers/internal/inflight"
	"github.com/minifleet/minifleet/controllers/internal/metrics"
	"github.com/minifleet/minifleet/controllers/internal/probes"
	"github.com/minifleet/minifleet/controllers/internal/shards"
	"github.com/minifleet/minifleet/internal/fleet"
	"github.com/minifleet/minifleet/internal/policy"
	"github.com/minifleet/minifleet/internal/queue"
	"github.com/minifleet/minifleet/internal/tenant"
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
	// Elsewhere are the MemberClusters of other shards.
	Elsewhere *shards.Members
	// FleetID is the identity of the fleet.
	FleetID string
	// HubUID is the UID of the hub's kube-system namespace.
	HubUID string
	// Namespace is the manager's own.
	Namespace string
	// Reserved are the namespaces of members that nobody uses.
	Reserved tenant.Reserved
	// Unasked are the members, registered or not, of which it is not known what they hold of this fleet.
	Unasked  func() []string
	Recorder events.EventRecorder
	Now      func() time.Time
	// FollowInterval is how often the hub's Secrets and ConfigMaps that live runs have copies of are read.
	FollowInterval time.Duration
	// Intervals are the default ones where this is zero.
	Intervals Intervals
	// InFlight tracks reconciliations, for the MemberCluster controller.
	InFlight *inflight.Tracker
	// DefaultMaxPriority is the highest priority that counts among those of other namespaces, where a namespace says nothing.
	DefaultMaxPriority int32
	// Policy is what takes a permission, Enforcement whether what GitSources allow counts.
	Policy      policy.Rules
	Enforcement *enforcement.Checker
	// Arrivals say when commits were first known; nil where that is not measured.
	Arrivals *metrics.Arrivals
	// Commits are told when an object of one was reconciled; nil where nobody waits for that.
	Commits *commits.Tracker
	// Queue is an empty one, for those who tell people who waits; nil makes one.
	Queue *queue.Queue
}

// Reconciler reconciles FleetMiniClusters.
type Reconciler struct {
	Options

	queue        *queue.Queue
	probes       probes.Probes
	expectations expectations.Expectations
	recorded     recorded
	newcomers    newcomers
	pending      pendingStatuses
	releases     releases
	vanished     vanished
	references   *references.Keeper
	keys         *curvesecret.Store
	// memberClusters lists those of the hub's cache.
	memberClusters *hubcache.Lister[*v1alpha1.MemberCluster]
	// roomChanged has those reconciled whom the room of a member concerns.
	roomChanged func(member string)
	placeholder func() []byte
}

// New returns a Reconciler.
func New(o Options) *Reconciler {
	if o.Intervals == (Intervals{}) {
		o.Intervals = DefaultIntervals()
	}
	if o.Queue == nil {
		o.Queue = queue.New()
	}
	r := &Reconciler{
		Options: o, queue: o.Queue, probes: probes.Probes{Intervals: o.Intervals.Probes},
		roomChanged: func(string) {}, placeholder: sync.OnceValue(curvesecret.Placeholder),
	}
	r.newcomers.now = o.Now
	r.keys = &curvesecret.Store{Client: o.Client, Reader: o.APIReader, Namespace: o.Namespace}
	r.vanished.deleted = r.keys.Deleted
	r.references = &references.Keeper{
		Hub: hubobjects.New(o.APIReader, o.Namespace, o.FollowInterval, o.Now), Client: o.Client, Provider: o.Provider,
		FleetID: o.FleetID, HubUID: o.HubUID, Interval: o.FollowInterval, Deleted: r.deleted,
	}
	return r
}

// origin is what marks everything of a FleetMiniCluster on members.
func (r *Reconciler) origin(fmc *v1alpha1.FleetMiniCluster) fleet.Origin {
	return fleet.Origin{FleetID: r.FleetID, Owner: fmc.Namespace + "/" + fmc.Name, OwnerUID: string(fmc.UID)}
}

// user is a FleetMiniCluster as the user of copies on members.
func (r *Reconciler) user(fmc *v1alpha1.FleetMiniCluster) references.User {
	return references.User{Origin: r.origin(fmc), Namespace: fmc.Namespace, On: func(ctx context.Context, m *clusters.Member) string {
		return r.keyOn(ctx, m, fmc).Namespace
	}}
}

// wake has those reconciled that may have room on these members now.
func (r *Reconciler) wake(members []string) {
	for _, member := range members {
		r.roomChanged(member)
	}
}
