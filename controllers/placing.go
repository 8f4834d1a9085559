package controllers

import (
	"context"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/internal/placement"
	"github.com/minifleet/minifleet/internal/rollup"
	"github.com/minifleet/minifleet/internal/runs"
)

// mostTold is how many members a decision tells about, of those chosen and of those rejected.
const mostTold = 20

// place decides which members are chosen. Members that have a run for what is wanted stay chosen.
func (p *pass) place(ctx context.Context, members []v1alpha1.MemberCluster) error {
	spec, err := p.placementSpec(ctx)
	if err != nil || spec == nil {
		return err
	}
	in := placement.Input{Key: string(p.fmc.UID), Spec: *spec}
	live := map[string]int{}
	if balances(spec) {
		if live, err = p.r.liveRuns(ctx); err != nil {
			return err
		}
	}
	for i := range members {
		unfit, passing := p.unfit(&members[i])
		in.Candidates = append(in.Candidates, placement.Candidate{
			Name: members[i].Name, Labels: members[i].Labels, Taints: members[i].Spec.Taints,
			Unfit: unfit, Passing: passing, Away: members[i].Spec.Suspend || !members[i].DeletionTimestamp.IsZero(),
			Runs: live[members[i].Name],
		})
	}
	if p.decision != nil {
		in.Prefer, in.Kept = p.decision.Clusters, p.decision.Decisions
	}
	in.Keep = p.ledger.Keepers(p.wanted, in.Prefer)
	d, err := placement.Decide(in)
	if err != nil {
		p.problem, p.stalled = &rollup.Problem{Reason: v1alpha1.ReasonInvalidSpec, Message: "placement: " + err.Error()}, true
		return nil //nolint:nilerr // the object's problem, which its status tells
	}
	if len(d.Clusters) == 0 && d.Matching == 0 {
		p.problem = &rollup.Problem{Reason: v1alpha1.ReasonNoClusterMatches, Message: noMatch(spec, len(members), d.Rejected)}
	}
	p.decide(spec, d)
	return nil
}

// decide puts a decision on record.
func (p *pass) decide(spec *v1alpha1.PlacementSpec, d placement.Decision) {
	next := &v1alpha1.PlacementDecision{
		Digest: p.wanted.Digest, RerunAt: p.wanted.RerunAt, Clusters: d.Clusters,
		Wanted:    int32(d.Wanted), //nolint:gosec // far fewer than 2³¹ members
		Decisions: d.Reasons[:min(len(d.Reasons), mostTold)],
		Open:      spec.NumberOfClusters == nil, Rejected: d.Rejected[:min(len(d.Rejected), mostTold)],
	}
	if next.Clusters == nil {
		next.Clusters = []string{}
	}
	if (p.decision == nil || !slices.Equal(p.decision.Clusters, next.Clusters)) && len(next.Clusters) > 0 {
		p.note("Normal", v1alpha1.ReasonPlaced, "Place", "", "", "placed on "+strings.Join(next.Clusters, ", "))
	}
	p.decision = next
}

// noMatch says why no member may be chosen, and what to do.
func noMatch(spec *v1alpha1.PlacementSpec, members int, rejected []v1alpha1.RejectedCluster) string {
	bySelector := true
	for _, r := range rejected {
		bySelector = bySelector && strings.HasPrefix(r.Reason, "its labels do not match")
	}
	if bySelector {
		return fmt.Sprintf("none of %d MemberClusters has labels that match the selector %s: change the placement or label a member (`kubectl get mcl --show-labels`)",
			members, metav1.FormatLabelSelector(&spec.ClusterSelector))
	}
	why := ""
	for _, r := range rejected[:min(len(rejected), 3)] {
		why += "; " + r.Name + ": " + r.Reason
	}
	return fmt.Sprintf("none of %d MemberClusters may be chosen: change the placement, or labels or taints of a member%s", members, why)
}

func balances(spec *v1alpha1.PlacementSpec) bool {
	return slices.ContainsFunc(spec.PrioritizerPolicy.Configurations, func(c v1alpha1.PrioritizerConfig) bool {
		return c.ScoreCoordinate.BuiltIn == v1alpha1.Balance
	})
}

// liveRuns is how many runs of this fleet are live on each member.
func (r *FleetMiniClusterReconciler) liveRuns(ctx context.Context) (map[string]int, error) {
	var list v1alpha1.FleetMiniClusterList
	if err := r.Client.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing FleetMiniClusters: %w", err)
	}
	out := map[string]int{}
	for i := range list.Items {
		for _, member := range runs.Ledger(list.Items[i].Status.Runs).Live() {
			out[member]++
		}
	}
	return out, nil
}

// placementSpec is nil, and a problem is set, if the object names a Placement that is not there. Then what
// was decided before stays.
func (p *pass) placementSpec(ctx context.Context) (*v1alpha1.PlacementSpec, error) {
	spec, err := p.r.placementOf(ctx, p.fmc)
	if apierrors.IsNotFound(err) {
		p.problem = &rollup.Problem{Reason: v1alpha1.ReasonPlacementNotFound, Message: fmt.Sprintf(
			"spec.placementRef: there is no Placement %s/%s: create it, or name another one", p.fmc.Namespace, placementName(p.fmc))}
		return nil, nil
	}
	return spec, err
}

// placementOf is the placement of an object, or the error NotFound if it names one that is not there.
func (r *FleetMiniClusterReconciler) placementOf(ctx context.Context, fmc *v1alpha1.FleetMiniCluster) (*v1alpha1.PlacementSpec, error) {
	if fmc.Spec.Placement != nil {
		return fmc.Spec.Placement, nil
	}
	var pl v1alpha1.Placement
	key := types.NamespacedName{Namespace: fmc.Namespace, Name: placementName(fmc)}
	if err := r.Client.Get(ctx, key, &pl); err != nil {
		return nil, fmt.Errorf("reading Placement %s: %w", key, err)
	}
	return &pl.Spec, nil
}

func placementName(fmc *v1alpha1.FleetMiniCluster) string {
	if fmc.Spec.PlacementRef == nil {
		return ""
	}
	return fmc.Spec.PlacementRef.Name
}

// unfit is why nothing new may be placed on a member now, and whether that is likely to pass at once: the
// hub has just started, say, and is about to connect.
func (p *pass) unfit(m *v1alpha1.MemberCluster) (why string, passing bool) {
	ready := meta.FindStatusCondition(m.Status.Conditions, v1alpha1.ConditionReady)
	switch {
	case !m.DeletionTimestamp.IsZero():
		return "is being deleted", false
	case m.Spec.Suspend:
		return "is suspended (spec.suspend)", false
	case ready == nil || ready.Reason == v1alpha1.ReasonConnecting:
		return "is not connected yet", true
	case ready.Status != metav1.ConditionTrue:
		return "cannot be used: " + ready.Reason, false
	}
	if _, err := p.r.Provider.Member(m.Name); err != nil {
		return "is not connected", true
	}
	return "", false
}
