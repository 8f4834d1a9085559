package fleetminicluster

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/clusters"
	"github.com/minifleet/minifleet/internal/plan"
	"github.com/minifleet/minifleet/internal/queue"
	"github.com/minifleet/minifleet/internal/runs"
	"github.com/minifleet/minifleet/internal/tenant"
)

// members are those that can be asked, by name.
type members map[string]*clusters.Member

// snapshot reads what the hub and the connections know. No member is asked.
func (r *Reconciler) snapshot(ctx context.Context, fmc *v1alpha1.FleetMiniCluster) (*plan.Snapshot, members, error) {
	spec, err := r.placementOf(ctx, fmc)
	if err != nil && !apierrors.IsNotFound(err) {
		return nil, nil, err
	}
	if err := r.restoreQueue(ctx); err != nil {
		return nil, nil, err
	}
	all := r.memberClusters.List()
	ns, err := r.namespaceOf(ctx, fmc)
	if err != nil {
		return nil, nil, err
	}
	highest, problem := r.readShares(ns, all)
	key := client.ObjectKeyFromObject(fmc)
	s := &plan.Snapshot{
		Object: fmc, NamespaceLabels: ns.Labels, Placement: spec, Now: r.Now(), Intervals: r.Intervals.Intervals, Policy: r.Policy,
		Facts: map[string]plan.Facts{}, HadRuns: r.hadRuns(fmc),
		Queue: plan.QueueState{
			Since: r.queue.Since(), Reserved: r.queue.Reservations(key), Pending: r.queue.Pending(key), Runs: r.queue.Runs(),
			MaxPriority: highest, Problem: problem,
		},
	}
	connected := members{}
	if r.Unasked != nil { // before the connections: a member is connected before it counts as asked
		s.Unasked = r.Unasked()
	}
	s.Members = make([]plan.Member, 0, len(all))
	for _, cluster := range all {
		s.Members = append(s.Members, plan.Member{Cluster: cluster, Connection: r.connection(ctx, cluster.Name, fmc, connected)})
	}
	elsewhere, others, err := r.elsewhere(ctx, fmc, all)
	if err != nil {
		return nil, nil, err
	}
	s.Members, s.Shard, s.Elsewhere = append(s.Members, elsewhere...), r.Elsewhere.Shard, others
	if spec == nil {
		s.PlacementShard, err = r.placementElsewhere(ctx, types.NamespacedName{Namespace: fmc.Namespace, Name: plan.PlacementName(fmc)})
		if err != nil {
			return nil, nil, err
		}
	}
	for i := range s.Members {
		name, c := s.Members[i].Cluster.Name, &s.Members[i].Connection
		if m := connected[name]; m != nil {
			if o := r.holds(ctx, m, types.NamespacedName{Namespace: c.Namespace, Name: fmc.Name}, fmc); o != nil {
				s.Facts[name] = plan.Facts{Cached: o}
			}
		}
	}
	slices.SortFunc(s.Members, func(a, b plan.Member) int { return strings.Compare(a.Cluster.Name, b.Cluster.Name) })
	return s, connected, nil
}

// namespaceOf is the namespace of a FleetMiniCluster, by whose labels MemberClusters select who may use them, and of which
// limits depend. One that the cache does not have yet is read from the hub: that it comes wakes nobody.
func (r *Reconciler) namespaceOf(ctx context.Context, fmc *v1alpha1.FleetMiniCluster) (*corev1.Namespace, error) {
	ns, key := &corev1.Namespace{}, client.ObjectKey{Name: fmc.Namespace}
	err := r.Client.Get(ctx, key, ns)
	if apierrors.IsNotFound(err) {
		err = client.IgnoreNotFound(r.APIReader.Get(ctx, key, ns))
	}
	if err != nil {
		return nil, fmt.Errorf("reading namespace %s: %w", fmc.Namespace, err)
	}
	ns.Name = fmc.Namespace
	return ns, nil
}

// readShares has the queue know what its order depends on of a namespace and of members, and says which priority counts
// there.
func (r *Reconciler) readShares(ns *corev1.Namespace, all []*v1alpha1.MemberCluster) (highest int32, problem string) {
	highest, problem = r.noteNamespace(ns)
	for _, member := range all {
		if r.queue.SetShares(member) {
			r.roomChanged(member.Name)
		}
	}
	return highest, problem
}

// noteNamespace has the queue know what its order depends on of a namespace.
func (r *Reconciler) noteNamespace(ns client.Object) (highest int32, problem string) {
	highest, problem = queue.MaxPriorityOf(ns.GetAnnotations(), r.DefaultMaxPriority)
	r.wake(r.queue.SetNamespace(ns.GetName(), queue.Namespace{Labels: ns.GetLabels(), MaxPriority: highest}))
	return highest, problem
}

// holds is the Job of a FleetMiniCluster that the cache of a member shows, whether or not the ledger knows of it; nil for
// none. The key is that of keyOn.
func (r *Reconciler) holds(ctx context.Context, m *clusters.Member, key types.NamespacedName, fmc *v1alpha1.FleetMiniCluster) *plan.Observation {
	ledger := runs.Ledger(fmc.Status.Runs)
	job := m.SharedJob(ctx, key, r.origin(fmc), known(ledger, m.Name)...)
	job = r.releases.newest(client.ObjectKeyFromObject(fmc), m.Name, job)
	if job == nil {
		return nil
	}
	return &plan.Observation{Job: recognize(job, r.origin(fmc), ledger, m.Name), Object: job}
}

// connection says how the hub is connected to a member, and adds it to those connected.
func (r *Reconciler) connection(ctx context.Context, name string, fmc *v1alpha1.FleetMiniCluster, connected members) plan.Connection {
	state, attempted := r.Provider.State(name)
	c := plan.Connection{
		Attempted: attempted, Ready: state.Ready, Reason: state.Reason, Message: state.Message,
		LastHeard: state.LastHeard, Since: state.Since,
	}
	if m, err := r.Provider.Member(name); err == nil {
		connected[name] = m
		c.Connected, c.UID = true, m.UID
		c.Namespace, c.NextNamespace = r.keyOn(ctx, m, fmc).Namespace, tenant.Target(&m.Spec, fmc.Namespace)
		c.Room, c.RoomError = m.RoomState(), m.RoomError()
	}
	return c
}

// keyOn is where the Job of a FleetMiniCluster is on a member.
func (r *Reconciler) keyOn(ctx context.Context, m *clusters.Member, fmc *v1alpha1.FleetMiniCluster) types.NamespacedName {
	return m.KeyOf(ctx, fmc, r.origin(fmc))
}

// placementOf is the placement of a FleetMiniCluster, or the error NotFound if it names one that is not there.
func (r *Reconciler) placementOf(ctx context.Context, fmc *v1alpha1.FleetMiniCluster) (*v1alpha1.PlacementSpec, error) {
	if fmc.Spec.Placement != nil {
		return fmc.Spec.Placement, nil
	}
	var placement v1alpha1.Placement
	key := types.NamespacedName{Namespace: fmc.Namespace, Name: plan.PlacementName(fmc)}
	if err := r.Client.Get(ctx, key, &placement); err != nil {
		return nil, fmt.Errorf("reading Placement %s: %w", key, err)
	}
	return &placement.Spec, nil
}

// restoreQueue fills the queue from the ledgers after a restart of the hub.
func (r *Reconciler) restoreQueue(ctx context.Context) error {
	return r.queue.Restore(r.Now(), func() ([]queue.Restored, error) {
		var list v1alpha1.FleetMiniClusterList
		if err := r.Client.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
			return nil, fmt.Errorf("listing FleetMiniClusters: %w", err)
		}
		var members v1alpha1.MemberClusterList
		if err := r.Client.List(ctx, &members, client.UnsafeDisableDeepCopy); err != nil {
			return nil, fmt.Errorf("listing MemberClusters: %w", err)
		}
		var namespaces corev1.NamespaceList
		if err := r.Client.List(ctx, &namespaces, client.UnsafeDisableDeepCopy); err != nil {
			return nil, fmt.Errorf("listing Namespaces: %w", err)
		}
		for i := range namespaces.Items {
			r.noteNamespace(&namespaces.Items[i])
		}
		labels := map[string]map[string]string{}
		for i := range members.Items {
			labels[members.Items[i].Name] = members.Items[i].Labels
			r.queue.SetShares(&members.Items[i])
		}
		var out []queue.Restored
		for i := range list.Items {
			spec, err := r.placementOf(ctx, &list.Items[i])
			if err != nil {
				spec = nil
			}
			out = append(out, plan.Restore(&list.Items[i], spec, labels))
		}
		return out, nil
	})
}
