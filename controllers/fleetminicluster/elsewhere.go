package fleetminicluster

import (
	"context"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/internal/plan"
)

// elsewhere are the members of other shards that may hold something of a FleetMiniCluster: they, or it, have got another label
// since. To it they are registered and cannot be asked, so that nothing is begun in place of what they may run. It says besides
// how many members are of other shards.
func (r *Reconciler) elsewhere(ctx context.Context, fmc *v1alpha1.FleetMiniCluster, own []*v1alpha1.MemberCluster) (out []plan.Member, all int, err error) {
	foreign, err := r.Elsewhere.List(ctx)
	if err != nil {
		return nil, 0, err
	}
	isOwn := func(name string) bool {
		return slices.ContainsFunc(own, func(m *v1alpha1.MemberCluster) bool { return m.Name == name })
	}
	// The hub is asked for those alone that may hold something: of members that are no longer registered many have had runs.
	names, had := append(plan.MayHold(fmc), fmc.Status.Unasked...), mayHaveHad(fmc)
	for i := range foreign {
		if slices.Contains(had, foreign[i].Name) || remembers(&foreign[i], fmc) {
			names = append(names, foreign[i].Name)
		}
	}
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		if isOwn(name) {
			continue
		}
		m, err := r.Elsewhere.Find(ctx, name)
		if err != nil {
			return nil, 0, err
		}
		if m != nil {
			out = append(out, plan.Member{Cluster: m, Connection: r.connectionElsewhere(m)})
		}
	}
	return out, len(foreign), nil
}

// connectionElsewhere is that to a member of another shard. One of this shard has just come, and is about to be connected.
func (r *Reconciler) connectionElsewhere(m *v1alpha1.MemberCluster) plan.Connection {
	shard := v1alpha1.ShardOf(m)
	if shard == r.Elsewhere.Shard {
		return plan.Connection{}
	}
	return plan.Connection{Attempted: true, Reason: v1alpha1.ReasonOtherShard, Message: fmt.Sprintf(
		"it is of %s, and this FleetMiniCluster of %s, whose controller cannot ask it: give them the same label (kubectl label --overwrite mcl %s %s)",
		v1alpha1.ShardName(shard), v1alpha1.ShardName(r.Elsewhere.Shard), m.Name, v1alpha1.ShardArgument(r.Elsewhere.Shard))}
}

// mayHaveHad are the members that the status of a FleetMiniCluster names.
func mayHaveHad(fmc *v1alpha1.FleetMiniCluster) []string {
	names := append(plan.MayHold(fmc), plan.HaveRecords(fmc)...)
	for i := range fmc.Status.Runs {
		names = append(names, fmc.Status.Runs[i].Cluster)
	}
	return append(names, fmc.Status.Unasked...)
}

// remembers says whether the status of a MemberCluster tells of something that a FleetMiniCluster of this name may have left.
func remembers(m *v1alpha1.MemberCluster, fmc *v1alpha1.FleetMiniCluster) bool {
	owner := fmc.Namespace + "/" + fmc.Name
	return len(m.Status.UnownedJobs) >= v1alpha1.MaxUnownedJobs ||
		slices.ContainsFunc(m.Status.Orphans, func(o v1alpha1.Orphan) bool { return o.Owner == owner }) ||
		slices.ContainsFunc(m.Status.UnownedJobs, func(j v1alpha1.UnownedJob) bool { return j.Owner == owner })
}

// memberCluster is that of a name, be it of another shard; nil where the hub has none.
func (r *Reconciler) memberCluster(ctx context.Context, name string) (*v1alpha1.MemberCluster, error) {
	var member v1alpha1.MemberCluster
	err := r.Client.Get(ctx, client.ObjectKey{Name: name}, &member)
	if apierrors.IsNotFound(err) {
		return r.Elsewhere.Find(ctx, name)
	}
	if err != nil {
		return nil, fmt.Errorf("reading MemberCluster %s: %w", name, err)
	}
	return &member, nil
}

// registered says whether there is a MemberCluster of a name, be it of another shard, as far as is cached.
func (r *Reconciler) registered(ctx context.Context, name string) (bool, error) {
	err := r.Client.Get(ctx, client.ObjectKey{Name: name}, &v1alpha1.MemberCluster{})
	if !apierrors.IsNotFound(err) {
		return err == nil, err
	}
	foreign, err := r.Elsewhere.List(ctx)
	return slices.ContainsFunc(foreign, func(m v1alpha1.MemberCluster) bool { return m.Name == name }), err
}

// placementElsewhere is the shard of a Placement that the cache does not have; nil where the hub has none, or it has just come.
func (r *Reconciler) placementElsewhere(ctx context.Context, key types.NamespacedName) (*string, error) {
	var placement metav1.PartialObjectMetadata
	placement.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("Placement"))
	if err := r.APIReader.Get(ctx, key, &placement); err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	if shard := v1alpha1.ShardOf(&placement); shard != r.Elsewhere.Shard {
		return &shard, nil
	}
	return nil, nil //nolint:nilnil // it is of this one
}

// exists says whether the hub itself has a FleetMiniCluster, whatever its shard.
func (r *Reconciler) exists(ctx context.Context, key types.NamespacedName, uid types.UID) (bool, error) {
	var fmc metav1.PartialObjectMetadata
	fmc.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("FleetMiniCluster"))
	err := r.APIReader.Get(ctx, key, &fmc)
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	return err == nil && fmc.UID == uid, err
}
