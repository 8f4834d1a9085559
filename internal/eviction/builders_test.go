package eviction_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/internal/runs"
)

// at is so many seconds after some moment.
func at(seconds int) time.Time { return time.Date(2026, 5, 1, 12, 0, seconds, 0, time.UTC) }

func since(seconds int) *metav1.Time { return &metav1.Time{Time: at(seconds)} }

// wanted is digest 1.
func wanted(change ...func(*runs.Wanted)) runs.Wanted {
	w := runs.Wanted{Digest: "1", Size: 2, Chosen: true}
	for _, c := range change {
		c(&w)
	}
	return w
}

// run is one of digest 1 on alpine that was begun at 0, unless told otherwise.
func run(id string, state v1alpha1.RunState, change ...func(*v1alpha1.Run)) v1alpha1.Run {
	r := v1alpha1.Run{ID: id, Cluster: "alpine", Digest: "1", State: state, StartTime: since(0)}
	for _, c := range change {
		c(&r)
	}
	return r
}

func on(member string) func(*v1alpha1.Run) { return func(r *v1alpha1.Run) { r.Cluster = member } }

// outdated makes a run one for what was wanted before.
func outdated(r *v1alpha1.Run) { r.Digest = "0" }

func attempt(n int32) func(*v1alpha1.Run) { return func(r *v1alpha1.Run) { r.Attempt = n } }

func stopped(why v1alpha1.StopReason) func(*v1alpha1.Run) {
	return func(r *v1alpha1.Run) { r.Stop = why }
}

// begun says when all pods ran for the first time.
func begun(seconds int) func(*v1alpha1.Run) {
	return func(r *v1alpha1.Run) { r.RunningTime = since(seconds) }
}

// paused says when it was suspended, its pods not having run since.
func paused(seconds int) func(*v1alpha1.Run) {
	return func(r *v1alpha1.Run) { r.SuspendedTime = since(seconds) }
}

// pending says since when no pod runs.
func pending(seconds int) func(*v1alpha1.Run) {
	return func(r *v1alpha1.Run) { r.PendingSince = since(seconds) }
}

// job is that of a run, with so many of its two pods ready.
func job(id string, ready int32, change ...func(*runs.Job)) *runs.Job {
	j := &runs.Job{UID: "uid-" + id, RunID: id, Digest: "1", Size: 2, Pods: v1alpha1.PodCounts{Desired: 2, Ready: ready}}
	for _, c := range change {
		c(j)
	}
	return j
}

func member(name string, change ...func(*v1alpha1.MemberCluster)) *v1alpha1.MemberCluster {
	m := &v1alpha1.MemberCluster{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{}}}
	for _, c := range change {
		c(m)
	}
	return m
}

func annotated(key, value string) func(*v1alpha1.MemberCluster) {
	return func(m *v1alpha1.MemberCluster) { m.Annotations[key] = value }
}

func deleted(policy v1alpha1.DeletionPolicy) func(*v1alpha1.MemberCluster) {
	return func(m *v1alpha1.MemberCluster) { m.DeletionTimestamp, m.Spec.DeletionPolicy = since(0), policy }
}

func equal[T any](t *testing.T, want, got T) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
