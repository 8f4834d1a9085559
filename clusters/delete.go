package clusters

import (
	"context"
	"errors"
	"slices"

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

// Removal says what of a FleetMiniCluster is deleted on a member.
type Removal struct {
	// Owns says whether an object is to be deleted at all. A Job with one of the UIDs in Jobs is, whatever it says.
	Owns func(metav1.Object) bool
	Jobs []types.UID
	// Over, where it is given, spares all that a run has which it does not call over: that has begun since the caller
	// read what it decided this by, which may be long ago by now.
	Over func(runID string) bool
	// KeepRecord leaves the record of runs that have ended.
	KeepRecord bool
}

// Cleanup deletes the objects of a FleetMiniCluster in a namespace, the Job first, in the foreground, and all else when
// its pods and those of services are deleted. It reads the member itself, not the cache, and says whether there is nothing
// more.
func (m *Member) Cleanup(ctx context.Context, key types.NamespacedName, r Removal) (done bool, err error) {
	if key.Namespace == "" {
		return true, nil // the hub's namespace has none here (KeyOf)
	}
	if err := m.Verify(ctx); err != nil {
		return false, err
	}
	running, err := m.cleanupKinds(ctx, true, key, &r)
	if err != nil || running > 0 {
		return false, err
	}
	rest, err := m.cleanupKinds(ctx, false, key, &r)
	return rest == 0 && err == nil, err
}

// spares says whether an object stays for the sake of its run.
func (r *Removal) spares(run string) bool { return r.Over != nil && run != "" && !r.Over(run) }

// concerns says whether an object is to be deleted, now or when its run is over.
func (r *Removal) concerns(obj client.Object) bool {
	return r.Owns(obj) && (!r.KeepRecord || obj.GetLabels()[v1alpha1.LabelRecord] == "")
}

// cleanupKinds deletes the objects of the kinds that run pods, or of those that do not, and returns how many there
// were.
func (m *Member) cleanupKinds(ctx context.Context, runs bool, key types.NamespacedName, r *Removal) (int, error) {
	all := 0
	var errs []error
	for _, k := range owned {
		if k.runs != runs {
			continue
		}
		n, err := m.cleanupKind(ctx, k.list(), key, r)
		if _, isJob := k.object().(*batchv1.Job); isJob && n == 0 && err == nil {
			n, err = m.cleanupUnlabelled(ctx, key, r)
		}
		all += n
		errs = append(errs, err)
	}
	return all, errors.Join(errs...)
}

// cleanupUnlabelled deletes the Job of this name, should its labels have been taken off.
func (m *Member) cleanupUnlabelled(ctx context.Context, key types.NamespacedName, r *Removal) (int, error) {
	var job batchv1.Job
	if err := m.GetLive(ctx, key, &job); err != nil {
		return 0, client.IgnoreNotFound(err)
	}
	if !r.Owns(&job) && !slices.Contains(r.Jobs, job.UID) {
		return 0, nil
	}
	if r.spares(fleet.RunOf(&job)) {
		return 1, nil
	}
	return 1, m.DeleteRun(ctx, &job)
}

// cleanupKind deletes the objects of one kind, but of runs that are not over, and returns how many there were.
func (m *Member) cleanupKind(ctx context.Context, list client.ObjectList, key types.NamespacedName, r *Removal) (int, error) {
	readCtx, cancel := context.WithTimeout(ctx, ReadTimeout)
	defer cancel()
	err := m.GetAPIReader().List(readCtx, list, client.InNamespace(key.Namespace), client.MatchingLabels{
		v1alpha1.LabelManagedBy: v1alpha1.ManagedBy, v1alpha1.LabelOwner: key.Name,
	})
	if err != nil {
		return 0, err
	}
	n := 0
	var errs []error
	_ = meta.EachListItem(list, func(o runtime.Object) error {
		if obj, ok := o.(client.Object); ok && r.concerns(obj) {
			n++
			if obj.GetDeletionTimestamp().IsZero() && !r.spares(runOf(obj)) {
				errs = append(errs, m.delete(ctx, obj))
			}
		}
		return nil
	})
	return n, errors.Join(errs...)
}

// runOf is the run that an object is part of, or "".
func runOf(obj client.Object) string {
	if job, ok := obj.(*batchv1.Job); ok {
		return fleet.RunOf(job)
	}
	return obj.GetLabels()[v1alpha1.LabelRun]
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
