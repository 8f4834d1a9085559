// Package runs decides what comes next for a MiniCluster on one member. It is pure: what comes in (Input) are what is
// wanted, what the ledger says, and what the member has; what goes out is one Step, and after that is done the next one
// is decided from what there is then.
//
// The ordered list of rules in this package is the specification of how often a MiniCluster runs.
//
//	            Begin                Create              Finish
//	(no run) ─────────> Starting ─────────────> Running ─────────> Succeeded | Failed ─┐
//	    ^                   │                      │ Stop                              │
//	    │                   │                   Stopping                               │
//	    │                   │ Finish               │ Finish                            │
//	    │                   └──────────────────────┴─────────> Replaced ───────────────┤
//	    └── Begin again: another digest or token, or a retry, and no Job left ─────────┘
//
// A run that a person cancels goes through Stopping as well, or from Starting at once, to Cancelled. One whose
// member is drained, or that is evicted for another reason, becomes Replaced in the same way. A run
// that has ended in the ledger has no pod left that might still run.
package runs

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/minifleet/minifleet/api/v1alpha1"
)

// Wanted is what the hub object asks of a member.
type Wanted struct {
	// Digest and RerunAt identify what is to run; a run for these that has ended is not repeated.
	Digest, RerunAt string
	// Size is the number of pods.
	Size int32
	// Suspend keeps runs from starting and suspends those that are live.
	Suspend bool
	// OnChange says what a change does to a live run.
	OnChange v1alpha1.OnChange
	// Cleanup removes the Job of the latest run when that has ended.
	Cleanup bool
	// Retries is how often a run that has failed is followed by another one.
	Retries int32
	// Cancel are the ids of runs that a person wants stopped.
	Cancel []string
	// Evict is why the live run is evicted from this member although nothing about the MiniCluster has changed; empty
	// if it is not. EvictMessage is the message for it.
	Evict        v1alpha1.StopReason
	EvictMessage string
	// NoFailover says that a run that was lost with its member is not made up for elsewhere: its placement does not ask
	// for that, or no longer, or only on a person's word.
	NoFailover bool
	// Chosen says whether the member is in the placement. One that was removed from it gets no new run.
	Chosen bool
	// Hold is why no new run may start now although one is due; empty if it may. HoldReason is the reason for it,
	// WaitingForCompletion where that is empty.
	Hold, HoldReason string
}

// IsCurrent says whether a run is for what is wanted now. Taking the rerun token away asks for nothing. A
// run that was replaced, or is about to be, is not: what it was for is wanted anew if it is wanted again.
func (w Wanted) IsCurrent(r *v1alpha1.Run) bool {
	return w.IsFor(r) && r.State != v1alpha1.RunReplaced && (r.State != v1alpha1.RunStopping || r.Stop == v1alpha1.StopCancelled)
}

// IsFor says whether a run, however it ended, was for what is wanted now.
func (w Wanted) IsFor(r *v1alpha1.Run) bool {
	return r != nil && r.Digest == w.Digest && (w.RerunAt == "" || w.RerunAt == r.RerunAt)
}

// Job is what the member has under the MiniCluster's name.
type Job struct {
	UID string
	// RunID, Digest and RerunAt say which run the Job was made for, as far as is known. Said is the digest that the Job
	// itself says it is for.
	RunID, Digest, RerunAt, Said string
	// Created is when the member made it.
	Created metav1.Time
	// Deleting says that the Job is being deleted and that some of its pods may still be there.
	Deleting bool
	// Finished says that the Job has ended; Succeeded and Message say how.
	Finished, Succeeded bool
	Message             string
	// Succeeding says that the Job is about to be Finished and Succeeded: the member stops what still runs of it.
	Succeeding     bool
	CompletionTime *metav1.Time
	// StartTime is when the member began to make its pods, since it was last resumed.
	StartTime *metav1.Time
	Size      int32
	// Suspended says that the Job is suspended, SuspendedByUs that MiniFleet did it. Unreleased says that it has
	// been so since it was created: it has made no pod, and nothing is lost with it.
	Suspended, SuspendedByUs, Unreleased bool
	Pods                                 v1alpha1.PodCounts
}

// Input is all that a decision depends on.
type Input struct {
	Wanted Wanted
	// Last is the latest run on this member in the ledger, or nil.
	Last *v1alpha1.Run
	// Ended says whether the ledger knows a run of this id to have ended.
	Ended func(runID string) bool
	// Job is nil if the member confirmed that there is none.
	Job *Job
	// Pod is the name of a pod of the latest run that has not ended, where its Job no longer exists; empty if the member
	// confirmed that there is none. Lead is how its first pod has ended then, nil if that is not there either.
	Pod  string
	Lead *PodEnd
	// Recorded is what the member has on record of the latest run, nil if nothing.
	Recorded *v1alpha1.EndedRun
	// Quorum is how many of its pods the MiniCluster needs to begin; 0: all of them.
	Quorum int32
	// Now is the time, which the back-off between retries is reckoned from.
	Now time.Time
}

// PodEnd is how a pod has ended.
type PodEnd struct {
	Succeeded bool
	// Exit says how it failed.
	Exit *v1alpha1.RunExit
}

// Action is what to do next.
type Action string

// Values of Action. Each is one step; after it the state is read anew.
const (
	// Nothing: everything is as it should be, or something has to happen on the member first.
	Nothing Action = "Nothing"
	// Begin writes a new run into the ledger.
	Begin Action = "Begin"
	// Create creates the Job of the run that the ledger says is starting.
	Create Action = "Create"
	// Adopt writes a run into the ledger for a Job of ours that it does not know.
	Adopt Action = "Adopt"
	// Finish writes into the ledger that the run has ended, with Step.State.
	Finish Action = "Finish"
	// Stop writes into the ledger that the hub is about to stop the run.
	Stop Action = "Stop"
	// Keep writes into the ledger that a run which was to be stopped goes on, or that one is live which is said to have
	// ended.
	Keep Action = "Keep"
	// DeleteJob deletes the Job.
	DeleteJob Action = "DeleteJob"
	// Adjust sets size and suspension of the Job.
	Adjust Action = "Adjust"
	// Cleanup removes everything from a member that is no longer in the placement.
	Cleanup Action = "Cleanup"
)

// Step is a decision.
type Step struct {
	Action Action
	// State is that of the run after Finish, Stop or Adopt.
	State v1alpha1.RunState
	// Stop is why a run is stopped or given up.
	Stop v1alpha1.StopReason
	// Reason and Message say why, for events and status.
	Reason, Message string
	// After is when to decide again although nothing happens; 0: not.
	After time.Duration
}

// Explained says whether there is something to tell people of a step: why nothing is done, or why something ends. What
// merely begins or goes on as it was asked for speaks for itself.
func (s Step) Explained() bool {
	switch s.Action {
	case Begin, Create, Adjust:
		return false
	default:
		return s.Reason != ""
	}
}

// rule is a named check; it says whether it applies and, if so, what to do.
type rule struct {
	name string
	step func(*Input) (Step, bool)
}

// rules are tried in this order. The first that applies decides.
var rules = []rule{
	// A live run in the ledger.
	{"its Job has ended: the result goes into the ledger", jobEnded},
	{"a stale request has made a Job for it, after the one that it had: remove it", staleJob},
	{"its Job no longer exists, but a pod of it may still run: wait until that is deleted", orphanPod},
	{"its Job no longer exists, and its member knows how it ended: the result goes into the ledger", endedWithoutJob},
	{"another run's Job stands in its place that the ledger does not know, and its member knows how it ended: so does the ledger", endedBeforeJob},
	{"its Job was seen before and no longer exists: it has failed, and is not silently repeated", jobVanished},
	{"its Job is being deleted: wait until its pods are deleted", jobDeleting},
	{"its Job has succeeded, and pods of it still end: wait for them, whatever else is asked for", succeeding},
	{"it was to be stopped since its pods did not run, and they do by now: let it go on", startedAfterAll},
	{"the hub has begun to stop it: delete its Job", stopping},
	{"it is cancelled and no Job was ever made: give it up", cancelUnstarted},
	{"it is cancelled: stop it", cancelLive},
	{"it is evicted and no Job was ever made: give it up", evictedUnstarted},
	{"it is evicted: stop it", evictedLive},
	{"it is outdated and no Job was ever made: give it up", outdatedUnstarted},
	{"it is outdated and its Job was never released: replace it", outdatedUnreleased},
	{"it is suspended, or not released yet, or is to be suspended: that goes for an outdated run too", adjustSuspension},
	{"it is outdated: replace it if asked to, else let it end", outdatedLive},
	{"its Job does not exist yet: create it", createJob},
	{"another run's Job stands in its place: remove it if that run has ended, else wait", wrongJob},
	{"its Job differs in size: adjust it", adjustSize},
	{"its Job is as wanted", liveAsWanted},
	// No live run in the ledger.
	{"the very Job of a run that the ledger calls ended says otherwise, and nobody gave it up: the ledger is wrong", liveAfterAll},
	{"a live Job whose run has ended in the ledger: stop it", staleLiveJob},
	{"the member has a Job of ours that the ledger does not know, and that was never released: remove it", unreleased},
	{"the member has a Job of ours that the ledger does not know: adopt it, do not run beside it", adopt},
	{"a live Job of ours does not say which run it is: let it end", unlabelled},
	{"the member is no longer in the placement: clean up", removedFromPlacement},
	{"what is wanted has run, and is to be cleaned up: remove its Job", tidy},
	{"what is wanted has failed, and is to be tried again: wait out the back-off", backOff},
	{"what is wanted has run: it is not repeated", done},
	{"a new run is due, but has to wait", held},
	{"a new run is due, and the Job of the one before it is still there: remove it", clearWay},
	{"a new run is due: record it", begin},
}

// Next decides.
func Next(in Input) Step {
	for _, r := range rules {
		if step, ok := r.step(&in); ok {
			return step
		}
	}
	return Step{Action: Nothing}
}

func (in *Input) live() bool { return in.Last != nil && !in.Last.State.Ended() }

// current says whether the latest run is for what is wanted now.
func (in *Input) current() bool { return in.Wanted.IsCurrent(in.Last) }

func (in *Input) hasRunsJob() bool {
	return in.Job != nil && in.Last != nil && in.Job.RunID == in.Last.ID
}

func jobEnded(in *Input) (Step, bool) {
	if !in.live() || !in.hasRunsJob() || !in.Job.Finished {
		return Step{}, false
	}
	if in.Last.State == v1alpha1.RunStopping && !in.Job.Succeeded {
		return Step{}, false // it failed because it was stopped
	}
	if in.Job.Succeeded {
		return finish(v1alpha1.RunSucceeded, v1alpha1.ReasonRunSucceeded, in.Job.Message), true
	}
	return finish(v1alpha1.RunFailed, v1alpha1.ReasonRunFailed, in.Job.Message), true
}

// staleJob goes by the UID of a run's Job, which is not known of a run that is taken from a record: that has had one.
func staleJob(in *Input) (Step, bool) {
	if !in.live() || !in.hasRunsJob() || !in.Job.Unreleased || in.Job.Deleting || string(in.Last.JobUID) == in.Job.UID ||
		in.Last.JobUID == "" && in.Last.State != v1alpha1.RunRunning {
		return Step{}, false
	}
	return Step{Action: DeleteJob, Reason: v1alpha1.ReasonCleanedUp,
		Message: "removing a Job that was made after the one that the run had, and never released"}, true
}

func orphanPod(in *Input) (Step, bool) {
	if !in.live() || in.Job != nil || in.Pod == "" {
		return Step{}, false
	}
	return Step{Action: Nothing, Reason: v1alpha1.ReasonDeleting,
		Message: "the Job was deleted on the member, and its pod " + in.Pod + " was not: the run goes on until that has ended"}, true
}

func jobVanished(in *Input) (Step, bool) {
	// The ledger has the UID of a Job before that is asked to be released: it may have run.
	if !in.live() || in.Job != nil || in.Last.State == v1alpha1.RunStarting && in.Last.JobUID == "" {
		return Step{}, false
	}
	switch {
	case in.Last.State == v1alpha1.RunStopping && in.cancelled():
		return over(v1alpha1.StopCancelled, ""), true // also where it was stopped for something else at first
	case in.Last.State == v1alpha1.RunStopping:
		return over(in.Last.Stop, in.Last.Message), true
	case in.Last.LostTime != nil && !in.Wanted.NoFailover && (in.Recorded == nil || !in.Recorded.BeingDeleted()):
		return over(v1alpha1.StopLost, "proven gone: its member answers again, and has neither the Job nor a pod of it"), true
	default:
		step := finish(v1alpha1.RunFailed, v1alpha1.ReasonJobDeleted,
			"the Job was deleted on the member before it ended; to run again, set the annotation "+v1alpha1.AnnotationRerunAt)
		step.Stop = v1alpha1.StopDeleted
		return step, true
	}
}

// endedWithoutJob is about a Job that somebody has removed: its pods, left behind by a deletion that orphans them, or the
// member's record may tell how the run has ended.
func endedWithoutJob(in *Input) (Step, bool) {
	if !in.live() || in.Job != nil {
		return Step{}, false
	}
	if step, ended := endedAsRecorded(in); ended {
		return step, true
	}
	switch {
	case in.Last.State != v1alpha1.RunRunning || in.Lead == nil:
		return Step{}, false
	case in.Lead.Succeeded:
		return finish(v1alpha1.RunSucceeded, v1alpha1.ReasonRunSucceeded, "its first pod succeeded; the Job was deleted on the member, and its pods were not"), true
	default:
		return finish(v1alpha1.RunFailed, v1alpha1.ReasonRunFailed, "the Job was deleted on the member, and its pods were not"), true
	}
}

// endedBeforeJob is for a ledger that is older than what its member runs by now, as that of a backup.
func endedBeforeJob(in *Input) (Step, bool) {
	if !in.live() || in.Job == nil || in.Job.RunID == "" || in.hasRunsJob() || in.Job.Unreleased || in.Ended(in.Job.RunID) {
		return Step{}, false
	}
	return endedAsRecorded(in)
}

// endedAsRecorded ends a run as its member has it on record.
func endedAsRecorded(in *Input) (Step, bool) {
	if in.Recorded == nil {
		return Step{}, false
	}
	const asRecorded = ", as its member has on record"
	var step Step
	switch in.Recorded.State {
	case v1alpha1.RunSucceeded:
		step = finish(v1alpha1.RunSucceeded, v1alpha1.ReasonRunSucceeded, "succeeded"+asRecorded)
	case v1alpha1.RunFailed:
		step = finish(v1alpha1.RunFailed, v1alpha1.ReasonRunFailed, "failed"+asRecorded)
	case v1alpha1.RunCancelled: // which is on record before its Job is deleted
		return over(v1alpha1.StopCancelled, ""), true
	default:
		return Step{}, false
	}
	step.Stop = in.Recorded.Stop
	return step, true
}

// liveAfterAll is for a ledger that somebody has edited. The hub calls no run ended whose Job may make pods, but for one
// that a person has declared gone, and none failed whose Job has succeeded.
func liveAfterAll(in *Input) (Step, bool) {
	if in.live() || in.Last == nil || !in.hasRunsJob() || in.Job.Unreleased ||
		in.Job.UID == "" || string(in.Last.JobUID) != in.Job.UID || in.Last.Stop == v1alpha1.StopDeclaredGone {
		return Step{}, false
	}
	step := Step{Action: Keep, State: v1alpha1.RunRunning, Reason: v1alpha1.ReasonRunRestored,
		Message: "the ledger had it as " + string(in.Last.State) + ", and its Job says otherwise"}
	if in.Job.Finished {
		return step, in.Job.Succeeded && in.Last.State == v1alpha1.RunFailed
	}
	return step, !in.Job.Deleting
}

// endings are what people are told of a run that was stopped, where nothing more is known.
var endings = map[v1alpha1.StopReason]struct{ reason, message string }{
	v1alpha1.StopChanged:    {v1alpha1.ReasonRunReplaced, "stopped for a newer run"},
	v1alpha1.StopCancelled:  {v1alpha1.ReasonRunCancelled, "cancelled"},
	v1alpha1.StopDrained:    {v1alpha1.ReasonRunDrained, "stopped: its member is drained"},
	v1alpha1.StopNotStarted: {v1alpha1.ReasonRunWithdrawn, "withdrawn: its pods did not run in time"},
	v1alpha1.StopLost:       {v1alpha1.ReasonRunLost, "lost"},
}

// over ends a run that was stopped.
func over(why v1alpha1.StopReason, message string) Step {
	end, known := endings[why]
	if !known {
		why = v1alpha1.StopChanged
		end = endings[why]
	}
	if message == "" {
		message = end.message
	}
	state := v1alpha1.RunReplaced
	if why == v1alpha1.StopCancelled {
		state = v1alpha1.RunCancelled
	}
	return Step{Action: Finish, State: state, Stop: why, Reason: end.reason, Message: message}
}

// stop has a live run stopped, which ends when its Job is deleted.
func stop(why v1alpha1.StopReason, message string) Step {
	step := over(why, message)
	step.Action, step.State = Stop, v1alpha1.RunStopping
	return step
}

func finish(state v1alpha1.RunState, reason, message string) Step {
	return Step{Action: Finish, State: state, Reason: reason, Message: message}
}

func (in *Input) cancelled() bool { return in.live() && slices.Contains(in.Wanted.Cancel, in.Last.ID) }

func cancelUnstarted(in *Input) (Step, bool) {
	return over(v1alpha1.StopCancelled, "cancelled before it started"), in.cancelled() && in.Job == nil
}

func cancelLive(in *Input) (Step, bool) {
	return stop(v1alpha1.StopCancelled, ""), in.cancelled() && in.hasRunsJob()
}

func evictedUnstarted(in *Input) (Step, bool) {
	return over(in.Wanted.Evict, in.Wanted.EvictMessage), in.live() && in.Wanted.Evict != "" && in.Job == nil
}

func evictedLive(in *Input) (Step, bool) {
	return stop(in.Wanted.Evict, in.Wanted.EvictMessage), in.live() && in.Wanted.Evict != "" && in.hasRunsJob()
}

func jobDeleting(in *Input) (Step, bool) {
	if !in.live() || !in.hasRunsJob() || !in.Job.Deleting {
		return Step{}, false
	}
	return Step{Action: Nothing, Reason: v1alpha1.ReasonDeleting, Message: "the Job is being deleted; waiting until its pods are deleted"}, true
}

// succeeding keeps a success from being forgotten: a Job that is deleted now would not have succeeded.
func succeeding(in *Input) (Step, bool) {
	if !in.live() || !in.hasRunsJob() || !in.Job.Succeeding {
		return Step{}, false
	}
	return Step{Action: Nothing, Reason: v1alpha1.ReasonWaitingForCompletion,
		Message: "it has succeeded; waiting until the member has stopped what still runs of it"}, true
}

// startedAfterAll is for a hub that did not run between writing that it would stop a run and doing so.
func startedAfterAll(in *Input) (Step, bool) {
	if !in.live() || !in.hasRunsJob() || in.Last.State != v1alpha1.RunStopping || in.cancelled() || in.Wanted.Evict != "" {
		return Step{}, false
	}
	going := in.Last.Stop == v1alpha1.StopNotStarted && Running(in.Job, in.Quorum) || in.Last.Stop == v1alpha1.StopLost && in.Job.Pods.Ready > 0
	return Step{Action: Keep, State: v1alpha1.RunRunning, Reason: v1alpha1.ReasonRunStarted, Message: "it runs by now, and goes on"}, going
}

func stopping(in *Input) (Step, bool) {
	if !in.live() || !in.hasRunsJob() || in.Last.State != v1alpha1.RunStopping {
		return Step{}, false
	}
	end := over(in.Last.Stop, in.Last.Message)
	return Step{Action: DeleteJob, Reason: end.Reason, Message: "its Job is being deleted: " + end.Message}, true
}

func outdatedUnstarted(in *Input) (Step, bool) {
	if !in.live() || in.Job != nil || (in.current() && in.Wanted.Chosen) {
		return Step{}, false
	}
	return over(v1alpha1.StopChanged, "replaced before it started"), true
}

func outdatedUnreleased(in *Input) (Step, bool) {
	if !in.live() || !in.hasRunsJob() || !in.Job.Unreleased || (in.current() && in.Wanted.Chosen) {
		return Step{}, false
	}
	return stop(v1alpha1.StopChanged, "replaced before it started"), true
}

func outdatedLive(in *Input) (Step, bool) {
	if !in.live() || !in.hasRunsJob() || in.current() {
		return Step{}, false
	}
	if in.Wanted.OnChange == v1alpha1.Replace {
		return stop(v1alpha1.StopChanged, "stopped for a newer run (onChange: Replace)"), true
	}
	return Step{Action: Nothing, Reason: v1alpha1.ReasonWaitingForCompletion, Message: in.outdated() + "; " + in.follows()}, true
}

// outdated says why a run is not for what is wanted now.
func (in *Input) outdated() string {
	if in.Last.Digest == in.Wanted.Digest {
		return "another run is asked for (annotation " + v1alpha1.AnnotationRerunAt + ")"
	}
	return "the MiniCluster has changed"
}

// follows says when the run starts that follows an outdated one.
func (in *Input) follows() string {
	switch {
	case in.Wanted.Hold != "":
		return "the live run goes on, and no other begins yet" // why not is told elsewhere
	case in.Wanted.Suspend:
		return "the new run starts when the live one has ended and spec.suspend is false"
	default:
		return "the new run starts when the live one has ended (onChange: AfterCompletion)"
	}
}

func createJob(in *Input) (Step, bool) {
	if !in.live() || in.Job != nil {
		return Step{}, false
	}
	return Step{Action: Create, Reason: v1alpha1.ReasonRunStarted}, true
}

func wrongJob(in *Input) (Step, bool) {
	if !in.live() || in.hasRunsJob() {
		return Step{}, false
	}
	if in.Job.Deleting {
		return Step{Action: Nothing, Reason: v1alpha1.ReasonDeleting, Message: "the Job of an earlier run is being deleted; waiting until its pods are deleted"}, true
	}
	if in.Job.Finished || in.Job.Unreleased || in.Ended(in.Job.RunID) {
		return Step{Action: DeleteJob, Reason: v1alpha1.ReasonCleanedUp, Message: "removing the Job of an earlier run"}, true
	}
	return Step{Action: Nothing, Reason: v1alpha1.ReasonWaitingForCompletion,
		Message: "another run of this MiniCluster, " + cmp.Or(in.Job.RunID, "of unknown id") + ", is live on the member; this one starts when that has ended"}, true
}

func adjustSuspension(in *Input) (Step, bool) {
	if !in.live() || !in.hasRunsJob() || in.Wanted.Suspend == in.Job.SuspendedByUs {
		return Step{}, false
	}
	// A run that is about to be replaced need not be suspended or resumed first.
	if !in.current() && in.Wanted.OnChange == v1alpha1.Replace {
		return Step{}, false
	}
	switch {
	case in.Wanted.Suspend:
		return Step{Action: Adjust, Reason: v1alpha1.ReasonSuspended}, true
	case in.Job.Unreleased:
		return Step{Action: Adjust, Reason: v1alpha1.ReasonRunStarted}, true
	default:
		return Step{Action: Adjust, Reason: v1alpha1.ReasonResumed}, true
	}
}

func adjustSize(in *Input) (Step, bool) {
	if !in.live() || !in.hasRunsJob() || in.Job.Size == in.Wanted.Size {
		return Step{}, false
	}
	return Step{Action: Adjust, Reason: v1alpha1.ReasonResized}, true
}

// SizeFor is the size that a run's Job is adjusted to: an outdated run keeps its own.
func (w Wanted) SizeFor(r *v1alpha1.Run, j *Job) int32 {
	if !w.IsCurrent(r) {
		return j.Size
	}
	return w.Size
}

func liveAsWanted(in *Input) (Step, bool) {
	if in.live() && in.Job.Suspended && !in.Job.SuspendedByUs {
		return Step{Action: Nothing, Reason: v1alpha1.ReasonSuspended,
			Message: "the Job is suspended on the member, not by MiniFleet: a queue there, it may be, will release it"}, true
	}
	return Step{Action: Nothing}, in.live()
}

func staleLiveJob(in *Input) (Step, bool) {
	if in.Job == nil || in.Job.Finished || in.Job.Deleting {
		return Step{}, false
	}
	if in.hasRunsJob() || in.Ended(in.Job.RunID) {
		return Step{Action: DeleteJob, Reason: v1alpha1.ReasonCleanedUp, Message: "stopping a Job of a run that is over"}, true
	}
	return Step{}, false
}

func unreleased(in *Input) (Step, bool) {
	if in.Job == nil || !in.Job.Unreleased || in.Job.Deleting {
		return Step{}, false
	}
	return Step{Action: DeleteJob, Reason: v1alpha1.ReasonCleanedUp, Message: "removing a Job that was never released, of a run that the ledger does not know"}, true
}

func unlabelled(in *Input) (Step, bool) {
	if in.Job == nil || in.Job.RunID != "" || in.Job.Finished || in.Job.Deleting {
		return Step{}, false
	}
	return Step{Action: Nothing, Reason: v1alpha1.ReasonWaitingForCompletion,
		Message: "a run of this MiniCluster whose id is not known is live on the member; a new one starts when that has ended"}, true
}

func removedFromPlacement(in *Input) (Step, bool) {
	return Step{Action: Cleanup, Reason: v1alpha1.ReasonCleanedUp, Message: "the member is no longer in the placement"}, !in.Wanted.Chosen
}

func adopt(in *Input) (Step, bool) {
	if in.Job == nil || in.Job.Deleting || in.Job.RunID == "" || in.hasRunsJob() || in.Ended(in.Job.RunID) {
		return Step{}, false
	}
	return Step{Action: Adopt, State: v1alpha1.RunRunning, Reason: v1alpha1.ReasonRunAdopted, Message: "found a Job of ours that the ledger did not know"}, true
}

func tidy(in *Input) (Step, bool) {
	if !in.current() || !in.Wanted.Cleanup || in.Job == nil {
		return Step{}, false
	}
	if in.Job.Deleting {
		return Step{Action: Nothing, Reason: v1alpha1.ReasonDeleting, Message: "the run has ended; waiting until the pods of its Job are deleted, which is not kept"}, true
	}
	return Step{Action: DeleteJob, Reason: v1alpha1.ReasonCleanedUp, Message: "the run has ended; its Job is not kept"}, true
}

// Back-off between retries, as the Job controller has it between pods.
const (
	firstBackOff = 10 * time.Second
	maxBackOff   = 6 * time.Minute
)

// WillRetry says whether a run that has failed is to be followed by another one. One whose Job a person has deleted is
// not.
func (w Wanted) WillRetry(r *v1alpha1.Run) bool {
	return w.IsCurrent(r) && r.State == v1alpha1.RunFailed && r.Attempt < w.Retries && r.Stop != v1alpha1.StopDeleted
}

// Attempt is that of the run that follows last.
func (w Wanted) Attempt(last *v1alpha1.Run) int32 {
	if w.WillRetry(last) {
		return last.Attempt + 1
	}
	return 0
}

func backOff(in *Input) (Step, bool) {
	if !in.Wanted.WillRetry(in.Last) || in.Last.CompletionTime == nil {
		return Step{}, false
	}
	next := RetryTime(in.Last)
	rest := next.Sub(in.Now)
	if rest <= 0 {
		return Step{}, false
	}
	return Step{
		Action: Nothing, Reason: v1alpha1.ReasonRetryWaiting, After: rest,
		Message: fmt.Sprintf("retry %d of %d at %s", in.Last.Attempt+1, in.Wanted.Retries,
			next.UTC().Format(time.TimeOnly+" UTC")),
	}, true
}

// RetryTime is when a run that has ended is followed by another one, if it is to be.
func RetryTime(r *v1alpha1.Run) time.Time {
	wait := firstBackOff
	for range r.Attempt {
		wait = min(2*wait, maxBackOff)
	}
	return r.CompletionTime.Add(wait)
}

func done(in *Input) (Step, bool) {
	return Step{Action: Nothing}, in.current() && !in.Wanted.WillRetry(in.Last)
}

func held(in *Input) (Step, bool) {
	if in.Wanted.Suspend {
		return Step{Action: Nothing, Reason: v1alpha1.ReasonSuspended, Message: "no new run starts while it is suspended"}, true
	}
	return Step{Action: Nothing, Reason: cmp.Or(in.Wanted.HoldReason, v1alpha1.ReasonWaitingForCompletion), Message: in.Wanted.Hold}, in.Wanted.Hold != ""
}

func clearWay(in *Input) (Step, bool) {
	if in.Job == nil {
		return Step{}, false
	}
	if in.Job.Deleting {
		return Step{Action: Nothing, Reason: v1alpha1.ReasonDeleting, Message: "the Job of the run before is being deleted; waiting until its pods are deleted"}, true
	}
	return Step{Action: DeleteJob, Reason: v1alpha1.ReasonCleanedUp, Message: "removing the Job of the run before"}, true
}

func begin(*Input) (Step, bool) {
	return Step{Action: Begin, State: v1alpha1.RunStarting, Reason: v1alpha1.ReasonRunStarting}, true
}

// ID makes the id of the run that follows last: 10 hexadecimal digits. It is a function of all that
// identifies the run, so that two hubs that make the same decision give it the same name.
func ID(ownerUID, cluster string, w Wanted, last *v1alpha1.Run) string {
	h := sha256.New()
	previous := ""
	if last != nil {
		previous = last.ID
	}
	for _, s := range []string{ownerUID, cluster, w.Digest, w.RerunAt, previous} {
		h.Write([]byte(s))
		h.Write([]byte{0})
	}
	return hex.EncodeToString(h.Sum(nil)[:5])
}
