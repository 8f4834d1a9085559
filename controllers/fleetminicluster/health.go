package fleetminicluster

import (
	"context"
	"time"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/internal/fleet"
	"github.com/minifleet/minifleet/internal/plan"
	"github.com/minifleet/minifleet/internal/sanitize"
)

// maxIssueMessage is the length of a member's message about pods that are not ready, in bytes.
const maxIssueMessage = 800

// probe finds out why not all pods of a live run are ready. A member that gives no answer has said nothing
// new, and that is all: whether it is lost is found out elsewhere.
func (c *reconciliation) probe(ctx context.Context, t *plan.Target) time.Duration {
	if !c.round.Unready(t) {
		c.probes.Drop(c.key(), t.Name)
		return 0
	}
	now, run := c.Now(), c.round.Ledger.Last(t.Name).ID
	first, told := now, toldOf(c.snapshot.Object, t.Name, run)
	if !told {
		first = now.Add(c.Intervals.Probes.First)
	}
	p, pods := c.probes.Get(c.key(), t.Name, run, first), t.Observed.Job.Pods
	// What the status tells would be lost until it is asked again after a restart.
	again := told && p.IsFirst()
	switch {
	case p.Due(pods, now) > 0:
	case !again && !c.probes.Allowed(t.Name, now):
		p.Done(pods, now)
	default:
		issue, err := c.members[t.Name].PodIssue(ctx, t.Observed.Object, now)
		if found := sanitized(issue); err == nil && !found.Repeats(p.Found) {
			p.Found = found
		}
		p.Done(pods, now)
	}
	return p.Due(pods, now)
}

// sanitized is an issue with text that is safe to be shown.
func sanitized(i *fleet.PodIssue) *fleet.PodIssue {
	if i == nil {
		return nil
	}
	return &fleet.PodIssue{
		Reason: i.Reason, Message: sanitize.Text(i.Message, maxIssueMessage), Pod: sanitize.Text(i.Pod, 253), Pods: i.Pods, AtLeast: i.AtLeast,
	}
}

// toldOf says whether the status tells something of a run already: after a restart of the hub it is to be
// found out again at once.
func toldOf(fmc *v1alpha1.FleetMiniCluster, member, run string) bool {
	for _, c := range fmc.Status.Clusters {
		if c.Name == member && c.Run == run {
			return c.Message != ""
		}
	}
	return false
}
