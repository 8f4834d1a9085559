package plan

import (
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/internal/queue"
	"github.com/minifleet/minifleet/internal/rollup"
	"github.com/minifleet/minifleet/internal/runs"

	"github.com/minifleet/minifleet/internal/fit"
)

// Target is a member that is chosen, or that may still have something of the FleetMiniCluster.
type Target struct {
	Name string
	// Namespace is the one on the member that its objects are in, NextNamespace the one that its next run is to be in.
	Namespace, NextNamespace string

	Chosen bool
	Facts
	// Lost is why nothing can be known of the member; nil if it can be asked. LastHeard is when it was last heard from.
	Lost      *rollup.Problem
	LastHeard time.Time
	// Unregistered says that there is no MemberCluster of this name any more, Connecting that the first attempt to reach
	// it has not ended yet, Departing that its MemberCluster is being deleted: nothing is put back there any more.
	Unregistered, Connecting, Departing bool
	// Step is what is to be done there, Size what a Job is adjusted to.
	Step runs.Step
	Size int32
	// Reserve is the room to be reserved for that, Needs what it waits for if there is none.
	Reserve *queue.Request
	Needs   *fit.Gang
	// Problem is what keeps a run from beginning there.
	Problem *rollup.Problem
	// AwaitsReferences says that a run is due and waits for nothing but what it references.
	AwaitsReferences bool
	// After is when to reconcile again because of this member; 0: not.
	After time.Duration

	uid string
}

// Reachable says whether the member can be asked.
func (t *Target) Reachable() bool {
	return t.Lost == nil && !t.Unregistered && !t.Connecting
}

// Failure is why something could not be done on the member, nil if nothing has failed.
func (t *Target) Failure() *rollup.Problem {
	if t.Failed != nil {
		return t.Failed
	}
	return t.Problem
}

// connecting says whether the first attempt to reach a member has not ended yet.
func connecting(m *Member) bool {
	refused := meta.IsStatusConditionFalse(m.Cluster.Status.Conditions, v1alpha1.ConditionReady)
	return m.Connection.Attempted && m.Connection.Reason == v1alpha1.ReasonConnecting || !m.Connection.Attempted && !refused
}

// Targets are the members that are chosen, and those that may still have something of the FleetMiniCluster, sorted by
// name. The MiniCluster has been made for each of them.
func Targets(s *Snapshot, d *Decision, ledger runs.Ledger) []Target {
	var names []string
	if d.Placement != nil {
		names = append(names, d.Placement.Clusters...)
	}
	names = append(names, MayHold(s.Object)...)
	names = append(names, d.Ledger.Live()...)
	for name, f := range s.Facts {
		if f.Cached != nil && f.Cached.Job != nil {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	names = slices.Compact(names)
	out := make([]Target, len(names))
	for i, name := range names {
		out[i] = target(s, d, ledger, name)
		d.Variants.For(name) // they are read by several goroutines from here on
	}
	return out
}

// MayHold are the members that may have something of a FleetMiniCluster. A member is in the status until everything is
// removed from it, unless its first run is only in the ledger yet.
func MayHold(f *v1alpha1.FleetMiniCluster) []string {
	var names []string
	for _, c := range f.Status.Clusters {
		names = append(names, c.Name)
	}
	names = append(names, runs.Ledger(f.Status.Runs).Live()...)
	slices.Sort(names)
	return slices.Compact(names)
}

// HaveRecords are the members, sorted, that have a run of a FleetMiniCluster on record, as far as its status knows. The
// record stays when all else is removed from a member.
func HaveRecords(f *v1alpha1.FleetMiniCluster) []string {
	var names []string
	for i := range f.Status.Runs {
		if runs.BelongsOnRecord(&f.Status.Runs[i]) {
			names = append(names, f.Status.Runs[i].Cluster)
		}
	}
	for i := range f.Status.Succeeded {
		names = append(names, f.Status.Succeeded[i].Cluster)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

func target(s *Snapshot, d *Decision, ledger runs.Ledger, name string) Target {
	t := Target{Name: name, Chosen: d.chosen(name), Facts: s.Facts[name]}
	m := s.Member(name)
	if m == nil {
		t.unregistered(&d.Wanted, ledger.Last(name))
		return t
	}
	t.Departing = !m.Cluster.DeletionTimestamp.IsZero()
	switch {
	case m.Connection.Connected:
		t.Namespace, t.NextNamespace, t.uid = m.Connection.Namespace, m.Connection.NextNamespace, m.Connection.UID
		t.Lost = otherCluster(ledger.Last(name), m.Connection.UID)
	case connecting(m):
		t.Connecting = true
	default:
		t.unreachable(m)
	}
	if t.Lost == nil {
		t.Lost = t.Unreachable
	}
	return t
}

// unreachable is about a member that is registered and cannot be asked.
func (t *Target) unreachable(m *Member) {
	c := m.Connection
	t.Lost = &rollup.Problem{Reason: c.Reason, Message: c.Message}
	if t.LastHeard = c.LastHeard; t.LastHeard.IsZero() && m.Cluster.Status.LastHeardTime != nil {
		t.LastHeard = m.Cluster.Status.LastHeardTime.Time
	}
	if c.Reason != "" {
		return
	}
	t.Lost = &rollup.Problem{Reason: v1alpha1.ReasonMemberUnreachable, Message: "not connected"}
	if ready := meta.FindStatusCondition(m.Cluster.Status.Conditions, v1alpha1.ConditionReady); ready != nil && ready.Status != metav1.ConditionTrue {
		t.Lost = &rollup.Problem{Reason: ready.Reason, Message: ready.Message}
	}
}

// otherCluster makes sure that a live run is looked for in the cluster that it was started in: another one may have been
// registered under the name since.
func otherCluster(last *v1alpha1.Run, uid string) *rollup.Problem {
	if last == nil || last.State.Ended() || last.ClusterUID == "" || last.ClusterUID == uid {
		return nil
	}
	return &rollup.Problem{Reason: v1alpha1.ReasonWrongCluster, Message: fmt.Sprintf(
		"run %s was started in another cluster (UID %s) that had this name: register that cluster again under it to learn how the run ends", last.ID, last.ClusterUID)}
}

// unregistered is about a member that is no longer registered. What has ended there has ended; what is live is unknown
// from now on.
func (t *Target) unregistered(wanted *runs.Wanted, last *v1alpha1.Run) {
	t.Unregistered = true
	if last != nil && !last.State.Ended() {
		t.Lost = &rollup.Problem{Reason: v1alpha1.ReasonMemberRemoved, Message: "its MemberCluster no longer exists: register the cluster again under this name to learn how the run ends"}
		return
	}
	t.Removed = !t.Chosen
	if wanted.WillRetry(last) {
		t.Step = runs.Step{Action: runs.Nothing, Reason: v1alpha1.ReasonMemberRemoved, Message: fmt.Sprintf(
			"retry %d of %d waits, for its MemberCluster no longer exists: register the cluster again under this name, or set the annotation %s to run it where it is placed now",
			last.Attempt+1, wanted.Retries, v1alpha1.AnnotationRerunAt)}
	}
}
