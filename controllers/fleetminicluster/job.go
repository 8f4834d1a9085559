package fleetminicluster

import (
	"fmt"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/clusters"
	"github.com/minifleet/minifleet/internal/fleet"
	"github.com/minifleet/minifleet/internal/runs"
	"github.com/minifleet/minifleet/internal/sanitize"
)

// observe reduces a Job to what rules and status need; nil stays nil.
func observe(job *batchv1.Job) *runs.Job {
	if job == nil {
		return nil
	}
	size := ptr.Deref(job.Spec.Completions, 0)
	j := &runs.Job{
		UID: string(job.UID), RunID: fleet.RunID(job.Labels),
		Digest: sanitize.Text(job.Annotations[v1alpha1.AnnotationRunDigest], 64), RerunAt: sanitize.Text(job.Annotations[v1alpha1.AnnotationRunToken], 253),
		Deleting: !job.DeletionTimestamp.IsZero(), CompletionTime: job.Status.CompletionTime, StartTime: job.Status.StartTime,
		Size: size, Suspended: ptr.Deref(job.Spec.Suspend, false),
		SuspendedByUs: clusters.SuspendedByUs(job), Unreleased: clusters.Unreleased(job),
		Pods: v1alpha1.PodCounts{
			Desired: size, Active: job.Status.Active, Ready: ptr.Deref(job.Status.Ready, 0),
			Succeeded: job.Status.Succeeded, Failed: job.Status.Failed,
		},
	}
	for _, condition := range job.Status.Conditions {
		if condition.Status != corev1.ConditionTrue {
			continue
		}
		switch condition.Type {
		case batchv1.JobComplete:
			j.Finished, j.Succeeded = true, true
			j.Message = fmt.Sprintf("%d of %d pods succeeded", job.Status.Succeeded, size)
		case batchv1.JobFailed:
			j.Finished, j.Message = true, sanitize.Text(condition.Reason+": "+condition.Message, 500)
			t := condition.LastTransitionTime
			j.CompletionTime = &t
		default:
		}
	}
	return j
}
