package membercluster

import (
	"context"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/clusters"
)

// heldElsewhere says why a member that another shard has used may not be connected yet; nil where it may. Of that nothing is
// asked of the member itself.
func (r *Reconciler) heldElsewhere(ctx context.Context, member *v1alpha1.MemberCluster) (*clusters.Error, error) {
	if member.Status.ClusterUID == "" || member.Status.Shard == r.Elsewhere.Shard {
		return nil, nil //nolint:nilnil // nobody else has used it last
	}
	var list v1alpha1.FleetMiniClusterList
	if err := r.APIReader.List(ctx, &list); err != nil {
		return nil, fmt.Errorf("listing FleetMiniClusters on the hub: %w", err)
	}
	live := liveOn(ofOthers(list.Items, r.Elsewhere.Shard), member.Name)
	if len(live) == 0 {
		return nil, nil //nolint:nilnil // it is free
	}
	return &clusters.Error{Reason: v1alpha1.ReasonOtherShard, Err: fmt.Errorf(
		"this member was of %s, and is labelled for %s while there %s: nothing is asked of it before these have ended; put the label back (kubectl label --overwrite mcl %s %s), drain the member, and label it then",
		v1alpha1.ShardName(member.Status.Shard), v1alpha1.ShardName(r.Elsewhere.Shard), describeLive(live), member.Name, v1alpha1.ShardArgument(member.Status.Shard))}, nil
}

// setShard records the shard of this process on a member that it uses.
func setShard(member *v1alpha1.MemberCluster, state clusters.State, shard string) {
	if state.Ready && state.UID != "" && state.UID == member.Status.ClusterUID {
		member.Status.Shard = shard
	}
}

// ofOthers are the FleetMiniClusters that are not of a shard.
func ofOthers(all []v1alpha1.FleetMiniCluster, shard string) []v1alpha1.FleetMiniCluster {
	return slices.DeleteFunc(all, func(f v1alpha1.FleetMiniCluster) bool { return v1alpha1.ShardOf(&f) == shard })
}

// TakeOver says why a member may not be used that has recorded another shard of this hub; nil if it may. The hub itself is
// asked. The error is a *clusters.Error.
func (r *Reconciler) TakeOver(ctx context.Context, name, uid string) error {
	unknown := func(err error) error {
		return &clusters.Error{Reason: v1alpha1.ReasonUnreachable, Err: fmt.Errorf("the hub could not find out of which shard the member is: %w", err)}
	}
	var member v1alpha1.MemberCluster
	if err := r.APIReader.Get(ctx, client.ObjectKey{Name: name}, &member); client.IgnoreNotFound(err) != nil {
		return unknown(err)
	}
	if member.UID == "" || v1alpha1.ShardOf(&member) != r.Elsewhere.Shard {
		return &clusters.Error{Reason: v1alpha1.ReasonOtherShard, Err: fmt.Errorf(
			"the member is not of %s any more", v1alpha1.ShardName(r.Elsewhere.Shard))}
	}
	held, err := r.heldElsewhere(ctx, &member)
	if err != nil {
		return unknown(err)
	}
	if held != nil {
		return held
	}
	refused, err := r.refuse(ctx, r.APIReader, &member, uid)
	if err != nil {
		return unknown(err)
	}
	if refused != nil {
		return refused
	}
	return nil
}

// againElsewhere is when to reconcile a member again that waits for what another shard does, of which no event tells; 0: not.
func (r *Reconciler) againElsewhere(ctx context.Context, state clusters.State) (time.Duration, error) {
	switch state.Reason {
	case v1alpha1.ReasonOtherShard:
		return r.Intervals.Away, nil
	case v1alpha1.ReasonDuplicateCluster, v1alpha1.ReasonIdentityClaimed:
		others, err := r.Elsewhere.List(ctx)
		if len(others) > 0 {
			return r.Intervals.Away, err
		}
		return 0, err
	default:
		return 0, nil
	}
}

// absent disconnects a member that the cache has no MemberCluster of. One that the hub itself has is of another shard now, and
// stays in the fleet.
func (r *Reconciler) absent(ctx context.Context, name string) error {
	if _, connected := r.Provider.State(name); !connected {
		return nil
	}
	var member metav1.PartialObjectMetadata
	member.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("MemberCluster"))
	err := r.APIReader.Get(ctx, client.ObjectKey{Name: name}, &member)
	switch {
	case apierrors.IsNotFound(err):
		return r.removed(ctx, name)
	case err != nil:
		return fmt.Errorf("reading MemberCluster %s: %w", name, err)
	case v1alpha1.ShardOf(&member) != r.Elsewhere.Shard:
		r.Provider.Remove(name)
	}
	return nil
}

// registered are the MemberClusters of all shards, by a reader: those of others as they are cached, where it has its own alone.
func (r *Reconciler) registered(ctx context.Context, from client.Reader) ([]v1alpha1.MemberCluster, error) {
	var all v1alpha1.MemberClusterList
	if err := from.List(ctx, &all); err != nil {
		return nil, err
	}
	others, err := r.Elsewhere.List(ctx)
	if err != nil {
		return nil, err
	}
	for i := range others {
		if !slices.ContainsFunc(all.Items, func(m v1alpha1.MemberCluster) bool { return m.Name == others[i].Name }) {
			all.Items = append(all.Items, *others[i].DeepCopy())
		}
	}
	return all.Items, nil
}
