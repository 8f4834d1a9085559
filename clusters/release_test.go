package clusters_test

import (
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/clusters"
)

func TestHoldBack(t *testing.T) {
	t.Parallel()
	job := &batchv1.Job{Spec: batchv1.JobSpec{Suspend: ptr.To(false)}}
	if !clusters.HoldBack(job) || !*job.Spec.Suspend || !clusters.Unreleased(job) || !clusters.SuspendedByUs(job) {
		t.Errorf("not held back: %+v", job)
	}
	job.Spec.Suspend = ptr.To(false) // by a person on the member
	if clusters.Unreleased(job) {
		t.Error("a Job that runs is called unreleased")
	}

	queued := &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"kueue.x-k8s.io/queue-name": "users"}},
		Spec:       batchv1.JobSpec{Suspend: ptr.To(false)},
	}
	if clusters.HoldBack(queued) || *queued.Spec.Suspend || queued.Annotations[v1alpha1.AnnotationSuspended] != "" {
		t.Errorf("held back although a queue releases it: %+v", queued)
	}
}
