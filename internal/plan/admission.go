package plan

import (
	"fmt"
	"slices"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/internal/fit"
	"github.com/minifleet/minifleet/internal/nodeusage"
	"github.com/minifleet/minifleet/internal/queue"
	"github.com/minifleet/minifleet/internal/rollup"
	"github.com/minifleet/minifleet/internal/runs"
	"github.com/minifleet/minifleet/internal/sanitize"
)

// admit lets a run begin, or take more room, if there is room for it in its turn.
func (t *Target) admit(s *Snapshot, d *Decision, ledger runs.Ledger, line *Line, reads *Reads) {
	variant := d.Variants.For(t.Name)
	switch t.Step.Action {
	case runs.Adjust:
		if variant.isDenied() && t.Step.Reason != v1alpha1.ReasonSuspended {
			t.wait(v1alpha1.ReasonPolicyDenied, sanitize.Text(variant.Err.Error(), sanitize.MaxNote))
			return
		}
		t.admitLive(s, d, ledger, line, reads)
	case runs.Begin, runs.Create:
		if variant.isDenied() {
			t.refuse(v1alpha1.ReasonPolicyDenied, variant.Err)
			return
		}
		if variant.Err != nil {
			t.refuse(v1alpha1.ReasonInvalidOverride, variant.Err)
			return
		}
		if t.Step.Action == runs.Begin {
			t.admitNew(s, d, line, reads)
		}
	default:
	}
}

// refuse has nothing begin on a member, for a reason that is told as its problem.
func (t *Target) refuse(reason string, err error) {
	t.Problem = &rollup.Problem{Reason: reason, Message: sanitize.Text(err.Error(), sanitize.MaxMessage)}
	t.wait(reason, err.Error())
}

// wait makes the step one that does nothing, for a reason.
func (t *Target) wait(reason, message string) {
	t.Step = runs.Step{Action: runs.Nothing, Reason: reason, Message: message}
}

// admitNew lets a run begin if its room is reserved, or can be. The room of one that follows another on the same member
// could not be reserved before that had ended.
func (t *Target) admitNew(s *Snapshot, d *Decision, line *Line, reads *Reads) {
	m := s.Member(t.Name)
	if why := m.Cluster.Closed(); why != "" {
		t.wait(v1alpha1.ReasonMemberClosed, "no new run begins on a member that "+why)
		return
	}
	if m.Connection.Room == nodeusage.Pending {
		quorum, _ := d.Variants.Quorum(t.Name) // what cannot be rendered was told before
		t.waitForRoom(s, quorum, line)
		return
	}
	if r, ok := s.Queue.Reserved[t.Name]; ok && r.Run == "" {
		return
	}
	blocked := d.room(s, t.Name, line, reads).Miss
	if blocked != "" {
		t.After = After(t.After, Soon) // to be placed anew
		t.wait(v1alpha1.ReasonInsufficientCapacity, blocked)
		return
	}
	if view := t.Room; view != nil {
		gang, err := d.Variants.Gang(t.Name)
		if err != nil {
			return
		}
		t.Reserve = &queue.Request{View: view, Reservation: queue.Reservation{Gang: gang}}
	}
}

// waitForRoom waits until it is known what a member has free, in the line of those that wait there.
func (t *Target) waitForRoom(s *Snapshot, gang fit.Gang, line *Line) {
	t.Needs = &gang
	if !slices.Contains(line.Notify, t.Name) {
		line.Notify = append(line.Notify, t.Name)
	}
	t.After = After(t.After, s.intervals().Failed) // if the news that it is known does not come first
	t.wait(v1alpha1.ReasonConnecting, notListed)
}

// admitLive lets a live run take more room than it has, in its turn: one that is resumed once all of its pods have some, or
// minSize of them, since they start together; one that is to be larger as far as there is some, since Flux lets brokers
// join later.
func (t *Target) admitLive(s *Snapshot, d *Decision, ledger runs.Ledger, line *Line, reads *Reads) {
	last, job := ledger.Last(t.Name), t.Observed.Job
	t.Size = d.Wanted.SizeFor(last, job)
	resumes := job.Suspended && job.SuspendedByUs
	if d.Wanted.Suspend || job.Suspended && !resumes || !resumes && t.Size <= job.Size || t.hasRoom(s.Queue.Reserved) {
		return // it takes no more than it has
	}
	gang := t.moreRoom(d, last, resumes)
	if s.Member(t.Name).Connection.Room == nodeusage.Pending {
		t.waitForRoom(s, gang, line)
		return
	}
	enough := t.grow
	if resumes {
		enough = t.resume
	}
	blocked, view := enough(s, gang, line, reads)
	if blocked != "" {
		t.After = After(t.After, s.intervals().Wait)
		t.wait(v1alpha1.ReasonInsufficientCapacity, sanitize.Text(blocked, sanitize.MaxNote))
		return
	}
	if view != nil {
		gang.Size = int(t.Size)
		t.Reserve = &queue.Request{View: view, Reservation: queue.Reservation{Run: last.ID, Gang: gang, Succeeded: int(job.Pods.Succeeded)}}
	}
}

// hasRoom says whether the room is reserved that a live run is to take: since it was placed, or since it was admitted in
// this reconciliation, at the size that there was room for then.
func (t *Target) hasRoom(reserved map[string]queue.Reservation) bool {
	own, ok := reserved[t.Name]
	if ok && t.Admitted && !t.Observed.Job.Unreleased {
		t.Size = int32(own.Gang.Size) //nolint:gosec // it was made of an int32
	}
	return ok && (t.Observed.Job.Unreleased || t.Admitted)
}

// moreRoom is the pods that a live run needs room for: all that are left of one that is resumed, or of minSize, else one,
// with the pod of services beside it.
func (t *Target) moreRoom(d *Decision, last *v1alpha1.Run, resumes bool) fit.Gang {
	gang := gangOfJob(t.Observed.Object, nil)
	gang.Size = int(t.Size)
	if current, err := d.Variants.Gang(t.Name); err == nil && d.Wanted.IsCurrent(last) {
		gang.Beside = current.Beside
		gang = quorumOf(gang, &d.Variants.For(t.Name).Spec)
	}
	if !resumes {
		gang.Size = 1
		return gang
	}
	succeeded := int(t.Observed.Job.Pods.Succeeded)
	gang.Size, gang.Full = max(gang.Size-succeeded, 0), max(gang.Full-succeeded, 0)
	return gang
}

// resume says what keeps a suspended run from being resumed; nothing, if nothing does.
func (t *Target) resume(s *Snapshot, gang fit.Gang, line *Line, reads *Reads) (blocked string, view *queue.View) {
	if t.Room == nil {
		reads.add(t.Name, ReadRoom)
		return "", nil
	}
	f := check(t.Room, gang, s.rank(), line)
	if f.Blocked == "" {
		return "", t.Room
	}
	t.Needs = &gang
	return "it is resumed when " + needed(gang, t) + " have room; " + f.Blocked, nil
}

// needed names the pods that have to have room before a run is resumed.
func needed(gang fit.Gang, t *Target) string {
	if all := int(t.Size - t.Observed.Job.Pods.Succeeded); gang.Size < all {
		return fmt.Sprintf("%d of its pods (minSize)", gang.Size)
	}
	return "all of its pods"
}

// grow makes the size as large as there is room for, and says what keeps even one pod more away; nothing, if nothing
// does.
func (t *Target) grow(s *Snapshot, one fit.Gang, line *Line, reads *Reads) (blocked string, view *queue.View) {
	if t.RoomBeside == nil {
		reads.add(t.Name, ReadRoomBeside)
		return "", nil
	}
	view = t.RoomBeside
	job, nodes := t.Observed.Job, view.Nodes()
	has, scheduled := int(job.Size), view.Scheduled(job.RunID)
	if old, ok := s.Queue.Reserved[t.Name]; ok && old.Run == job.RunID {
		has = max(has, old.Gang.Size) // the Job was resized just now, and the cache is behind
	}
	more := int(t.Size) - has
	if more <= 0 {
		return "", view
	}
	whole := one
	whole.Size = has - int(job.Pods.Succeeded)
	within, beyond := view.Growth(whole, more, s.rank())
	fit.Reserve(nodes, one.Pod, has-int(job.Pods.Succeeded)-scheduled.Pods)
	if one.Beside != nil {
		fit.Reserve(nodes, *one.Beside, 1-scheduled.Services)
		one.Beside = nil
	}
	result := fit.Result{Pods: within}
	if view.State == nodeusage.Known {
		result = fit.Check(nodes, fit.Gang{Pod: one.Pod, Size: min(more, max(within, 1))})
	}
	miss := result.Miss
	line.standBehind(t.Name, queue.Key{})
	larger := one
	larger.Size = max(result.Pods, 1)
	switch first := view.First(nodes, larger, s.rank()); {
	case beyond != "":
		result.Pods, miss = 0, beyond
	case first != nil:
		line.standBehind(t.Name, first.Key)
		result.Pods, miss = 0, view.Turn(first, s.rank())
	}
	if result.Pods > 0 {
		t.Size = int32(has + result.Pods) //nolint:gosec // no more than is asked for
		return "", view
	}
	t.Needs = &one
	return fmt.Sprintf("it has %d pods, and gets %d more as they have room; %s", has, more, miss), nil
}
