package fleetminicluster

import (
	"errors"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/controllers/internal/metrics"
	"github.com/minifleet/minifleet/internal/plan"
	"github.com/minifleet/minifleet/internal/runs"
)

// measure counts a step on a member that began at a time.
func (c *reconciliation) measure(t *plan.Target, o *outcome, begun time.Time) {
	unfinished := (*podLeftError)(nil)
	failed := o.err != nil && !errors.Is(o.err, errStale) && !errors.As(o.err, &unfinished)
	metrics.Applied(t.Name, c.Now().Sub(begun), failed)
	switch {
	case o.err != nil:
	case t.Step.Action == runs.Create:
		metrics.RunStarted(t.Name)
		c.measurePush(t.Name)
	case t.Step.Action == runs.DeleteJob && t.Step.Reason == v1alpha1.ReasonCleanedUp && t.Observed != nil && t.Observed.Job != nil && t.Observed.Job.Unreleased:
		metrics.StaleRequestRefused(t.Name)
	}
}

// measurePush measures the first Job on a member for what Git declares. One for another try, or because somebody asks, says
// nothing of how long a push takes.
func (c *reconciliation) measurePush(member string) {
	object, run := c.snapshot.Object, c.round.Ledger.Last(member)
	again := slices.ContainsFunc(c.round.Ledger, func(r v1alpha1.Run) bool {
		return r.Cluster == member && r.ID != run.ID && r.Digest == run.Digest
	})
	if again || run.RerunAt != "" {
		return
	}
	c.Arrivals.JobCreated(sourceOf(object), object.Annotations[v1alpha1.AnnotationSourceCommit], c.Now())
}

// measureStatus counts what a status says that the one before did not.
func measureStatus(before, after *v1alpha1.FleetMiniClusterStatus) {
	metrics.RunsChanged(before.Runs, after.Runs)
	if deniedBy(after) && !deniedBy(before) {
		metrics.PolicyDenied("FleetMiniCluster", 1)
	}
}

func deniedBy(s *v1alpha1.FleetMiniClusterStatus) bool {
	ready := meta.FindStatusCondition(s.Conditions, v1alpha1.ConditionReady)
	return ready != nil && ready.Reason == v1alpha1.ReasonPolicyDenied
}

// measureRepairs counts events that tell of drift which was put right.
func measureRepairs(member string, events []plan.Event) {
	for i := range events {
		if events[i].Reason == v1alpha1.ReasonDriftRepaired {
			metrics.DriftRepaired(member)
		}
	}
}
