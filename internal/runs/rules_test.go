package runs_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/internal/runs"
)

// The cases read as: what is wanted, what the ledger says, what the member has.
func TestNext(t *testing.T) {
	cases := map[string]struct {
		wanted runs.Wanted
		last   *v1alpha1.Run
		ended  []string // ids of runs that the ledger knows to have ended, besides last
		job    *runs.Job
		want   runs.Action
		state  v1alpha1.RunState
		reason string
	}{
		// A live run in the ledger.
		"its Job succeeded": {
			wanted(), line("a", v1alpha1.RunRunning), nil, job("a", succeeded),
			runs.Finish, v1alpha1.RunSucceeded, v1alpha1.ReasonRunSucceeded,
		},
		"its Job has succeeded, and pods of it still end": {
			wanted(), line("a", v1alpha1.RunRunning), nil, job("a", ending),
			runs.Nothing, "", v1alpha1.ReasonWaitingForCompletion,
		},
		"its Job has succeeded, and pods of it still end, and it is cancelled": {
			wanted(cancel("a")), line("a", v1alpha1.RunRunning), nil, job("a", ending),
			runs.Nothing, "", v1alpha1.ReasonWaitingForCompletion,
		},
		"its Job has succeeded, and pods of it still end, and it was to be stopped": {
			wanted(digest("2"), replace), line("a", v1alpha1.RunStopping), nil, job("a", ending),
			runs.Nothing, "", v1alpha1.ReasonWaitingForCompletion,
		},
		"its Job has succeeded, and pods of it still end, and its member is drained": {
			wanted(drained), line("a", v1alpha1.RunRunning), nil, job("a", ending),
			runs.Nothing, "", v1alpha1.ReasonWaitingForCompletion,
		},
		"its Job failed": {
			wanted(), line("a", v1alpha1.RunRunning), nil, job("a", failed),
			runs.Finish, v1alpha1.RunFailed, v1alpha1.ReasonRunFailed,
		},
		"its Job failed while it is suspended": {
			wanted(suspend), line("a", v1alpha1.RunRunning), nil, job("a", suspended, failed),
			runs.Finish, v1alpha1.RunFailed, v1alpha1.ReasonRunFailed,
		},
		"its Job failed while it is suspended, and is to be resumed": {
			wanted(), line("a", v1alpha1.RunRunning), nil, job("a", suspended, failed),
			runs.Finish, v1alpha1.RunFailed, v1alpha1.ReasonRunFailed,
		},
		"its Job succeeded before it was seen at all": {
			wanted(), line("a", v1alpha1.RunStarting), nil, job("a", succeeded),
			runs.Finish, v1alpha1.RunSucceeded, v1alpha1.ReasonRunSucceeded,
		},
		"its Job succeeded, and is outdated, and to be replaced": {
			wanted(digest("2"), replace), line("a", v1alpha1.RunRunning), nil, job("a", succeeded),
			runs.Finish, v1alpha1.RunSucceeded, v1alpha1.ReasonRunSucceeded,
		},
		"its Job succeeded and is being deleted": {
			wanted(), line("a", v1alpha1.RunRunning), nil, job("a", succeeded, deleting),
			runs.Finish, v1alpha1.RunSucceeded, v1alpha1.ReasonRunSucceeded,
		},
		"its Job succeeded after the member was removed from the placement": {
			wanted(removed), line("a", v1alpha1.RunRunning), nil, job("a", succeeded),
			runs.Finish, v1alpha1.RunSucceeded, v1alpha1.ReasonRunSucceeded,
		},
		"its Job was deleted by somebody": {
			wanted(), line("a", v1alpha1.RunRunning), nil, nil,
			runs.Finish, v1alpha1.RunFailed, v1alpha1.ReasonJobDeleted,
		},
		"its Job was deleted by somebody, and the spec has changed": {
			wanted(digest("2")), line("a", v1alpha1.RunRunning), nil, nil,
			runs.Finish, v1alpha1.RunFailed, v1alpha1.ReasonJobDeleted,
		},
		"its Job was deleted by somebody after the member was removed from the placement": {
			wanted(removed), line("a", v1alpha1.RunRunning), nil, nil,
			runs.Finish, v1alpha1.RunFailed, v1alpha1.ReasonJobDeleted,
		},
		"its Job was deleted by somebody before it was seen released": {
			wanted(), created("uid-a", line("a", v1alpha1.RunStarting)), nil, nil,
			runs.Finish, v1alpha1.RunFailed, v1alpha1.ReasonJobDeleted,
		},
		"its Job is to be released": {
			wanted(), created("uid-a", line("a", v1alpha1.RunStarting)), nil, job("a", heldBack),
			runs.Adjust, "", v1alpha1.ReasonRunStarted,
		},
		"its Job was deleted for a newer run": {
			wanted(digest("2"), replace), line("a", v1alpha1.RunStopping), nil, nil,
			runs.Finish, v1alpha1.RunReplaced, v1alpha1.ReasonRunReplaced,
		},
		"its Job is being deleted": {
			wanted(), line("a", v1alpha1.RunRunning), nil, job("a", deleting),
			runs.Nothing, "", v1alpha1.ReasonDeleting,
		},
		"its Job is being deleted for a newer run": {
			wanted(digest("2"), replace), line("a", v1alpha1.RunRunning), nil, job("a", deleting),
			runs.Nothing, "", v1alpha1.ReasonDeleting,
		},
		"outdated before a Job was made": {
			wanted(digest("2")), line("a", v1alpha1.RunStarting), nil, nil,
			runs.Finish, v1alpha1.RunReplaced, v1alpha1.ReasonRunReplaced,
		},
		"a new token before a Job was made": {
			wanted(token("t")), line("a", v1alpha1.RunStarting), nil, nil,
			runs.Finish, v1alpha1.RunReplaced, v1alpha1.ReasonRunReplaced,
		},
		"the member was removed before a Job was made": {
			wanted(removed), line("a", v1alpha1.RunStarting), nil, nil,
			runs.Finish, v1alpha1.RunReplaced, v1alpha1.ReasonRunReplaced,
		},
		"outdated and live: let it end": {
			wanted(digest("2")), line("a", v1alpha1.RunRunning), nil, job("a"),
			runs.Nothing, "", v1alpha1.ReasonWaitingForCompletion,
		},
		"a new token while it is live: let it end": {
			wanted(token("t")), line("a", v1alpha1.RunRunning), nil, job("a"),
			runs.Nothing, "", v1alpha1.ReasonWaitingForCompletion,
		},
		"outdated and live: replace": {
			wanted(digest("2"), replace), line("a", v1alpha1.RunRunning), nil, job("a"),
			runs.Stop, v1alpha1.RunStopping, v1alpha1.ReasonRunReplaced,
		},
		"the hub has said that it stops it": {
			wanted(digest("2"), replace), line("a", v1alpha1.RunStopping), nil, job("a"),
			runs.DeleteJob, "", v1alpha1.ReasonRunReplaced,
		},
		"the hub has said that it stops it, and it is wanted again": {
			wanted(), line("a", v1alpha1.RunStopping), nil, job("a"),
			runs.DeleteJob, "", v1alpha1.ReasonRunReplaced,
		},
		"it was stopped, and it is wanted again": {
			wanted(), line("a", v1alpha1.RunReplaced), nil, nil,
			runs.Begin, v1alpha1.RunStarting, v1alpha1.ReasonRunStarting,
		},
		"outdated, live and suspended, and not to be any more": {
			wanted(digest("2")), line("a", v1alpha1.RunRunning), nil, job("a", suspended),
			runs.Adjust, "", v1alpha1.ReasonResumed,
		},
		"its member is drained": {
			wanted(drained), line("a", v1alpha1.RunRunning), nil, job("a"),
			runs.Stop, v1alpha1.RunStopping, v1alpha1.ReasonRunDrained,
		},
		"its member is drained, and it is outdated": {
			wanted(drained, digest("2")), line("a", v1alpha1.RunRunning), nil, job("a"),
			runs.Stop, v1alpha1.RunStopping, v1alpha1.ReasonRunDrained,
		},
		"its member is drained before a Job was made": {
			wanted(drained), line("a", v1alpha1.RunStarting), nil, nil,
			runs.Finish, v1alpha1.RunReplaced, v1alpha1.ReasonRunDrained,
		},
		"its member is drained, and it has just succeeded": {
			wanted(drained), line("a", v1alpha1.RunRunning), nil, job("a", succeeded),
			runs.Finish, v1alpha1.RunSucceeded, v1alpha1.ReasonRunSucceeded,
		},
		"it was stopped because its member is drained": {
			wanted(drained), stopped(v1alpha1.StopDrained, line("a", v1alpha1.RunStopping)), nil, nil,
			runs.Finish, v1alpha1.RunReplaced, v1alpha1.ReasonRunDrained,
		},
		"it was cancelled while it was stopped since its member is drained": {
			wanted(drained, cancel("a")), stopped(v1alpha1.StopDrained, line("a", v1alpha1.RunStopping)), nil, nil,
			runs.Finish, v1alpha1.RunCancelled, v1alpha1.ReasonRunCancelled,
		},
		"it was stopped since it did not start, and is wanted here after all": {
			wanted(), stopped(v1alpha1.StopNotStarted, line("a", v1alpha1.RunStopping)), nil, job("a"),
			runs.DeleteJob, "", v1alpha1.ReasonRunWithdrawn,
		},
		"it was lost, its member answers again, and its Job no longer exists": {
			wanted(), lost(line("a", v1alpha1.RunRunning)), nil, nil,
			runs.Finish, v1alpha1.RunReplaced, v1alpha1.ReasonRunLost,
		},
		"the same, and nobody asks for failover any more": {
			wanted(noFailover), lost(line("a", v1alpha1.RunRunning)), nil, nil,
			runs.Finish, v1alpha1.RunFailed, v1alpha1.ReasonJobDeleted,
		},
		"it was lost, its member answers again, and it goes on": {
			wanted(), lost(line("a", v1alpha1.RunRunning)), nil, job("a"),
			runs.Nothing, "", "",
		},
		"queued by the member": {
			wanted(), line("a", v1alpha1.RunRunning), nil, job("a", queued),
			runs.Nothing, "", v1alpha1.ReasonSuspended,
		},
		"queued by the member, and to be suspended": {
			wanted(suspend), line("a", v1alpha1.RunRunning), nil, job("a", queued),
			runs.Adjust, "", v1alpha1.ReasonSuspended,
		},
		"a live Job that does not say which run it is": {
			wanted(digest("2")), line("a", v1alpha1.RunSucceeded), nil, job(""),
			runs.Nothing, "", v1alpha1.ReasonWaitingForCompletion,
		},
		"a new token while it is live: replace": {
			wanted(token("t"), replace), line("a", v1alpha1.RunRunning), nil, job("a"),
			runs.Stop, v1alpha1.RunStopping, v1alpha1.ReasonRunReplaced,
		},
		"the token was taken away while it is live": {
			wanted(replace), answering("t", line("a", v1alpha1.RunRunning)), nil, job("a"),
			runs.Nothing, "", "",
		},
		"the member was removed from the placement, and the run is live: it stays": {
			wanted(removed, replace), line("a", v1alpha1.RunRunning), nil, job("a"),
			runs.Nothing, "", "",
		},
		"no Job yet": {
			wanted(), line("a", v1alpha1.RunStarting), nil, nil,
			runs.Create, "", v1alpha1.ReasonRunStarted,
		},
		"no Job yet, suspended: it is created suspended": {
			wanted(suspend), line("a", v1alpha1.RunStarting), nil, nil,
			runs.Create, "", v1alpha1.ReasonRunStarted,
		},
		"no Job yet, and held: the ledger has promised it": {
			wanted(hold), line("a", v1alpha1.RunStarting), nil, nil,
			runs.Create, "", v1alpha1.ReasonRunStarted,
		},
		"the Job of an ended run is in the way": {
			wanted(), line("b", v1alpha1.RunStarting), []string{"a"}, job("a"),
			runs.DeleteJob, "", v1alpha1.ReasonCleanedUp,
		},
		"a finished Job of an unknown run is in the way": {
			wanted(), line("b", v1alpha1.RunStarting), nil, job("x", succeeded),
			runs.DeleteJob, "", v1alpha1.ReasonCleanedUp,
		},
		"a Job in the way is being deleted": {
			wanted(), line("b", v1alpha1.RunStarting), []string{"a"}, job("a", deleting),
			runs.Nothing, "", v1alpha1.ReasonDeleting,
		},
		"a live Job of an unknown run is in the way": {
			wanted(), line("b", v1alpha1.RunStarting), nil, job("x"),
			runs.Nothing, "", v1alpha1.ReasonWaitingForCompletion,
		},
		"a live Job of an unknown run is in the way of a replacement": {
			wanted(digest("2"), replace), line("b", v1alpha1.RunStarting), nil, job("x"),
			runs.Nothing, "", v1alpha1.ReasonWaitingForCompletion,
		},
		"to be suspended": {
			wanted(suspend), line("a", v1alpha1.RunRunning), nil, job("a"),
			runs.Adjust, "", v1alpha1.ReasonSuspended,
		},
		"to be resumed": {
			wanted(), line("a", v1alpha1.RunRunning), nil, job("a", suspended),
			runs.Adjust, "", v1alpha1.ReasonResumed,
		},
		"to be resized": {
			wanted(size(4)), line("a", v1alpha1.RunRunning), nil, job("a"),
			runs.Adjust, "", v1alpha1.ReasonResized,
		},
		"resized and outdated: not touched": {
			wanted(size(4), digest("2")), line("a", v1alpha1.RunRunning), nil, job("a"),
			runs.Nothing, "", v1alpha1.ReasonWaitingForCompletion,
		},
		"live as wanted": {
			wanted(), line("a", v1alpha1.RunRunning), nil, job("a"),
			runs.Nothing, "", "",
		},
		"suspended as wanted": {
			wanted(suspend), line("a", v1alpha1.RunRunning), nil, job("a", suspended),
			runs.Nothing, "", "",
		},

		// No live run in the ledger.
		"the latest run is over and its Job is live": {
			wanted(), line("a", v1alpha1.RunFailed), nil, job("a"),
			runs.DeleteJob, "", v1alpha1.ReasonCleanedUp,
		},
		"an earlier run is over and its Job is live": {
			wanted(), line("b", v1alpha1.RunSucceeded), []string{"a"}, job("a"),
			runs.DeleteJob, "", v1alpha1.ReasonCleanedUp,
		},
		"a run is over, its Job is live, the member was removed from the placement": {
			wanted(removed), line("a", v1alpha1.RunReplaced), nil, job("a"),
			runs.DeleteJob, "", v1alpha1.ReasonCleanedUp,
		},
		"an unknown Job is live, and the ledger is empty": {
			wanted(), nil, nil, job("x"),
			runs.Adopt, v1alpha1.RunRunning, v1alpha1.ReasonRunAdopted,
		},
		"an unknown Job is live, and something else has run": {
			wanted(), line("a", v1alpha1.RunSucceeded), nil, job("x"),
			runs.Adopt, v1alpha1.RunRunning, v1alpha1.ReasonRunAdopted,
		},
		"an unknown Job has finished: its result is learned": {
			wanted(), nil, nil, job("x", succeeded),
			runs.Adopt, v1alpha1.RunRunning, v1alpha1.ReasonRunAdopted,
		},
		"an unknown Job is live, suspended, held, and the member was removed from the placement": {
			wanted(suspend, hold, removed), nil, nil, job("x"),
			runs.Adopt, v1alpha1.RunRunning, v1alpha1.ReasonRunAdopted,
		},
		"an unknown Job is being deleted": {
			wanted(), nil, nil, job("x", deleting),
			runs.Nothing, "", v1alpha1.ReasonDeleting,
		},
		"the member was removed from the placement, and nothing is live": {
			wanted(removed), line("a", v1alpha1.RunSucceeded), nil, job("a", succeeded),
			runs.Cleanup, "", v1alpha1.ReasonCleanedUp,
		},
		"the member was removed from the placement without ever running it": {
			wanted(removed), nil, nil, nil,
			runs.Cleanup, "", v1alpha1.ReasonCleanedUp,
		},
		"it has succeeded": {
			wanted(), line("a", v1alpha1.RunSucceeded), nil, job("a", succeeded),
			runs.Nothing, "", "",
		},
		"it has succeeded, and is to be cleaned up": {
			wanted(cleanup), line("a", v1alpha1.RunSucceeded), nil, job("a", succeeded),
			runs.DeleteJob, "", v1alpha1.ReasonCleanedUp,
		},
		"it has failed, and is being cleaned up": {
			wanted(cleanup), line("a", v1alpha1.RunFailed), nil, job("a", failed, deleting),
			runs.Nothing, "", v1alpha1.ReasonDeleting,
		},
		"it has been cleaned up": {
			wanted(cleanup), line("a", v1alpha1.RunSucceeded), nil, nil,
			runs.Nothing, "", "",
		},
		"its Job has just succeeded, and is to be cleaned up: the ledger comes first": {
			wanted(cleanup), line("a", v1alpha1.RunRunning), nil, job("a", succeeded),
			runs.Finish, v1alpha1.RunSucceeded, v1alpha1.ReasonRunSucceeded,
		},
		"it has failed, and has retries left": {
			wanted(retries(1)), line("a", v1alpha1.RunFailed), nil, nil,
			runs.Begin, v1alpha1.RunStarting, v1alpha1.ReasonRunStarting,
		},
		"it has failed, has retries left, and its Job is there": {
			wanted(retries(1)), line("a", v1alpha1.RunFailed), nil, job("a", failed),
			runs.DeleteJob, "", v1alpha1.ReasonCleanedUp,
		},
		"it has failed, and has no retries left": {
			wanted(retries(1)), attempt(1, line("a", v1alpha1.RunFailed)), nil, nil,
			runs.Nothing, "", "",
		},
		"it was cancelled, and has retries": {
			wanted(retries(1)), line("a", v1alpha1.RunCancelled), nil, nil,
			runs.Nothing, "", "",
		},
		"it was cancelled before a Job was made": {
			wanted(cancel("a")), line("a", v1alpha1.RunStarting), nil, nil,
			runs.Finish, v1alpha1.RunCancelled, v1alpha1.ReasonRunCancelled,
		},
		"it was cancelled while it runs": {
			wanted(cancel("a")), line("a", v1alpha1.RunRunning), nil, job("a"),
			runs.Stop, v1alpha1.RunStopping, v1alpha1.ReasonRunCancelled,
		},
		"another run was cancelled": {
			wanted(cancel("b")), line("a", v1alpha1.RunRunning), nil, job("a"),
			runs.Nothing, "", "",
		},
		"it was cancelled, and has succeeded all the same": {
			wanted(cancel("a")), line("a", v1alpha1.RunRunning), nil, job("a", succeeded),
			runs.Finish, v1alpha1.RunSucceeded, v1alpha1.ReasonRunSucceeded,
		},
		"it has succeeded, and the Job expired": {
			wanted(), line("a", v1alpha1.RunSucceeded), nil, nil,
			runs.Nothing, "", "",
		},
		"it has failed, and the Job was deleted": {
			wanted(), line("a", v1alpha1.RunFailed), nil, nil,
			runs.Nothing, "", "",
		},
		"it has succeeded for a token": {
			wanted(token("t")), answering("t", line("a", v1alpha1.RunSucceeded)), nil, nil,
			runs.Nothing, "", "",
		},
		"it has succeeded, and the token was taken away": {
			wanted(), answering("t", line("a", v1alpha1.RunSucceeded)), nil, nil,
			runs.Nothing, "", "",
		},
		"it has succeeded, and only the size differs": {
			wanted(size(4)), line("a", v1alpha1.RunSucceeded), nil, job("a", succeeded),
			runs.Nothing, "", "",
		},
		"due, but suspended": {
			wanted(suspend), nil, nil, nil,
			runs.Nothing, "", v1alpha1.ReasonSuspended,
		},
		"due, but held": {
			wanted(hold), nil, nil, nil,
			runs.Nothing, "", v1alpha1.ReasonWaitingForCompletion,
		},
		"due, held, and a Job is in the way: it stays": {
			wanted(hold, digest("2")), line("a", v1alpha1.RunSucceeded), nil, job("a", succeeded),
			runs.Nothing, "", v1alpha1.ReasonWaitingForCompletion,
		},
		"due, and the Job before it is there": {
			wanted(digest("2")), line("a", v1alpha1.RunSucceeded), nil, job("a", succeeded),
			runs.DeleteJob, "", v1alpha1.ReasonCleanedUp,
		},
		"due, and the Job before it is being deleted": {
			wanted(digest("2")), line("a", v1alpha1.RunSucceeded), nil, job("a", succeeded, deleting),
			runs.Nothing, "", v1alpha1.ReasonDeleting,
		},
		"due for the first time": {
			wanted(), nil, nil, nil,
			runs.Begin, v1alpha1.RunStarting, v1alpha1.ReasonRunStarting,
		},
		"due for another digest": {
			wanted(digest("2")), line("a", v1alpha1.RunSucceeded), nil, nil,
			runs.Begin, v1alpha1.RunStarting, v1alpha1.ReasonRunStarting,
		},
		"due for a token": {
			wanted(token("t")), line("a", v1alpha1.RunFailed), nil, nil,
			runs.Begin, v1alpha1.RunStarting, v1alpha1.ReasonRunStarting,
		},
		"due for another token": {
			wanted(token("u")), answering("t", line("a", v1alpha1.RunSucceeded)), nil, nil,
			runs.Begin, v1alpha1.RunStarting, v1alpha1.ReasonRunStarting,
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got := runs.Next(runs.Input{Wanted: c.wanted, Last: c.last, Ended: endedIn(c.last, c.ended...), Job: c.job})
			if got.Action != c.want || got.State != c.state || got.Reason != c.reason {
				t.Errorf("got %+v, want %s %s %s", got, c.want, c.state, c.reason)
			}
		})
	}
}

// A pod of a run that has not ended keeps the run from ending in the ledger, whatever became of its Job.
func TestOrphanPodsKeepARunFromEnding(t *testing.T) {
	for name, last := range map[string]*v1alpha1.Run{
		"of a run that goes on": line("a", v1alpha1.RunRunning),
		"of one that is lost":   lost(line("a", v1alpha1.RunRunning)),
		"of one that starts":    line("a", v1alpha1.RunStarting),
		"of one that stops":     stopped(v1alpha1.StopDrained, line("a", v1alpha1.RunStopping)),
	} {
		step := runs.Next(runs.Input{Wanted: wanted(cancel("a"), drained), Last: last, Ended: endedIn(last), Pod: "a-0-x"})
		if step.Action != runs.Nothing || step.Reason != v1alpha1.ReasonDeleting || !strings.Contains(step.Message, "its pod a-0-x was not: the run goes on") {
			t.Errorf("%s: %+v", name, step)
		}
	}
}

// The waiting between retries doubles, up to a limit, and says when it ends.
func TestBackOff(t *testing.T) {
	ended := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	for failures, want := range []time.Duration{10 * time.Second, 20 * time.Second, 40 * time.Second, 80 * time.Second, 160 * time.Second, 320 * time.Second, 6 * time.Minute, 6 * time.Minute} {
		last := attempt(int32(failures), line("a", v1alpha1.RunFailed))
		last.CompletionTime, last.Message = &metav1.Time{Time: ended}, "the last one failed"
		in := runs.Input{Wanted: wanted(retries(10)), Last: last, Ended: endedIn(last), Now: ended.Add(time.Second)}
		step := runs.Next(in)
		if step.Action != runs.Nothing || step.Reason != v1alpha1.ReasonRetryWaiting || step.After != want-time.Second {
			t.Errorf("after %d failures: %+v, want to wait %s", failures+1, step, want)
		}
		if failures == 1 && step.Message != "retry 2 of 10 at 12:00:20 UTC" {
			t.Errorf("the message is %q", step.Message)
		}
		in.Now = ended.Add(want)
		if step := runs.Next(in); step.Action != runs.Begin {
			t.Errorf("after %s: %+v", want, step)
		}
	}
}

// The messages go into the ledger and to people.
func TestNextTellsWhy(t *testing.T) {
	done := job("a", failed)
	done.Message = "BackoffLimitExceeded: too many"
	cases := map[string]struct {
		in   runs.Input
		want string
	}{
		"how the Job ended": {runs.Input{Wanted: wanted(), Last: line("a", v1alpha1.RunRunning), Job: done}, "BackoffLimitExceeded: too many"},
		"what holds it":     {runs.Input{Wanted: wanted(hold)}, "waiting for another member"},
		"what has changed": {
			runs.Input{Wanted: wanted(digest("2")), Last: line("a", v1alpha1.RunRunning), Job: job("a")},
			"the MiniCluster has changed; the new run starts when the live one has ended (onChange: AfterCompletion)",
		},
		"that another run is asked for": {
			runs.Input{Wanted: wanted(token("t")), Last: line("a", v1alpha1.RunRunning), Job: job("a")},
			"another run is asked for (annotation minifleet.dev/rerun-at); the new run starts when the live one has ended (onChange: AfterCompletion)",
		},
		"that nothing follows while it is suspended": {
			runs.Input{Wanted: wanted(token("t"), suspend), Last: line("a", v1alpha1.RunRunning), Job: job("a", suspended)},
			"another run is asked for (annotation minifleet.dev/rerun-at); the new run starts when the live one has ended and spec.suspend is false",
		},
		"that nothing follows while it is held": {
			runs.Input{Wanted: wanted(digest("2"), hold), Last: line("a", v1alpha1.RunRunning), Job: job("a")},
			"the MiniCluster has changed; the live run goes on, and no other begins yet",
		},
		"which run is in the way": {
			runs.Input{Wanted: wanted(), Last: line("b", v1alpha1.RunStarting), Job: job("x")},
			"another run of this MiniCluster, x, is live on the member; this one starts when that has ended",
		},
		"how to run again": {
			runs.Input{Wanted: wanted(), Last: line("a", v1alpha1.RunRunning)},
			"the Job was deleted on the member before it ended; to run again, set the annotation minifleet.dev/rerun-at",
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			c.in.Ended = endedIn(c.in.Last)
			if diff := cmp.Diff(c.want, runs.Next(c.in).Message); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestIsCurrent(t *testing.T) {
	cases := map[string]struct {
		wanted runs.Wanted
		run    *v1alpha1.Run
		want   bool
	}{
		"none":            {wanted(), nil, false},
		"same":            {wanted(), line("a", v1alpha1.RunRunning), true},
		"another digest":  {wanted(digest("2")), line("a", v1alpha1.RunRunning), false},
		"new token":       {wanted(token("t")), line("a", v1alpha1.RunRunning), false},
		"replaced":        {wanted(), line("a", v1alpha1.RunReplaced), false},
		"to be replaced":  {wanted(), line("a", v1alpha1.RunStopping), false},
		"to be cancelled": {wanted(), stopped(v1alpha1.StopCancelled, line("a", v1alpha1.RunStopping)), true},
		"answered token":  {wanted(token("t")), answering("t", line("a", v1alpha1.RunRunning)), true},
		"token withdrawn": {wanted(), answering("t", line("a", v1alpha1.RunRunning)), true},
		"other token":     {wanted(token("u")), answering("t", line("a", v1alpha1.RunRunning)), false},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if got := c.wanted.IsCurrent(c.run); got != c.want {
				t.Errorf("got %t", got)
			}
		})
	}
}

// What a member still knows of a run whose Job is not there any more.
func TestNextWithoutJob(t *testing.T) {
	succeeded, failed := &runs.PodEnd{Succeeded: true}, &runs.PodEnd{}
	recorded := func(state v1alpha1.RunState) *v1alpha1.EndedRun { return &v1alpha1.EndedRun{ID: "a", State: state} }
	cancelled := recorded(v1alpha1.RunCancelled)
	cancelled.Stop = v1alpha1.StopCancelled
	deleted := recorded(v1alpha1.RunRunning)
	deleted.Stop = v1alpha1.StopDeleted
	lost := line("a", v1alpha1.RunRunning)
	lost.LostTime = &metav1.Time{Time: time.Unix(60, 0)}
	cases := map[string]struct {
		in     runs.Input
		state  v1alpha1.RunState
		reason string
		stop   v1alpha1.StopReason
	}{
		"nothing":                                {runs.Input{}, v1alpha1.RunFailed, v1alpha1.ReasonJobDeleted, v1alpha1.StopDeleted},
		"its first pod succeeded":                {runs.Input{Lead: succeeded}, v1alpha1.RunSucceeded, v1alpha1.ReasonRunSucceeded, ""},
		"its first pod failed":                   {runs.Input{Lead: failed}, v1alpha1.RunFailed, v1alpha1.ReasonRunFailed, ""},
		"its success is on record":               {runs.Input{Recorded: recorded(v1alpha1.RunSucceeded)}, v1alpha1.RunSucceeded, v1alpha1.ReasonRunSucceeded, ""},
		"its failure is on record":               {runs.Input{Recorded: recorded(v1alpha1.RunFailed)}, v1alpha1.RunFailed, v1alpha1.ReasonRunFailed, ""},
		"that it was cancelled is":               {runs.Input{Recorded: cancelled}, v1alpha1.RunCancelled, v1alpha1.ReasonRunCancelled, v1alpha1.StopCancelled},
		"its failure is, and it is to start":     {runs.Input{Last: line("a", v1alpha1.RunStarting), Recorded: recorded(v1alpha1.RunFailed)}, v1alpha1.RunFailed, v1alpha1.ReasonRunFailed, ""},
		"its member was away":                    {runs.Input{Last: lost}, v1alpha1.RunReplaced, v1alpha1.ReasonRunLost, v1alpha1.StopLost},
		"somebody had its Job deleted before":    {runs.Input{Last: lost, Recorded: deleted}, v1alpha1.RunFailed, v1alpha1.ReasonJobDeleted, v1alpha1.StopDeleted},
		"a pod may still run":                    {runs.Input{Pod: "a-1", Lead: succeeded}, "", v1alpha1.ReasonDeleting, ""},
		"its first pod succeeded, and is wanted": {runs.Input{Lead: succeeded, Wanted: runs.Wanted{Digest: "2"}}, v1alpha1.RunSucceeded, v1alpha1.ReasonRunSucceeded, ""},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if c.in.Last == nil {
				c.in.Last = line("a", v1alpha1.RunRunning)
			}
			c.in.Ended = endedIn(nil)
			got := runs.Next(c.in)
			if got.State != c.state || got.Reason != c.reason || got.Stop != c.stop {
				t.Errorf("got %+v", got)
			}
		})
	}
}

// A ledger that is older than what its member runs hears of the end of its run from the member, and waits for nothing else.
func TestNextBesideAJobThatIsNotKnown(t *testing.T) {
	cases := map[string]struct {
		recorded *v1alpha1.EndedRun
		job      *runs.Job
		ended    []string
		action   runs.Action
		state    v1alpha1.RunState
		stop     v1alpha1.StopReason
	}{
		"it has succeeded":             {&v1alpha1.EndedRun{State: v1alpha1.RunSucceeded}, job("b"), nil, runs.Finish, v1alpha1.RunSucceeded, ""},
		"it has failed":                {&v1alpha1.EndedRun{State: v1alpha1.RunFailed}, job("b"), nil, runs.Finish, v1alpha1.RunFailed, ""},
		"its Job was deleted":          {&v1alpha1.EndedRun{State: v1alpha1.RunFailed, Stop: v1alpha1.StopDeleted}, job("b"), nil, runs.Finish, v1alpha1.RunFailed, v1alpha1.StopDeleted},
		"it was cancelled":             {&v1alpha1.EndedRun{State: v1alpha1.RunCancelled, Stop: v1alpha1.StopCancelled}, job("b"), nil, runs.Finish, v1alpha1.RunCancelled, v1alpha1.StopCancelled},
		"its Job was being deleted":    {&v1alpha1.EndedRun{State: v1alpha1.RunRunning, Stop: v1alpha1.StopDeleted}, job("b"), nil, runs.Nothing, "", ""},
		"nothing is on record":         {nil, job("b"), nil, runs.Nothing, "", ""},
		"the other one has ended":      {&v1alpha1.EndedRun{State: v1alpha1.RunFailed}, job("b"), []string{"b"}, runs.DeleteJob, "", ""},
		"the other one has no pod yet": {&v1alpha1.EndedRun{State: v1alpha1.RunFailed}, job("b", heldBack), nil, runs.DeleteJob, "", ""},
		"nobody knows what it is":      {&v1alpha1.EndedRun{State: v1alpha1.RunFailed}, job(""), nil, runs.Nothing, "", ""},
		"its own Job is there":         {&v1alpha1.EndedRun{State: v1alpha1.RunFailed}, job("a"), nil, runs.Nothing, "", ""},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			last := created("uid-a", line("a", v1alpha1.RunRunning))
			got := runs.Next(runs.Input{Wanted: wanted(), Last: last, Job: c.job, Ended: endedIn(last, c.ended...), Recorded: c.recorded})
			if got.Action != c.action || got.State != c.state || got.Stop != c.stop {
				t.Errorf("got %+v", got)
			}
		})
	}
}

func TestDeletedJobIsNotRetried(t *testing.T) {
	last := stopped(v1alpha1.StopDeleted, line("a", v1alpha1.RunFailed))
	in := runs.Input{Wanted: wanted(retries(3)), Last: last, Ended: endedIn(last)}
	if got := runs.Next(in); got.Action != runs.Nothing {
		t.Errorf("got %+v", got)
	}
	last.Stop = ""
	if got := runs.Next(in); got.Action != runs.Begin {
		t.Errorf("a run that failed by itself: got %+v", got)
	}
}
