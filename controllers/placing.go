package controllers

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/internal/nodeusage"
	"github.com/minifleet/minifleet/internal/placement"
	"github.com/minifleet/minifleet/internal/rollup"
	"github.com/minifleet/minifleet/internal/sanitize"
)

const (
	// mostTold is how many members a decision tells about that were not chosen, mostAwaited how many a message
	// names that are waited for.
	mostTold, mostAwaited = 20, 3
	// mostWhy is the length of what is told of a member that cannot be used, in bytes.
	mostWhy = 240
	// roomPatience is how long a placement waits for what a member has free to be known for the first time, from
	// when the hub began to connect it, or, after it was lost, from when it was connected again.
	roomPatience = 10 * time.Second
)

// place decides which members are chosen, and takes the room for what is about to begin there. Members that
// have a run for what is wanted stay chosen.
func (p *pass) place(ctx context.Context, members []v1alpha1.MemberCluster) error {
	spec, err := p.placementSpec(ctx)
	if err != nil || spec == nil {
		return err
	}
	p.failover, p.noFailover = spec.Failover, spec.Failover == nil || spec.Failover.Fencing == v1alpha1.FenceManual
	if err := p.readOverrides(ctx, spec.Overrides); err != nil {
		return err
	}
	overdue := p.findOverdue(ctx, spec)
	book := &p.r.book
	book.mu.Lock()
	defer book.mu.Unlock()
	if err := p.r.prime(ctx); err != nil {
		return err
	}
	in := placement.Input{Key: string(p.fmc.UID), Spec: *spec, Candidates: p.candidates(members)}
	if p.decision != nil {
		in.Prefer, in.Kept = p.decision.Clusters, p.decision.Decisions
	}
	in.Keep = p.keepers(in.Prefer)
	if !p.wanted.Suspend { // what does not begin needs no room
		in.Room = p.room
	}
	d, err := placement.Decide(in)
	if err != nil {
		p.problem, p.stalled = &rollup.Problem{Reason: v1alpha1.ReasonInvalidSpec, Message: "placement: " + err.Error()}, true
		return nil
	}
	p.moveOverdue(overdue, &in, &d)
	if len(d.Clusters) == 0 && d.Matching == 0 {
		p.problem = &rollup.Problem{Reason: v1alpha1.ReasonNoClusterMatches, Message: noMatch(spec, len(members), d.Rejected)}
	}
	p.decide(spec, d)
	p.ask()
	p.take(in.Keep)
	return nil
}

func (p *pass) candidates(members []v1alpha1.MemberCluster) []placement.Candidate {
	var out []placement.Candidate
	p.passing = map[string]time.Duration{}
	for i := range members {
		m := &members[i]
		unfit, left := p.unfit(m)
		if strings.HasPrefix(unfit, unlisted) {
			p.unsure = append(p.unsure, m.Name)
		}
		if left > 0 {
			p.passing[m.Name] = left
		}
		out = append(out, placement.Candidate{
			Name: m.Name, Labels: m.Labels, Taints: m.Spec.Taints, Unfit: unfit, Passing: left > 0,
			Away: m.Closed() != "", Avoid: p.avoid(m.Name), Runs: p.r.book.liveRuns(m.Name),
		})
	}
	return out
}

// decide puts a decision on record.
func (p *pass) decide(spec *v1alpha1.PlacementSpec, d placement.Decision) {
	next := &v1alpha1.PlacementDecision{
		Digest: p.wanted.Digest, RerunAt: p.wanted.RerunAt, Clusters: d.Clusters,
		Wanted:    int32(d.Wanted), //nolint:gosec // far fewer than 2³¹ members
		Decisions: p.withOverrides(d.Reasons),
		Open:      spec.NumberOfClusters == nil, Rejected: d.Rejected[:min(len(d.Rejected), mostTold)],
		Waiting: d.Waiting[:min(len(d.Waiting), mostTold)],
	}
	p.lacking = slices.Clone(d.HeldBack) // it keeps its place in the line of each
	for _, w := range slices.Concat(d.Awaited, d.Waiting) {
		p.lacking = append(p.lacking, w.Name)
	}
	p.await(spec, d.Awaited)
	for _, name := range d.Clusters {
		p.lookAgain(p.passing[name]) // it may be that it has to go elsewhere
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
	for i, r := range rejected {
		if i == 3 {
			why += fmt.Sprintf("; and %d more, see status.placement.rejected", len(rejected)-i)
			break
		}
		why += "; " + r.Name + ": " + r.Reason
	}
	return fmt.Sprintf("none of %d MemberClusters may be chosen: change the placement, or labels or taints of a member%s", members, why)
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

// unfit is why nothing new may be placed on a member now and, where that is only because the member is not known
// yet, for how long a placement waits for it.
func (p *pass) unfit(m *v1alpha1.MemberCluster) (why string, left time.Duration) {
	ready := meta.FindStatusCondition(m.Status.Conditions, v1alpha1.ConditionReady)
	switch {
	case m.Closed() != "":
		return m.Closed(), 0
	case ready == nil || ready.Reason == v1alpha1.ReasonConnecting:
		return "is not connected yet", p.patience(m)
	case ready.Status != metav1.ConditionTrue:
		return "cannot be used: " + ready.Reason + ": " + sanitize.Text(ready.Message, mostWhy), 0
	}
	member, err := p.r.Provider.Member(m.Name)
	switch {
	case err != nil:
		return "is not connected", p.patience(m)
	case member.RoomState() != nodeusage.Pending:
		return "", 0
	}
	why = unlisted
	if trouble := member.RoomError(); trouble != "" {
		why += ": " + sanitize.Text(trouble, mostWhy)
	}
	return why, p.patience(m)
}

// patience is for how long a placement still waits for a member of which it is not known yet what it has free. So
// a member that hangs holds nobody up for long, and one that cannot be reached nobody at all.
func (p *pass) patience(m *v1alpha1.MemberCluster) time.Duration {
	since := p.r.book.since
	if created := m.CreationTimestamp.Time; created.After(since) {
		since = created
	}
	if state, known := p.r.Provider.State(m.Name); known {
		if !state.Ready && state.Reason != v1alpha1.ReasonConnecting {
			return 0
		}
		since = state.Since
	}
	return max(since.Add(roomPatience).Sub(p.r.Now()), 0)
}

// await tells of the members for which places are left empty, though not where every member is to be chosen, and none
// takes the place of another.
func (p *pass) await(spec *v1alpha1.PlacementSpec, members []v1alpha1.RejectedCluster) {
	p.awaiting = ""
	for _, m := range members {
		p.lookAgain(p.passing[m.Name])
	}
	if spec.NumberOfClusters == nil {
		return
	}
	for i, m := range members {
		if i == mostAwaited {
			p.awaiting += fmt.Sprintf("; and %d more", len(members)-i)
			break
		}
		p.awaiting += "; " + m.Name + ": " + m.Reason
	}
	if p.awaiting != "" {
		p.awaiting = fmt.Sprintf("waits, for no longer than %s, until it is known what is free%s", roomPatience, p.awaiting)
	}
}
