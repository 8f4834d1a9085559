package controllers

import (
	"fmt"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/clusters"
	"github.com/minifleet/minifleet/internal/fleet"
	"github.com/minifleet/minifleet/internal/runs"
	"github.com/minifleet/minifleet/internal/sanitize"
)

// observe reduces a Job to what the rules and the status need; nil stays nil.
func observe(job *batchv1.Job) *runs.Job {
	if job == nil {
		return nil
	}
	size := value(job.Spec.Completions)
	j := &runs.Job{
		UID: string(job.UID), RunID: fleet.RunID(job.Labels),
		Digest: sanitize.Text(job.Annotations[v1alpha1.AnnotationRunDigest], 64), RerunAt: sanitize.Text(job.Annotations[v1alpha1.AnnotationRunToken], 253),
		Deleting: !job.DeletionTimestamp.IsZero(), CompletionTime: job.Status.CompletionTime, StartTime: job.Status.StartTime,
		Size: size, Suspended: ptr.Deref(job.Spec.Suspend, false),
		SuspendedByUs: clusters.SuspendedByUs(job), Unreleased: clusters.Unreleased(job),
		Pods: v1alpha1.PodCounts{
			Desired: size, Active: job.Status.Active, Ready: value(job.Status.Ready),
			Succeeded: job.Status.Succeeded, Failed: job.Status.Failed,
		},
	}
	for _, c := range job.Status.Conditions {
		if c.Status != corev1.ConditionTrue {
			continue
		}
		switch c.Type {
		case batchv1.JobComplete:
			j.Finished, j.Succeeded = true, true
			j.Message = fmt.Sprintf("%d of %d pods succeeded", job.Status.Succeeded, size)
		case batchv1.JobFailed:
			j.Finished, j.Message = true, sentence(c.Reason, c.Message)
			t := c.LastTransitionTime
			j.CompletionTime = &t
		default:
		}
	}
	return j
}

func sentence(reason, message string) string {
	return sanitize.Text(reason+": "+message, 500)
}

func value(p *int32) int32 {
	if p == nil {
		return 0
	}
	return *p
}

func lower(s v1alpha1.RunState) string { return strings.ToLower(string(s)) }
