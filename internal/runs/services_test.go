package runs_test

import (
	"testing"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/internal/runs"
)

func TestServicesDue(t *testing.T) {
	run := func(state v1alpha1.RunState) *v1alpha1.Run { return &v1alpha1.Run{ID: "a", State: state} }
	created := run(v1alpha1.RunStarting)
	created.JobUID = "first"
	tests := map[string]struct {
		last *v1alpha1.Run
		job  *runs.Job
		want runs.Services
	}{
		"no run":                           {nil, nil, runs.ServicesOff},
		"a run that has ended":             {run(v1alpha1.RunSucceeded), &runs.Job{RunID: "a", Finished: true}, runs.ServicesOff},
		"a run that was replaced":          {run(v1alpha1.RunReplaced), nil, runs.ServicesOff},
		"a run about to start":             {run(v1alpha1.RunStarting), nil, runs.ServicesKept},
		"a run to be released":             {created, &runs.Job{RunID: "a", Suspended: true, Unreleased: true}, runs.ServicesOff},
		"a live run":                       {run(v1alpha1.RunRunning), &runs.Job{RunID: "a"}, runs.ServicesOn},
		"a run that is being stopped":      {run(v1alpha1.RunStopping), &runs.Job{RunID: "a", Deleting: true}, runs.ServicesOff},
		"a suspended run":                  {run(v1alpha1.RunRunning), &runs.Job{RunID: "a", Suspended: true}, runs.ServicesOff},
		"a live run whose Job was deleted": {run(v1alpha1.RunRunning), nil, runs.ServicesKept},
		"another run's Job":                {run(v1alpha1.RunRunning), &runs.Job{RunID: "b"}, runs.ServicesOff},
		"a Job that has just finished":     {run(v1alpha1.RunRunning), &runs.Job{RunID: "a", Finished: true}, runs.ServicesOff},
	}
	for title, test := range tests {
		t.Run(title, func(t *testing.T) {
			if got := runs.ServicesDue(test.last, test.job); got != test.want {
				t.Errorf("got %s, want %s", got, test.want)
			}
		})
	}
}
