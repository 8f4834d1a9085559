package runs_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/internal/runs"
)

// at is so many seconds after some moment.
func at(seconds int) *metav1.Time {
	return &metav1.Time{Time: time.Date(2026, 5, 1, 12, 0, seconds, 0, time.UTC)}
}

// times is a live run that was begun at 0, with its pods seen running and no more running at these times.
func times(running, pending, lost *metav1.Time) v1alpha1.Run {
	r := line("a", v1alpha1.RunRunning)
	r.StartTime, r.RunningTime, r.PendingSince, r.LostTime = at(0), running, pending, lost
	return *r
}

// suspendedAt is a run that was suspended, and whose pods have not been seen running since.
func suspendedAt(suspended *metav1.Time, r v1alpha1.Run) v1alpha1.Run {
	r.SuspendedTime = suspended
	return r
}

func pods(ready, succeeded, failed int32) func(*runs.Job) {
	return func(j *runs.Job) {
		j.Pods = v1alpha1.PodCounts{Desired: j.Size, Ready: ready, Succeeded: succeeded, Failed: failed}
	}
}

func of(n int32) func(*runs.Job) { return func(j *runs.Job) { j.Size = n } }

func TestTrack(t *testing.T) {
	starting := times(nil, nil, nil)
	starting.State = v1alpha1.RunStarting
	cases := map[string]struct {
		run    v1alpha1.Run
		job    *runs.Job
		quorum int32
		want   v1alpha1.Run
	}{
		"no pods yet":                        {times(nil, nil, nil), job("a", pods(0, 0, 0)), 0, times(nil, nil, nil)},
		"some of them":                       {times(nil, nil, nil), job("a", pods(1, 0, 0)), 0, times(nil, nil, nil)},
		"as many as it needs to begin":       {times(nil, nil, nil), job("a", pods(1, 0, 0)), 1, times(at(9), nil, nil)},
		"all of them":                        {times(nil, nil, nil), job("a", pods(2, 0, 0)), 0, times(at(9), nil, nil)},
		"all of them, some at their end":     {times(nil, nil, nil), job("a", pods(0, 1, 1)), 0, times(at(9), nil, nil)},
		"fewer than it needs, after a scale": {times(nil, nil, nil), job("a", of(1), pods(1, 0, 0)), 2, times(at(9), nil, nil)},
		"still":                              {times(at(3), nil, nil), job("a", pods(2, 0, 0)), 0, times(at(3), nil, nil)},
		"one of two":                         {times(at(3), nil, nil), job("a", pods(1, 0, 0)), 0, times(at(3), nil, nil)},
		"none any more":                      {times(at(3), nil, nil), job("a", pods(0, 0, 0)), 0, times(at(3), at(9), nil)},
		"still none":                         {times(at(3), at(5), nil), job("a", pods(0, 1, 0)), 0, times(at(3), at(5), nil)},
		"one again":                          {times(at(3), at(5), nil), job("a", pods(1, 0, 0)), 0, times(at(3), nil, nil)},
		"all have succeeded":                 {times(at(3), nil, nil), job("a", pods(0, 2, 0)), 0, times(at(3), nil, nil)},
		"suspended":                          {times(at(3), nil, nil), job("a", suspended, pods(0, 0, 0)), 0, suspendedAt(at(9), times(at(3), nil, nil))},
		"suspended before it ran":            {times(nil, nil, nil), job("a", suspended, pods(0, 0, 0)), 0, times(nil, nil, nil)},
		"suspended while none ran":           {times(at(3), at(5), nil), job("a", suspended, pods(0, 0, 0)), 0, suspendedAt(at(9), times(at(3), nil, nil))},
		"still suspended":                    {suspendedAt(at(7), times(at(3), nil, nil)), job("a", suspended, pods(0, 0, 0)), 0, suspendedAt(at(7), times(at(3), nil, nil))},
		"suspended while queued again":       {suspendedAt(at(7), times(at(3), at(7), nil)), job("a", suspended, pods(0, 0, 0)), 0, suspendedAt(at(7), times(at(3), nil, nil))},
		"resumed, without pods":              {suspendedAt(at(7), times(at(3), nil, nil)), job("a", pods(0, 0, 0)), 0, suspendedAt(at(7), times(at(3), nil, nil))},
		"resumed, with some pods":            {suspendedAt(at(7), times(at(3), nil, nil)), job("a", pods(1, 0, 0)), 0, suspendedAt(at(7), times(at(3), nil, nil))},
		"resumed, with all pods":             {suspendedAt(at(7), times(at(3), nil, nil)), job("a", pods(2, 0, 0)), 0, times(at(3), nil, nil)},
		"queued by the member":               {times(nil, nil, nil), job("a", queued, pods(0, 0, 0)), 0, times(nil, nil, nil)},
		"queued by the member again":         {times(at(3), nil, nil), job("a", queued, pods(0, 0, 0)), 0, suspendedAt(at(9), times(at(3), at(9), nil))},
		"still queued again":                 {suspendedAt(at(5), times(at(3), at(5), nil)), job("a", queued, pods(0, 0, 0)), 0, suspendedAt(at(5), times(at(3), at(5), nil))},
		"released by the queue":              {suspendedAt(at(5), times(at(3), at(5), nil)), job("a", pods(2, 0, 0)), 0, times(at(3), nil, nil)},
		"heard of again":                     {times(at(3), nil, at(4)), job("a", pods(2, 0, 0)), 0, times(at(3), nil, nil)},
		"not there":                          {times(at(3), nil, at(4)), nil, 0, times(at(3), nil, at(4))},
		"another run's":                      {times(at(3), nil, at(4)), job("b", pods(0, 0, 0)), 0, times(at(3), nil, at(4))},
		"at its end":                         {times(at(3), nil, nil), job("a", succeeded, pods(0, 0, 0)), 0, times(at(3), nil, nil)},
		"about to have succeeded":            {times(at(3), nil, nil), job("a", ending, pods(0, 1, 0)), 0, times(at(3), nil, nil)},
		"being deleted":                      {times(at(3), nil, nil), job("a", deleting, pods(0, 0, 0)), 0, times(at(3), nil, nil)},
		"not known to be there yet":          {starting, job("a", pods(2, 0, 0)), 0, starting},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, runs.Track(c.run, c.job, c.quorum, at(9))); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestStuck(t *testing.T) {
	resumed := func(j *runs.Job) { j.StartTime = at(30) }
	both := runs.Patience{Pending: 10 * time.Second, Lost: 20 * time.Second}
	starting := times(nil, nil, nil)
	starting.State = v1alpha1.RunStarting
	cases := map[string]struct {
		run      v1alpha1.Run
		job      *runs.Job
		quorum   int32
		patience runs.Patience
		stop     v1alpha1.StopReason
		until    *metav1.Time
	}{
		"no pods yet":                         {times(nil, nil, nil), job("a", pods(0, 0, 0)), 0, both, v1alpha1.StopNotStarted, at(10)},
		"not all":                             {times(nil, nil, nil), job("a", pods(1, 0, 0)), 0, both, v1alpha1.StopNotStarted, at(10)},
		"not all, since it was resumed":       {suspendedAt(at(7), times(at(3), nil, nil)), job("a", resumed, pods(1, 0, 0)), 0, both, v1alpha1.StopNotStarted, at(40)},
		"none, since it was resumed":          {suspendedAt(at(7), times(at(3), nil, nil)), job("a", resumed, pods(0, 0, 0)), 0, both, v1alpha1.StopNotStarted, at(40)},
		"all, since it was resumed":           {suspendedAt(at(7), times(at(3), nil, nil)), job("a", resumed, pods(2, 0, 0)), 0, both, "", nil},
		"resumed before it ever ran":          {times(nil, nil, nil), job("a", resumed, pods(1, 0, 0)), 0, both, v1alpha1.StopNotStarted, at(40)},
		"enough":                              {times(nil, nil, nil), job("a", pods(1, 0, 0)), 1, both, "", nil},
		"no pods yet, and all the time":       {times(nil, nil, nil), job("a", pods(0, 0, 0)), 0, runs.Patience{Lost: time.Second}, "", nil},
		"none any more":                       {times(at(3), at(5), nil), job("a", pods(0, 1, 0)), 0, both, v1alpha1.StopLost, at(25)},
		"none any more, and no failover":      {times(at(3), at(5), nil), job("a", pods(0, 0, 0)), 0, runs.Patience{Pending: time.Second}, "", nil},
		"one again, not recorded":             {times(at(3), at(5), nil), job("a", pods(1, 0, 0)), 0, both, "", nil},
		"all again, not recorded":             {times(nil, nil, nil), job("a", pods(2, 0, 0)), 0, both, "", nil},
		"running":                             {times(at(3), nil, nil), job("a", pods(1, 0, 0)), 0, both, "", nil},
		"suspended":                           {suspendedAt(at(7), times(at(3), nil, nil)), job("a", suspended), 0, both, "", nil},
		"queued by the member":                {times(nil, nil, nil), job("a", queued), 0, both, v1alpha1.StopNotStarted, at(10)},
		"queued by the member again":          {suspendedAt(at(7), times(at(3), at(7), nil)), job("a", queued), 0, both, v1alpha1.StopNotStarted, at(17)},
		"about to have succeeded":             {times(at(3), at(5), nil), job("a", ending, pods(0, 1, 0)), 0, both, "", nil},
		"being deleted":                       {times(nil, nil, nil), job("a", deleting), 0, both, "", nil},
		"finished":                            {times(nil, nil, nil), job("a", failed), 0, both, "", nil},
		"not there":                           {times(nil, nil, nil), nil, 0, both, "", nil},
		"another run's":                       {times(nil, nil, nil), job("b"), 0, both, "", nil},
		"refused by the member":               {starting, nil, 0, both, v1alpha1.StopNotStarted, at(10)},
		"refused by the member all the time":  {starting, nil, 0, runs.Patience{Lost: time.Second}, "", nil},
		"not known to have been made":         {starting, job("a"), 0, both, "", nil},
		"of a version that did not note that": {*line("a", v1alpha1.RunRunning), job("a"), 0, both, "", nil},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got := c.patience.StuckOn(&c.run, c.job, c.quorum)
			switch {
			case (got == nil) != (c.until == nil):
				t.Errorf("got %+v", got)
			case got != nil && (got.Stop != c.stop || !got.Until.Equal(c.until.Time) || got.Why == ""):
				t.Errorf("got %+v, want %s until %s", got, c.stop, c.until)
			}
		})
	}
	if both.StuckOn(nil, nil, 0) != nil {
		t.Error("no run is stuck")
	}
}
