package plan_test

import (
	"testing"
	"time"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/internal/plan"
	"github.com/minifleet/minifleet/internal/rollup"
	"github.com/minifleet/minifleet/internal/runs"
)

func TestUnready(t *testing.T) {
	cases := map[string]struct {
		change func(*v1alpha1.Run, *runs.Job)
		want   bool
	}{
		"some are ready":      {func(*v1alpha1.Run, *runs.Job) {}, true},
		"all are ready":       {func(_ *v1alpha1.Run, j *runs.Job) { j.Pods.Ready = 4 }, false},
		"or have succeeded":   {func(_ *v1alpha1.Run, j *runs.Job) { j.Pods.Ready, j.Pods.Succeeded = 2, 2 }, false},
		"it is suspended":     {func(_ *v1alpha1.Run, j *runs.Job) { j.Suspended = true }, false},
		"it has ended":        {func(_ *v1alpha1.Run, j *runs.Job) { j.Finished = true }, false},
		"it is being deleted": {func(_ *v1alpha1.Run, j *runs.Job) { j.Deleting = true }, false},
		"another run's Job":   {func(_ *v1alpha1.Run, j *runs.Job) { j.RunID = "other" }, false},
		"about to start":      {func(r *v1alpha1.Run, _ *runs.Job) { r.State = v1alpha1.RunStarting }, false},
		"being stopped":       {func(r *v1alpha1.Run, _ *runs.Job) { r.State = v1alpha1.RunStopping }, false},
	}
	for name, c := range cases {
		run, job := MakeRun("aa", "alpine", v1alpha1.RunRunning).Obj(), MakeJob("aa").Size(4).Obj()
		job.Pods.Ready = 3
		c.change(run, job)
		round := plan.Round{Ledger: runs.Ledger{*run}}
		if got := round.Unready(&plan.Target{Name: "alpine", Facts: plan.Facts{Observed: &plan.Observation{Job: job}}}); got != c.want {
			t.Errorf("%s: got %t", name, got)
		}
		if round.Unready(&plan.Target{Name: "alpine", Lost: &rollup.Problem{}, Facts: plan.Facts{Observed: &plan.Observation{Job: job}}}) {
			t.Errorf("%s, and its member is lost: nobody can tell", name)
		}
	}
	empty := plan.Round{}
	seen := plan.Round{Ledger: runs.Ledger{MakeRun("aa", "alpine", v1alpha1.RunRunning).Run}}
	if alpine := (plan.Target{Name: "alpine"}); empty.Unready(&alpine) || seen.Unready(&alpine) {
		t.Error("there is nothing that could be ready")
	}
}

// What a run has is put back while it is as wanted, and removed when it is over and is not to be kept.
func TestRepairAndCleanUp(t *testing.T) {
	type outcome struct{ repairs, cleansUp bool }
	cases := map[string]struct {
		object *ObjectWrapper
		alpine *MemberWrapper
		job    *JobWrapper
		change func(*plan.Target)
		want   outcome
	}{
		"it runs":                    {object: MakeObject("run").Runs(MakeRun("aa", "alpine", v1alpha1.RunRunning)), job: MakeJob("aa").Running(), want: outcome{repairs: true}},
		"it is outdated":             {object: MakeObject("run").Runs(MakeRun("aa", "alpine", v1alpha1.RunRunning).Of("old")), job: MakeJob("aa").Running()},
		"it starts":                  {object: MakeObject("run").Runs(MakeRun("aa", "alpine", v1alpha1.RunStarting)), job: nil},
		"it is stopped":              {object: MakeObject("run").Runs(MakeRun("aa", "alpine", v1alpha1.RunStopping)), job: MakeJob("aa").Running()},
		"it is cancelled":            {object: MakeObject("run").Runs(MakeRun("aa", "alpine", v1alpha1.RunStopping).Stopped(v1alpha1.StopCancelled)), job: MakeJob("aa").Running()},
		"its member is unregistered": {object: MakeObject("run").Runs(MakeRun("aa", "alpine", v1alpha1.RunRunning)), alpine: MakeMember("alpine").Deleted(v1alpha1.DeletionBlock), job: MakeJob("aa").Running()},
		"something has failed":       {object: MakeObject("run").Runs(MakeRun("aa", "alpine", v1alpha1.RunRunning)), job: MakeJob("aa").Running(), change: func(t *plan.Target) { t.Failed = &rollup.Problem{} }},
		"it has ended, and is kept":  {object: MakeObject("run").Runs(MakeRun("aa", "alpine", v1alpha1.RunSucceeded)), job: MakeJob("aa").Succeeded(), want: outcome{repairs: true}},
		"its time is not over":       {object: MakeObject("run").With(ttl(60)).Runs(MakeRun("aa", "alpine", v1alpha1.RunSucceeded)), job: MakeJob("aa").Succeeded(), want: outcome{repairs: true}},
		"its time is over":           {object: MakeObject("run").With(ttl(30)).Runs(MakeRun("aa", "alpine", v1alpha1.RunSucceeded)), job: MakeJob("aa").Succeeded()},
		"and its Job is removed":     {object: MakeObject("run").With(ttl(30)).Runs(MakeRun("aa", "alpine", v1alpha1.RunSucceeded)), want: outcome{cleansUp: true}},
		"but it was chosen no more":  {object: MakeObject("run").With(ttl(30)).Runs(MakeRun("aa", "alpine", v1alpha1.RunSucceeded)), change: func(t *plan.Target) { t.Chosen = false }},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if c.alpine == nil {
				c.alpine = MakeMember("alpine")
			}
			s := MakeSnapshot(c.object.Placed("alpine").Obj(), c.alpine)
			anyRoom(s)
			observed(s, "alpine", none())
			if c.job != nil {
				observed(s, "alpine", c.job.Observation())
			}
			d := decided(t, s)
			round := plan.Round{Targets: plan.Targets(s, d, d.Ledger), Ledger: d.Ledger}
			alpine := &round.Targets[0]
			if c.change != nil {
				c.change(alpine)
			}
			if got := (outcome{round.Repairable(s, d, alpine), round.CleansUp(s, d, alpine)}); got != c.want {
				t.Errorf("%+v, want %+v", got, c.want)
			}
		})
	}
}

// The Job of a run that has ended is removed at once, after a time, or not at all.
func TestExpiry(t *testing.T) {
	type outcome struct {
		Action runs.Action
		After  time.Duration
	}
	zero := int32(0)
	cases := map[string]struct {
		change func(*v1alpha1.FleetMiniCluster)
		state  v1alpha1.RunState
		want   outcome
	}{
		"kept":                        {func(*v1alpha1.FleetMiniCluster) {}, v1alpha1.RunSucceeded, outcome{runs.Nothing, 0}},
		"its time is not over":        {ttl(60), v1alpha1.RunSucceeded, outcome{runs.Nothing, 30 * time.Second}},
		"its time is over":            {ttl(30), v1alpha1.RunSucceeded, outcome{runs.DeleteJob, 0}},
		"removed at once":             {ttl(0), v1alpha1.RunSucceeded, outcome{runs.DeleteJob, 0}},
		"cleanup":                     {func(f *v1alpha1.FleetMiniCluster) { f.Spec.MiniCluster.Cleanup = true }, v1alpha1.RunSucceeded, outcome{runs.DeleteJob, 0}},
		"no history of success":       {func(f *v1alpha1.FleetMiniCluster) { f.Spec.SuccessfulRunsHistoryLimit = &zero }, v1alpha1.RunSucceeded, outcome{runs.DeleteJob, 0}},
		"but of failure":              {func(f *v1alpha1.FleetMiniCluster) { f.Spec.SuccessfulRunsHistoryLimit = &zero }, v1alpha1.RunFailed, outcome{runs.Nothing, 0}},
		"no history of failure":       {func(f *v1alpha1.FleetMiniCluster) { f.Spec.FailedRunsHistoryLimit = &zero }, v1alpha1.RunFailed, outcome{runs.DeleteJob, 0}},
		"a live run has no such time": {ttl(0), v1alpha1.RunRunning, outcome{runs.Nothing, 0}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			s := MakeSnapshot(MakeObject("run").With(c.change).Runs(MakeRun("aa", "alpine", c.state)).Placed("alpine").Obj(), MakeMember("alpine"))
			anyRoom(s)
			job := MakeJob("aa").Succeeded()
			switch c.state {
			case v1alpha1.RunRunning:
				job = MakeJob("aa").Running()
			case v1alpha1.RunFailed:
				job = MakeJob("aa").Failed()
			default:
			}
			observed(s, "alpine", job.Observation())
			alpine := target(t, next(t, s, decided(t, s)))
			if got := (outcome{alpine.Step.Action, alpine.After}); got != c.want {
				t.Errorf("%+v, want %+v", got, c.want)
			}
		})
	}
}
