package controllers

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/internal/fleet"
	"github.com/minifleet/minifleet/internal/runs"
)

// A member is asked why pods are not ready at these seconds after they were first seen not to be, when the
// number of pods that are ready changes at those.
func TestScheduleOfLooks(t *testing.T) {
	cases := map[string]struct {
		changes []int
		looks   []int
	}{
		"nothing changes":             {nil, []int{5, 15, 35, 75, 135, 195}},
		"a change before the first":   {[]int{2}, []int{5, 15, 35, 75, 135, 195}},
		"a change right after one":    {[]int{16}, []int{5, 15, 20, 30, 50, 90, 150}},
		"a change long after one":     {[]int{60}, []int{5, 15, 35, 60, 70, 90, 130, 190}},
		"a change at each second":     {[]int{20, 21, 22, 23, 24, 25, 26, 27}, []int{5, 15, 20, 25, 30, 40, 60, 100, 160}},
		"a change in the same second": {[]int{15}, []int{5, 15, 25, 45, 85, 145}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			begin := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
			var all looks
			var got []int
			pods := v1alpha1.PodCounts{Desired: 100}
			for second := range 200 {
				now := begin.Add(time.Duration(second) * time.Second)
				for _, change := range c.changes {
					if change == second {
						pods.Ready++
					}
				}
				k := all.get(types.NamespacedName{Name: "n"}, "m", "run", now.Add(firstLook))
				if k.due(pods, now) <= 0 {
					got = append(got, second)
					k.looked(pods, now)
				}
				if k.due(pods, now) <= 0 {
					t.Fatalf("at %d s the next look is due at once", second)
				}
			}
			if diff := cmp.Diff(c.looks, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestLooksAreOfOneRun(t *testing.T) {
	var all looks
	key := types.NamespacedName{Namespace: "hpc", Name: "n"}
	all.get(key, "m", "run-1", time.Time{}).found = &fleet.PodIssue{Reason: "r"}
	if all.found(key, "m", "run-1") == nil || all.found(key, "m", "run-2") != nil || all.found(key, "other", "run-1") != nil {
		t.Error("what was found is not that of the run on the member")
	}
	if k := all.get(key, "m", "run-2", time.Time{}); k.found != nil {
		t.Error("the next run has what was found of the one before")
	}
	all.drop(key, "m")
	all.drop(key, "m")
	all.get(key, "m", "run-3", time.Time{})
	all.forget(key)
	if len(all.of) != 0 {
		t.Errorf("left: %v", all.of)
	}
}

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
		r := &v1alpha1.Run{ID: "run", State: v1alpha1.RunRunning}
		j := &runs.Job{RunID: "run", Pods: v1alpha1.PodCounts{Desired: 4, Ready: 3}}
		c.change(r, j)
		if got := unready(r, j); got != c.want {
			t.Errorf("%s: got %v", name, got)
		}
	}
	if unready(nil, nil) || unready(&v1alpha1.Run{State: v1alpha1.RunRunning}, nil) {
		t.Error("there is nothing that could be ready")
	}
}
