package clusters

import (
	"context"
	"errors"
	"reflect"
	"slices"

	batchv1 "k8s.io/api/batch/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/internal/fleet"
)

// conflictOf describes an object under our name that this origin does not own.
func conflictOf(o fleet.Origin, kind string, obj client.Object) *Conflict {
	of := fleet.OriginOf(obj)
	c := &Conflict{Kind: kind, Namespace: obj.GetNamespace(), Name: obj.GetName()}
	switch {
	case of.FleetID != "" && of.FleetID != o.FleetID:
		c.OtherFleet = true
	case of.Owner == "":
	case of.Namespace() == o.Namespace():
		c.Owner = of.Owner
	default:
		c.OtherNamespace = true
	}
	return c
}

// Job returns the Job of this name from the cache, or nil where there is none. With live set, an absence
// is confirmed by the member itself: a cache may lag, and labels that the cache selects on may have been
// taken off. A Job with one of the UIDs that are known is the origin's own, whatever has become of its annotations. The
// error is a *Conflict for somebody else's Job.
func (m *Member) Job(ctx context.Context, key types.NamespacedName, origin fleet.Origin, live bool, known ...types.UID) (*batchv1.Job, error) {
	if err := m.covers(key.Namespace, origin); err != nil {
		return nil, err
	}
	var job batchv1.Job
	err := m.GetClient().Get(ctx, key, &job)
	if apierrors.IsNotFound(err) && live {
		return m.LiveJob(ctx, key, origin, known...)
	}
	return ownJob(&job, err, origin, known)
}

// SharedJob returns the Job of this name as the cache holds it, or nil where there is none, or somebody else's. It is not
// to be changed.
func (m *Member) SharedJob(ctx context.Context, key types.NamespacedName, origin fleet.Origin, known ...types.UID) *batchv1.Job {
	if key.Namespace == "" {
		return nil // the hub's namespace has none here (KeyOf)
	}
	if jobs, ok := m.jobsOf(ctx, origin.Owner); ok && len(known)+len(jobs) == 0 {
		return nil // none says that it is the origin's, and no other would be taken for that
	}
	var job batchv1.Job
	err := m.GetClient().Get(ctx, key, &job, &client.GetOptions{UnsafeDisableDeepCopy: ptr.To(true)})
	if own, err := ownJob(&job, err, origin, known); err == nil {
		return own
	}
	return nil
}

// LiveJob returns the Job of this name from the member itself, or nil where there is none.
func (m *Member) LiveJob(ctx context.Context, key types.NamespacedName, origin fleet.Origin, known ...types.UID) (*batchv1.Job, error) {
	if key.Namespace == "" {
		return nil, nil // the hub's namespace has none here (KeyOf)
	}
	var job batchv1.Job
	err := m.GetLive(ctx, key, &job)
	return ownJob(&job, err, origin, known)
}

// UnreleasedJob returns whose Job the one of this name in the cache is, if this hub has created it and never released
// it; else an empty Origin.
func (m *Member) UnreleasedJob(ctx context.Context, key types.NamespacedName, fleetID string) (fleet.Origin, error) {
	var job batchv1.Job
	if err := m.GetClient().Get(ctx, key, &job); err != nil {
		return fleet.Origin{}, client.IgnoreNotFound(err)
	}
	of := fleet.OriginOf(&job)
	if of.FleetID != fleetID || !of.Owns(&job) || !Unreleased(&job) {
		return fleet.Origin{}, nil
	}
	return of, nil
}

// ownJob is the Job that was read, nil where there is none, or a *Conflict for somebody else's.
func ownJob(job *batchv1.Job, err error, origin fleet.Origin, known []types.UID) (*batchv1.Job, error) {
	switch {
	case err != nil:
		return nil, client.IgnoreNotFound(err)
	case !owns(origin, job, known):
		return nil, conflictOf(origin, "Job", job)
	default:
		return job, nil
	}
}

// owns says whether a Job is the origin's, by what it says or by its UID.
func owns(origin fleet.Origin, job *batchv1.Job, known []types.UID) bool {
	return origin.Owns(job) || job.UID != "" && slices.Contains(known, job.UID)
}

// GetLive reads an object from the member itself, not the cache, after making sure that it is the right one.
func (m *Member) GetLive(ctx context.Context, key types.NamespacedName, into client.Object) error {
	if err := m.Verify(ctx); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, ReadTimeout)
	defer cancel()
	err := m.GetAPIReader().Get(ctx, key, into)
	if apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse) {
		// A proxy's "not found" is no proof that an object is not there.
		return &Error{v1alpha1.ReasonUnreachable, errors.New("what answers at the member's address is not its API server")}
	}
	if err != nil {
		return err
	}
	return m.line.checkNames(into, "GET "+key.String())
}

// emptyLike returns an empty object of the kind of obj.
func emptyLike(obj client.Object) client.Object {
	return reflect.New(reflect.TypeOf(obj).Elem()).Interface().(client.Object) //nolint:forcetypeassert // it has the type of obj
}
