package clusters

import (
	"context"
	"encoding/json"
	"fmt"

	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/internal/fleet"
)

// Marks are the labels and annotations by which a Job of a run is known.
type Marks struct{ Labels, Annotations map[string]string }

// MarksOf are those of a run's Job. Suspended is the value of its annotation, empty if that is to stay as it is.
func MarksOf(name string, origin fleet.Origin, run *v1alpha1.Run, suspended string) Marks {
	m := Marks{
		Labels:      map[string]string{v1alpha1.LabelManagedBy: v1alpha1.ManagedBy, v1alpha1.LabelOwner: name, v1alpha1.LabelRun: run.ID},
		Annotations: origin.Annotations(),
	}
	m.Annotations[v1alpha1.AnnotationRunDigest] = run.Digest
	if run.RerunAt != "" {
		m.Annotations[v1alpha1.AnnotationRunToken] = run.RerunAt
	}
	if suspended != "" {
		m.Annotations[v1alpha1.AnnotationSuspended] = suspended
	}
	return m
}

// On says whether a Job bears them all.
func (k Marks) On(job *batchv1.Job) bool {
	return subset(k.Labels, job.Labels) && subset(k.Annotations, job.Annotations)
}

// Stripped says whether somebody has taken from a Job of ours what says whose it is. Its annotation about suspension may
// be missing as well then.
func Stripped(job *batchv1.Job, origin fleet.Origin) bool { return !origin.Owns(job) }

// SuspensionOf is what the annotation about suspension of a stripped Job has been: it was held back if it has never made a
// pod, and else suspended by MiniFleet, if it is suspended at all. Queues on the member hold Jobs as well.
func SuspensionOf(job *batchv1.Job) string {
	switch {
	case job.Annotations[v1alpha1.AnnotationSuspended] != "":
		return job.Annotations[v1alpha1.AnnotationSuspended]
	case fleet.Queued(job.Labels), !ptr.Deref(job.Spec.Suspend, false):
		return "false"
	case job.Status.StartTime == nil && job.Status.Active+job.Status.Succeeded+job.Status.Failed == 0:
		return v1alpha1.SuspendedUnreleased
	default:
		return "true"
	}
}

// PutBack writes marks onto a Job, and onto no other one that has its name by now.
func (m *Member) PutBack(ctx context.Context, job *batchv1.Job, marks Marks) error {
	if err := m.Verify(ctx); err != nil {
		return err
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": job.UID, "labels": marks.Labels, "annotations": marks.Annotations,
	}})
	if err != nil {
		return fmt.Errorf("the marks of Job %s: %w", job.Name, err)
	}
	ctx, cancel := context.WithTimeout(ctx, WriteTimeout)
	defer cancel()
	return m.GetClient().Patch(ctx, job.DeepCopy(), client.RawPatch(types.MergePatchType, patch), client.FieldOwner(v1alpha1.FieldManager))
}
