package fleetminicluster

import (
	"fmt"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/clusters"
	"github.com/minifleet/minifleet/internal/fleet"
	"github.com/minifleet/minifleet/internal/runs"
	"github.com/minifleet/minifleet/internal/sanitize"
)

// known are the UIDs of the Jobs that the ledger has seen on a member. Each is that of its run, whatever becomes of its
// labels and annotations.
func known(ledger runs.Ledger, member string) []types.UID {
	var out []types.UID
	for i := range ledger {
		if ledger[i].Cluster == member && ledger[i].JobUID != "" {
			out = append(out, ledger[i].JobUID)
		}
	}
	return out
}

// recognize reduces a Job to what rules and status need, as observe does. What the ledger knows of a Job by its UID counts
// for more than what the Job says.
func recognize(job *batchv1.Job, origin fleet.Origin, ledger runs.Ledger, member string) *runs.Job {
	if job != nil && clusters.Stripped(job, origin) {
		job = job.DeepCopy()
		metav1.SetMetaDataAnnotation(&job.ObjectMeta, v1alpha1.AnnotationSuspended, clusters.SuspensionOf(job))
	}
	j := observe(job)
	for i := range ledger {
		if run := &ledger[i]; j != nil && run.Cluster == member && string(run.JobUID) == j.UID {
			j.RunID, j.Digest, j.RerunAt = run.ID, run.Digest, run.RerunAt
		}
	}
	return j
}

// observe reduces a Job to what rules and status need; nil stays nil.
func observe(job *batchv1.Job) *runs.Job {
	if job == nil {
		return nil
	}
	size := ptr.Deref(job.Spec.Completions, 0)
	j := &runs.Job{
		UID: string(job.UID), RunID: fleet.RunOf(job), Created: job.CreationTimestamp,
		Digest: sanitize.Text(job.Annotations[v1alpha1.AnnotationRunDigest], 64), RerunAt: sanitize.Text(job.Annotations[v1alpha1.AnnotationRunToken], 253),
		Deleting: !job.DeletionTimestamp.IsZero(), CompletionTime: job.Status.CompletionTime, StartTime: job.Status.StartTime,
		Size: size, Suspended: ptr.Deref(job.Spec.Suspend, false),
		SuspendedByUs: clusters.SuspendedByUs(job), Unreleased: clusters.Unreleased(job),
		Pods: v1alpha1.PodCounts{
			Desired: size, Active: job.Status.Active, Ready: ptr.Deref(job.Status.Ready, 0),
			Succeeded: job.Status.Succeeded, Failed: job.Status.Failed,
		},
	}
	j.Said = j.Digest
	for _, condition := range job.Status.Conditions {
		if condition.Status != corev1.ConditionTrue {
			continue
		}
		switch condition.Type {
		case batchv1.JobComplete:
			j.Finished, j.Succeeded = true, true
			j.Message = successMessage(job.Status.Succeeded, size)
		case batchv1.JobSuccessCriteriaMet:
			j.Succeeding = true
		case batchv1.JobFailed:
			fail(j, &condition)
		case batchv1.JobFailureTarget:
			if doomed(job) {
				fail(j, &condition)
			}
		default:
		}
	}
	j.Succeeding = j.Succeeding && !j.Finished
	return j
}

// doomed says that a Job of which it is decided that it fails has no pod any more and is suspended. Where a Job loses its
// start time when it is suspended, the member calls it failed only when it is resumed.
func doomed(job *batchv1.Job) bool {
	return ptr.Deref(job.Spec.Suspend, false) && job.Status.Active == 0 && ptr.Deref(job.Status.Terminating, 0) == 0
}

func fail(j *runs.Job, why *batchv1.JobCondition) {
	t := why.LastTransitionTime
	j.Finished, j.Message, j.CompletionTime = true, sanitize.Text(why.Reason+": "+why.Message, 500), &t
}

// successMessage tells of the pods of a Job that has succeeded, which ends with its lead.
func successMessage(succeeded, size int32) string {
	if succeeded < size {
		return fmt.Sprintf("the lead succeeded; %d of %d pods had ended by then", succeeded, size)
	}
	return fmt.Sprintf("%d of %d pods succeeded", succeeded, size)
}
