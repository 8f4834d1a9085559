package plan_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/utils/ptr"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/internal/plan"
	"github.com/minifleet/minifleet/internal/queue"
	"github.com/minifleet/minifleet/internal/rollup"
	"github.com/minifleet/minifleet/internal/runs"
)

// A run has started when its Job is released. Before that is asked for, the ledger has the Job's UID.
func TestStarted(t *testing.T) {
	type outcome struct {
		State  v1alpha1.RunState
		JobUID string
		Told   []string
		Due    runs.Action // on the member, if the ledger has changed nothing
	}
	starting := func() *RunWrapper { return MakeRun("aa", "alpine", v1alpha1.RunStarting) }
	cases := map[string]struct {
		run     *RunWrapper
		job     *plan.Observation
		refused bool
		want    outcome
	}{
		"no Job":                      {starting(), none(), false, outcome{State: v1alpha1.RunStarting, Due: runs.Create}},
		"created, not released":       {starting(), MakeJob("aa").Unreleased().Observation(), false, outcome{State: v1alpha1.RunStarting, JobUID: "job-aa"}},
		"noted, to be released":       {starting().Created(), MakeJob("aa").Unreleased().Observation(), false, outcome{State: v1alpha1.RunStarting, JobUID: "job-aa", Due: runs.Adjust}},
		"the release is refused":      {starting().Created(), MakeJob("aa").Unreleased().Observation(), true, outcome{State: v1alpha1.RunStarting, JobUID: "job-aa"}},
		"released":                    {starting().Created(), MakeJob("aa").Observation(), false, outcome{State: v1alpha1.RunRunning, JobUID: "job-aa", Told: []string{v1alpha1.ReasonRunStarted}}},
		"released before it was seen": {starting(), MakeJob("aa").Observation(), false, outcome{State: v1alpha1.RunRunning, JobUID: "job-aa"}},
		"deleted by somebody":         {starting().Created(), none(), false, outcome{State: v1alpha1.RunFailed, JobUID: "job-aa", Told: []string{v1alpha1.ReasonJobDeleted}}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			s := MakeSnapshot(MakeObject("run").Runs(c.run).Placed("alpine").Obj(), MakeMember("alpine"))
			anyRoom(s)
			s.Queue.Reserved["alpine"] = queue.Reservation{Run: "aa", Gang: gang(2)}
			observed(s, "alpine", c.job)
			if c.refused {
				fact(s, "alpine", func(f *plan.Facts) {
					f.Failed, f.Done = &rollup.Problem{Reason: v1alpha1.ReasonApplyFailed, Message: "no"}, true
				})
			}
			round := next(t, s, decided(t, s))
			last := round.Ledger.Last("alpine")
			got := outcome{State: last.State, JobUID: string(last.JobUID)}
			for _, e := range round.Events {
				got.Told = append(got.Told, e.Reason)
			}
			if due := round.Due(); len(due) > 0 && len(round.Changed) == 0 {
				got.Due = due[0].Step.Action
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// What is told of a failed run says nothing twice, and what its pod has said is in the ledger only.
func TestHowARunHasFailed(t *testing.T) {
	exit := func(message string) *v1alpha1.RunExit {
		return &v1alpha1.RunExit{Pod: "run-0-x", Container: "run", ExitCode: ptr.To(int32(3)), Reason: "Error", Message: message}
	}
	cases := map[string]struct {
		job         string
		exit        *v1alpha1.RunExit
		event, line string
	}{
		"the member repeats the pod": {
			"PodFailurePolicy: Container run for pod hpc/run-0-x failed with exit code 3 matching FailJob rule at index 2", exit("no license"),
			"alpine: run aa failed: pod run-0-x, container run, exit code 3", "pod run-0-x, container run, exit code 3: no license",
		},
		"too many pods": {
			"BackoffLimitExceeded: Job has reached the specified backoff limit", exit(""),
			"alpine: run aa failed: BackoffLimitExceeded: pod run-0-x, container run, exit code 3", "BackoffLimitExceeded: pod run-0-x, container run, exit code 3",
		},
		"beyond its deadline": {
			"DeadlineExceeded: Job was active longer than specified deadline", exit("terminated"),
			"alpine: run aa failed: DeadlineExceeded: Job was active longer than specified deadline; pod run-0-x, container run, exit code 3",
			"DeadlineExceeded: Job was active longer than specified deadline; pod run-0-x, container run, exit code 3: terminated",
		},
		"no pod tells": {
			"BackoffLimitExceeded: Job has reached the specified backoff limit", nil,
			"alpine: run aa failed: BackoffLimitExceeded: Job has reached the specified backoff limit", "BackoffLimitExceeded: Job has reached the specified backoff limit",
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			job := MakeJob("aa").Failed()
			job.Message = c.job
			s := MakeSnapshot(MakeObject("run").Runs(MakeRun("aa", "alpine", v1alpha1.RunRunning)).Placed("alpine").Obj(), MakeMember("alpine"))
			anyRoom(s)
			observed(s, "alpine", job.Observation())
			fact(s, "alpine", func(f *plan.Facts) { f.Exit = &plan.Exit{RunExit: c.exit} })
			round := next(t, s, decided(t, s))
			if diff := cmp.Diff([]string{c.event, c.line}, []string{round.Events[0].Message, round.Ledger.Last("alpine").Message}); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// The event of a run that was cancelled says that once.
func TestCancelledRunsAreToldOnce(t *testing.T) {
	cases := map[string]struct {
		run  *RunWrapper
		want string
	}{
		"live":           {MakeRun("aa", "alpine", v1alpha1.RunStopping).Stopped(v1alpha1.StopCancelled), "alpine: run aa cancelled"},
		"not begun":      {MakeRun("aa", "alpine", v1alpha1.RunStarting), "alpine: run aa cancelled before it started"},
		"deleted before": {MakeRun("aa", "alpine", v1alpha1.RunRunning), "alpine: run aa failed: the Job was deleted on the member before it ended; to run again, set the annotation minifleet.dev/rerun-at"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			s := MakeSnapshot(MakeObject("run").With(cancelled("aa")).Runs(c.run).Placed("alpine").Obj(), MakeMember("alpine"))
			anyRoom(s)
			observed(s, "alpine", none())
			if diff := cmp.Diff(c.want, next(t, s, decided(t, s)).Events[0].Message); diff != "" {
				t.Error(diff)
			}
		})
	}
}
