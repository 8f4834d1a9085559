package clusters

import (
	"context"
	"errors"

	batchv1 "k8s.io/api/batch/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/internal/fleet"
)

// DeleteRun deletes a Job in the foreground: the Job stays until its pods are deleted, so that its absence
// proves theirs. Only the very Job that was observed is deleted.
func (m *Member) DeleteRun(ctx context.Context, job *batchv1.Job) error {
	if !job.DeletionTimestamp.IsZero() {
		return nil
	}
	return m.delete(ctx, job)
}

// Cleanup deletes all objects of this origin in a namespace, the Job first, in the foreground, and all else when its
// pods and those of services are deleted. It reads the member itself, not the cache, and says whether there is nothing more.
//
// Where over is given, a run that it does not call over keeps all that it has: it has begun since the
// caller read what it decided this by, which may be long ago by now.
func (m *Member) Cleanup(ctx context.Context, namespace, name string, origin fleet.Origin, over func(runID string) bool) (done bool, err error) {
	if err := m.Verify(ctx); err != nil {
		return false, err
	}
	running, err := m.cleanupKinds(ctx, true, namespace, name, origin, over)
	if err != nil || running > 0 {
		return false, err
	}
	rest, err := m.cleanupKinds(ctx, false, namespace, name, origin, over)
	return rest == 0 && err == nil, err
}

// cleanupKinds deletes the objects of the kinds that run pods, or of those that do not, and returns how many there
// were.
func (m *Member) cleanupKinds(ctx context.Context, runs bool, namespace, name string, origin fleet.Origin, over func(string) bool) (int, error) {
	all := 0
	var errs []error
	for _, k := range owned {
		if k.runs != runs {
			continue
		}
		n, err := m.cleanupKind(ctx, k.list(), namespace, name, origin, over)
		if _, isJob := k.object().(*batchv1.Job); isJob && n == 0 && err == nil {
			n, err = m.cleanupUnlabelled(ctx, types.NamespacedName{Namespace: namespace, Name: name}, origin)
		}
		all += n
		errs = append(errs, err)
	}
	return all, errors.Join(errs...)
}

// cleanupUnlabelled deletes the Job of this name, should its labels have been taken off.
func (m *Member) cleanupUnlabelled(ctx context.Context, key types.NamespacedName, origin fleet.Origin) (int, error) {
	var job batchv1.Job
	if err := m.GetLive(ctx, key, &job); err != nil {
		return 0, client.IgnoreNotFound(err)
	}
	if !origin.Owns(&job) {
		return 0, nil
	}
	return 1, m.DeleteRun(ctx, &job)
}

// cleanupKind deletes the objects of one kind, but of runs that are not over, and returns how many there were.
func (m *Member) cleanupKind(ctx context.Context, list client.ObjectList, namespace, name string, origin fleet.Origin, over func(string) bool) (int, error) {
	readCtx, cancel := context.WithTimeout(ctx, ReadTimeout)
	defer cancel()
	err := m.GetAPIReader().List(readCtx, list, client.InNamespace(namespace), client.MatchingLabels{
		v1alpha1.LabelManagedBy: v1alpha1.ManagedBy, v1alpha1.LabelOwner: name,
	})
	if err != nil {
		return 0, err
	}
	n := 0
	var errs []error
	_ = meta.EachListItem(list, func(o runtime.Object) error {
		if obj, ok := o.(client.Object); ok && origin.Owns(obj) {
			n++
			run := obj.GetLabels()[v1alpha1.LabelRun]
			if obj.GetDeletionTimestamp().IsZero() && (over == nil || run == "" || over(run)) {
				errs = append(errs, m.delete(ctx, obj))
			}
		}
		return nil
	})
	return n, errors.Join(errs...)
}

func (m *Member) delete(ctx context.Context, obj client.Object) error {
	if err := m.Verify(ctx); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, WriteTimeout)
	defer cancel()
	uid := obj.GetUID()
	policy := metav1.DeletePropagationBackground
	if _, isJob := obj.(*batchv1.Job); isJob {
		policy = metav1.DeletePropagationForeground
	}
	err := m.GetClient().Delete(ctx, obj, client.Preconditions{UID: &uid}, client.PropagationPolicy(policy))
	return client.IgnoreNotFound(ignoreOtherUID(err))
}

// ignoreOtherUID drops the conflict that says that the object of this UID is deleted and another one has its
// name; whoever reads it next finds out whose that is.
func ignoreOtherUID(err error) error {
	if apierrors.IsConflict(err) {
		return nil
	}
	return err
}
