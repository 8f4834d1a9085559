// Package rollup makes the status of a FleetMiniCluster. It is pure: what comes in (Input) are what is wanted, the
// placement, the ledger, what is known of each member, and the status as it was; what goes out is the whole status,
// with its conditions. What the plan decides on is typed; the messages that people read are made of it here.
package rollup

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/internal/fleet"
	"github.com/minifleet/minifleet/internal/runs"
	"github.com/minifleet/minifleet/internal/sanitize"
)

// Problem is why something is not as it should be: a constant reason and a sentence.
type Problem struct{ Reason, Message string }

// Member is what is known of one member after everything that could be done now was done.
type Member struct {
	Name string
	// Chosen says whether the member is in the placement.
	Chosen bool
	// Lost is set for a member that cannot be reached.
	Lost *Problem
	// Connecting says that nothing is known yet, because the hub has just started: what was known stays.
	Connecting bool
	// LastHeard is when a lost member was last heard from.
	LastHeard time.Time
	// Failed is set when the member refused something or holds somebody else's object.
	Failed *Problem
	// Step is what the rules said last.
	Step runs.Step
	// Run is the latest run in the ledger, or nil.
	Run *v1alpha1.Run
	// Job is what the member has, or nil.
	Job *runs.Job
	// PodIssue is why pods of a live Job are not ready, safe to be shown, or nil.
	PodIssue *fleet.PodIssue
}

// Input is all that a status depends on.
type Input struct {
	Generation int64
	Revision   string
	Wanted     runs.Wanted
	// Suspension says what suspends it and how to go on, where something does.
	Suspension string
	// Problem is why nothing could be decided at all.
	Problem *Problem
	// Stalled says that only an edit of the object can help with Problem.
	Stalled bool
	// Decision is the placement, nil before the first.
	Decision *v1alpha1.PlacementDecision
	Members  []Member
	Ledger   runs.Ledger
	// Succeeded and Unasked are what the status remembers beside the ledger.
	Succeeded []v1alpha1.EndedRun
	Unasked   []string
	// Awaiting says which members a placement keeps places for that are not known yet; empty if for none.
	Awaiting string
	// Previous is the status as it was. What is not known anew is taken from it.
	Previous v1alpha1.FleetMiniClusterStatus
	Now      time.Time
}

// Status rolls everything up. The parts of the result share nothing with the input.
func Status(in Input) v1alpha1.FleetMiniClusterStatus {
	s := *in.Previous.DeepCopy()
	s.ObservedGeneration = in.Generation
	s.Revision = in.Revision
	if in.Wanted.Digest != "" {
		s.Digest = in.Wanted.Digest
		s.Replicas = in.Wanted.Size
	}
	s.Placement = in.Decision.DeepCopy()
	s.Runs = slices.Clone(in.Ledger)
	s.Succeeded, s.Unasked = slices.Clone(in.Succeeded), slices.Clone(in.Unasked)
	s.LastHandledRerunAt = handledToken(in)
	s.Clusters = nil
	for _, m := range in.Members {
		s.Clusters = append(s.Clusters, clusterStatus(in, m))
	}
	s.State = State(in)
	Summarize(&s)
	setConditions(in, &s)
	return s
}

// handledToken is the token once every chosen member has a run for it.
func handledToken(in Input) string {
	token := in.Wanted.RerunAt
	if token == "" || in.Decision == nil || len(in.Decision.Clusters) == 0 {
		return in.Previous.LastHandledRerunAt
	}
	for _, m := range in.Members {
		if m.Chosen && (m.Run == nil || m.Run.RerunAt != token) {
			return in.Previous.LastHandledRerunAt
		}
	}
	return token
}

func clusterStatus(in Input, m Member) v1alpha1.ClusterStatus {
	if m.Connecting {
		if i := slices.IndexFunc(in.Previous.Clusters, func(c v1alpha1.ClusterStatus) bool { return c.Name == m.Name }); i >= 0 {
			return *in.Previous.Clusters[i].DeepCopy()
		}
	}
	s := v1alpha1.ClusterStatus{Name: m.Name, Pods: pods(in, m)}
	if m.Run != nil {
		s.Run, s.State = m.Run.ID, m.Run.State
	}
	s.Sync, s.Health = syncAndHealth(in, m)
	s.Reason, s.Message = m.Step.Reason, m.Step.Message
	if m.Run != nil && m.Run.State.Ended() && !m.Step.Explained() {
		s.Reason, s.Message = endReason(m.Run), lineOf(m.Run)
	}
	m.showPodIssue(&s)
	switch {
	case m.Lost != nil:
		s.Reason, s.Message = m.Lost.Reason, m.Lost.Message
		if !m.LastHeard.IsZero() {
			t := metav1.NewTime(m.LastHeard).Rfc3339Copy()
			s.LastHeardTime = &t
		}
	case m.Failed != nil:
		s.Reason, s.Message = m.Failed.Reason, m.Failed.Message
	}
	s.Message = sanitize.Text(s.Message, sanitize.MaxNote) // there may be hundreds of members
	return s
}

// lineOf is how a run has ended, for the line of its member.
func lineOf(r *v1alpha1.Run) string {
	if r.State == v1alpha1.RunFailed {
		return ended(r) + "; see status.runs"
	}
	return ended(r)
}

func endReason(r *v1alpha1.Run) string {
	switch r.State {
	case v1alpha1.RunSucceeded:
		if r.RestoredTime != nil {
			return v1alpha1.ReasonSucceededBefore
		}
		return v1alpha1.ReasonRunSucceeded
	case v1alpha1.RunReplaced:
		return v1alpha1.ReasonRunReplaced
	case v1alpha1.RunCancelled:
		return v1alpha1.ReasonRunCancelled
	default:
		return v1alpha1.ReasonRunFailed
	}
}

// pods are those of the Job or, where that is not to be seen any more, the last known ones of the same run. Of a run that
// has ended without success none is ready any more, whatever was seen last.
func pods(in Input, m Member) v1alpha1.PodCounts {
	p := knownPods(in, m)
	if m.Run != nil && m.Run.State.Ended() && m.Run.State != v1alpha1.RunSucceeded {
		p.Ready, p.Active = 0, 0
	}
	return p
}

func knownPods(in Input, m Member) v1alpha1.PodCounts {
	if m.Job != nil && m.Lost == nil && m.Run != nil && m.Job.RunID == m.Run.ID {
		return m.Job.Pods
	}
	for _, c := range in.Previous.Clusters {
		if c.Name == m.Name && m.Run != nil && c.Run == m.Run.ID {
			p := c.Pods
			if m.Run.State == v1alpha1.RunSucceeded {
				p = v1alpha1.PodCounts{Desired: p.Desired, Succeeded: p.Desired, Failed: p.Failed}
			}
			return p
		}
	}
	if m.Run != nil && m.Run.State == v1alpha1.RunSucceeded {
		return v1alpha1.PodCounts{Desired: in.Wanted.Size, Succeeded: in.Wanted.Size}
	}
	return v1alpha1.PodCounts{Desired: in.Wanted.Size}
}

func syncAndHealth(in Input, m Member) (v1alpha1.SyncStatus, v1alpha1.HealthStatus) {
	health := runHealth(in, m)
	switch {
	case m.Lost != nil:
		return v1alpha1.SyncUnknown, health
	case m.Failed != nil:
		// What merely waits for somebody to create something has not failed.
		if health == v1alpha1.Healthy || waitsForOthers(m.Failed.Reason) {
			return v1alpha1.OutOfSync, health
		}
		return v1alpha1.OutOfSync, v1alpha1.Degraded
	case !m.Chosen, !in.Wanted.IsCurrent(m.Run), m.Run.State == v1alpha1.RunStarting, m.Run.State == v1alpha1.RunStopping, in.Wanted.WillRetry(m.Run):
		return v1alpha1.OutOfSync, health
	case !m.Run.State.Ended() && m.Step.Reason == v1alpha1.ReasonDeleting:
		return v1alpha1.OutOfSync, health // its Job is deleted, or about to be
	case !m.Run.State.Ended() && waitsForRoom(m.Step):
		return v1alpha1.OutOfSync, health // it is to be resumed, or to be larger
	default:
		return v1alpha1.Synced, health
	}
}

// waitsForOthers says that somebody is to create what a run needs, or to let MiniFleet read it.
func waitsForOthers(reason string) bool {
	return reason == v1alpha1.ReasonReferenceMissing || reason == v1alpha1.ReasonBindingMissing
}

// waitsForRoom says that what is to be done has to wait until there is room, or until it is known that there is.
func waitsForRoom(s runs.Step) bool {
	return s.Action == runs.Nothing && (s.Reason == v1alpha1.ReasonInsufficientCapacity || s.Reason == v1alpha1.ReasonConnecting)
}

// runHealth is that of the latest run, as far as it is known.
func runHealth(in Input, m Member) v1alpha1.HealthStatus {
	switch {
	case m.Run == nil && m.Lost != nil:
		return v1alpha1.HealthUnknown
	case m.Run == nil && in.Wanted.Suspend:
		return v1alpha1.Suspended
	case m.Run == nil:
		return v1alpha1.Missing
	case m.Run.State == v1alpha1.RunSucceeded:
		return v1alpha1.Healthy
	case in.Wanted.WillRetry(m.Run):
		return v1alpha1.Progressing
	case m.Run.State == v1alpha1.RunFailed, m.Run.State == v1alpha1.RunCancelled: // nothing is to be resumed
		return v1alpha1.Degraded
	case m.Lost != nil:
		return v1alpha1.HealthUnknown
	case m.Job != nil && m.Job.Suspended && (!m.Job.Unreleased || in.Wanted.Suspend):
		return v1alpha1.Suspended
	default:
		return v1alpha1.Progressing
	}
}

// worst orders health from best to worst.
var worst = []v1alpha1.HealthStatus{
	v1alpha1.Healthy, v1alpha1.Suspended, v1alpha1.Progressing, v1alpha1.Missing, v1alpha1.HealthUnknown, v1alpha1.Degraded,
}

var worstSync = []v1alpha1.SyncStatus{v1alpha1.Synced, v1alpha1.OutOfSync, v1alpha1.SyncUnknown}

// Summarize sums the members up for the columns of `kubectl get`.
func Summarize(s *v1alpha1.FleetMiniClusterStatus) {
	chosen := 0
	if s.Placement != nil {
		chosen = len(s.Placement.Clusters)
	}
	sync, health, synced := 0, 0, 0
	var pods v1alpha1.PodCounts
	for _, c := range s.Clusters {
		sync = max(sync, slices.Index(worstSync, c.Sync))
		health = max(health, slices.Index(worst, c.Health))
		if s.Placement == nil || !slices.Contains(s.Placement.Clusters, c.Name) {
			continue
		}
		if c.Sync == v1alpha1.Synced {
			synced++
		}
		pods.Desired += c.Pods.Desired
		if c.State == v1alpha1.RunSucceeded {
			pods.Succeeded += c.Pods.Desired // whoever had not ended when the lead succeeded is not waited for
			continue
		}
		pods.Succeeded += c.Pods.Succeeded
		pods.Ready += c.Pods.Ready
	}
	s.Sync, s.Health = worstSync[sync], worst[health]
	if len(s.Clusters) == 0 {
		s.Sync, s.Health = v1alpha1.OutOfSync, v1alpha1.Missing
	}
	wanted := chosen
	if s.Placement != nil {
		wanted = max(chosen, int(s.Placement.Wanted))
	}
	s.Summary = &v1alpha1.Summary{
		Members:  sanitize.Text(join(holders(s)), sanitize.MaxNote),
		Clusters: fmt.Sprintf("%d/%d", synced, wanted),
		Pods:     fmt.Sprintf("%d/%d", pods.Ready+pods.Succeeded, pods.Desired),
	}
}

// holders are the chosen members, and those that have a live run or may have one: who is not chosen anew, because it
// cannot be reached, has not let go of its run.
func holders(s *v1alpha1.FleetMiniClusterStatus) []string {
	out := names(s.Clusters, func(c v1alpha1.ClusterStatus) bool {
		return c.Sync == v1alpha1.SyncUnknown || c.Run != "" && !c.State.Ended()
	})
	if s.Placement != nil {
		out = append(out, s.Placement.Clusters...)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// names lists the members for which keep is true.
func names(cs []v1alpha1.ClusterStatus, keep func(v1alpha1.ClusterStatus) bool) []string {
	var out []string
	for _, c := range cs {
		if keep(c) {
			out = append(out, c.Name)
		}
	}
	slices.Sort(out)
	return out
}

func join(names []string) string { return strings.Join(names, ", ") }

func setCondition(in Input, s *v1alpha1.FleetMiniClusterStatus, kind string, status metav1.ConditionStatus, reason, message string) {
	meta.SetStatusCondition(&s.Conditions, metav1.Condition{
		Type: kind, Status: status, Reason: reason, Message: sanitize.Text(message, sanitize.MaxMessage),
		ObservedGeneration: in.Generation, LastTransitionTime: metav1.NewTime(in.Now),
	})
}
