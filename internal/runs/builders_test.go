package runs_test

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/internal/runs"
)

// wanted is digest 1 on two pods of a chosen member, unless told otherwise.
func wanted(change ...func(*runs.Wanted)) runs.Wanted {
	w := runs.Wanted{Digest: "1", Size: 2, OnChange: v1alpha1.AfterCompletion, Chosen: true}
	for _, c := range change {
		c(&w)
	}
	return w
}

func digest(d string) func(*runs.Wanted) { return func(w *runs.Wanted) { w.Digest = d } }
func token(t string) func(*runs.Wanted)  { return func(w *runs.Wanted) { w.RerunAt = t } }
func size(n int32) func(*runs.Wanted)    { return func(w *runs.Wanted) { w.Size = n } }
func replace(w *runs.Wanted)             { w.OnChange = v1alpha1.Replace }
func suspend(w *runs.Wanted)             { w.Suspend = true }
func cleanup(w *runs.Wanted)             { w.Cleanup = true }
func retries(n int32) func(*runs.Wanted) { return func(w *runs.Wanted) { w.Retries = n } }
func cancel(id string) func(*runs.Wanted) {
	return func(w *runs.Wanted) { w.Cancel = []string{id} }
}
func noFailover(w *runs.Wanted) { w.NoFailover = true }
func removed(w *runs.Wanted)    { w.Chosen = false }
func hold(w *runs.Wanted)       { w.Hold = "waiting for another member" }

// line is a run of digest 1 in the ledger.
func line(id string, state v1alpha1.RunState) *v1alpha1.Run {
	return &v1alpha1.Run{ID: id, Cluster: "alpine", Digest: "1", State: state}
}

func answering(token string, r *v1alpha1.Run) *v1alpha1.Run {
	r.RerunAt = token
	return r
}

func attempt(n int32, r *v1alpha1.Run) *v1alpha1.Run {
	r.Attempt = n
	return r
}

// job is a live Job of two pods.
func job(runID string, change ...func(*runs.Job)) *runs.Job {
	j := &runs.Job{UID: "uid-" + runID, RunID: runID, Digest: "1", Size: 2}
	for _, c := range change {
		c(j)
	}
	return j
}

func succeeded(j *runs.Job) { j.Finished, j.Succeeded = true, true }
func ending(j *runs.Job)    { j.Succeeding = true }
func failed(j *runs.Job)    { j.Finished = true }
func deleting(j *runs.Job)  { j.Deleting = true }
func suspended(j *runs.Job) { j.Suspended, j.SuspendedByUs = true, true }
func heldBack(j *runs.Job)  { suspended(j); j.Unreleased = true }
func queued(j *runs.Job)    { j.Suspended = true }

func endedIn(last *v1alpha1.Run, ids ...string) func(string) bool {
	return func(id string) bool {
		return slices.Contains(ids, id) || last != nil && last.ID == id && last.State.Ended()
	}
}

func stopped(why v1alpha1.StopReason, r *v1alpha1.Run) *v1alpha1.Run {
	r.Stop = why
	return r
}

// created is a run whose Job was seen.
func created(uid types.UID, r *v1alpha1.Run) *v1alpha1.Run {
	r.JobUID = uid
	return r
}

func lost(r *v1alpha1.Run) *v1alpha1.Run {
	r.LostTime = &metav1.Time{}
	return r
}
