package runs

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/minifleet/minifleet/api/v1alpha1"
)

// Running says whether so many of a Job's pods run or have run that the MiniCluster can begin: quorum, or all of
// them where that is 0. Flux waits for them.
func Running(j *Job, quorum int32) bool {
	need := j.Size
	if quorum > 0 {
		need = min(quorum, need)
	}
	return j.Pods.Ready+j.Pods.Succeeded+j.Pods.Failed >= max(need, 1)
}

// Track returns a run with the times at which its pods began to run and at which it was suspended, and since when none
// of them runs any more, as its Job tells them now. A Job that is another run's, or is at its end, tells nothing.
func Track(run v1alpha1.Run, j *Job, quorum int32, now *metav1.Time) v1alpha1.Run {
	if run.State != v1alpha1.RunRunning || !tells(&run, j) {
		return run
	}
	run.LostTime = nil // it is seen to go on
	switch {
	case j.Suspended:
		return suspend(run, j, now)
	case waits(&run):
		if Running(j, quorum) {
			run.RunningTime, run.SuspendedTime, run.PendingSince = first(run.RunningTime, now), nil, nil
		}
	case j.Pods.Ready > 0 || j.Pods.Succeeded >= j.Size:
		run.PendingSince = nil
	case run.PendingSince == nil:
		run.PendingSince = now
	}
	return run
}

// suspend is a run whose Job is suspended. One that is back in a queue on the member is pending there; one that
// MiniFleet has suspended is not.
func suspend(run v1alpha1.Run, j *Job, now *metav1.Time) v1alpha1.Run {
	again := !waits(&run)
	if again {
		run.SuspendedTime = now
	}
	switch {
	case j.SuspendedByUs:
		run.PendingSince = nil
	case again:
		run.PendingSince = now
	}
	return run
}

// waits says whether a run waits for its pods to run, the first time or since it was suspended.
func waits(run *v1alpha1.Run) bool { return run.RunningTime == nil || run.SuspendedTime != nil }

func first(a, b *metav1.Time) *metav1.Time {
	if a != nil {
		return a
	}
	return b
}

// tells says whether a Job tells how a run gets on.
func tells(run *v1alpha1.Run, j *Job) bool {
	return j != nil && j.RunID == run.ID && !j.Finished && !j.Succeeding && !j.Deleting
}

// Patience is how long a run is let be that does not get going.
type Patience struct {
	// Pending is how long it may wait for its pods to run, Lost how long a run that has begun may have no pod that
	// does. 0 is for ever.
	Pending, Lost time.Duration
}

// Stuck is a run that does not get going.
type Stuck struct {
	// Stop and Why are for the run, should it be stopped for that. Fact is what is wrong, in any case.
	Stop      v1alpha1.StopReason
	Why, Fact string
	// Until is when the patience with it ends, which lasts for Patience.
	Until    time.Time
	Patience time.Duration
}

// StuckOn says whether a live run is waiting for its Job to be created or for its pods to run, and for how long it may;
// nil if it is not, or may for ever.
func (p Patience) StuckOn(run *v1alpha1.Run, j *Job, quorum int32) *Stuck {
	switch {
	case run == nil || run.StartTime == nil:
		return nil
	case run.State == v1alpha1.RunStarting && j == nil:
		return p.refused(run)
	case run.State == v1alpha1.RunRunning && tells(run, j) && !j.SuspendedByUs:
		return p.idle(run, j, quorum)
	default:
		return nil
	}
}

func (p Patience) refused(run *v1alpha1.Run) *Stuck {
	if p.Pending == 0 {
		return nil
	}
	fact := fmt.Sprintf("its Job could not be created in %s (pendingTimeout)", p.Pending)
	return &Stuck{v1alpha1.StopNotStarted, "withdrawn: " + fact, fact, run.StartTime.Add(p.Pending), p.Pending}
}

func (p Patience) idle(run *v1alpha1.Run, j *Job, quorum int32) *Stuck {
	switch {
	case waits(run) && p.Pending > 0 && !Running(j, quorum):
		since := latest(run.StartTime, j.StartTime, run.PendingSince) // it may have been resumed, or queued again
		fact := fmt.Sprintf("%d of %d pods ran after %s (pendingTimeout)", j.Pods.Ready+j.Pods.Succeeded, j.Size, p.Pending)
		return &Stuck{v1alpha1.StopNotStarted, "withdrawn: " + fact, fact, since.Add(p.Pending), p.Pending}
	case !waits(run) && run.PendingSince != nil && p.Lost > 0 && j.Pods.Ready == 0:
		fact := fmt.Sprintf("it had begun, and for %s no pod of it ran (failover)", p.Lost)
		return &Stuck{v1alpha1.StopLost, "lost with its nodes: " + fact, fact, run.PendingSince.Add(p.Lost), p.Lost}
	default:
		return nil
	}
}

// latest of some times, of which the first is there.
func latest(first *metav1.Time, others ...*metav1.Time) time.Time {
	at := first.Time
	for _, t := range others {
		if t != nil && t.After(at) {
			at = t.Time
		}
	}
	return at
}
