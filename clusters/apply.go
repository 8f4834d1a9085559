package clusters

import (
	"context"
	"errors"
	"fmt"
	"maps"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/internal/fleet"
)

// Difference says how an object on a member differs from the one that is wanted.
type Difference string

// Values of Difference.
const (
	// Same means that there is nothing to write.
	Same Difference = "Same"
	// Absent means that the cache does not hold the object.
	Absent Difference = "Absent"
	// Outdated means that it was applied from another rendering.
	Outdated Difference = "Outdated"
	// Drifted means that somebody has edited it since it was applied.
	Drifted Difference = "Drifted"
)

// Compare compares a wanted ConfigMap, Secret or Service with what the cache holds, without a request.
func (m *Member) Compare(ctx context.Context, want client.Object, origin fleet.Origin) (Difference, error) {
	have := emptyLike(want)
	err := m.GetClient().Get(ctx, client.ObjectKeyFromObject(want), have)
	if apierrors.IsNotFound(err) {
		return Absent, nil
	}
	if err != nil {
		return "", err
	}
	if !origin.Owns(have) {
		return "", conflictOf(origin, kindOf(want), have)
	}
	return difference(want, have), nil
}

func difference(want, have client.Object) Difference {
	if want, ok := want.(*corev1.Secret); ok {
		return secretDifference(want, have.(*corev1.Secret)) //nolint:forcetypeassert // emptyLike made it of the same kind
	}
	switch {
	case have.GetAnnotations()[v1alpha1.AnnotationDigest] != want.GetAnnotations()[v1alpha1.AnnotationDigest]:
		return Outdated
	case drifted(want, have):
		return Drifted
	default:
		return Same
	}
}

// secretDifference tells an edited Secret from one with another certificate by the hash of its content,
// which it carries, so that the hub need not read its own copy of a key for a mere comparison.
func secretDifference(want, have *corev1.Secret) Difference {
	switch {
	case have.Annotations[SecretContentAnnotation] != contentDigest(have.Data), !subset(want.Labels, have.Labels), !sameOrigin(want, have):
		return Drifted
	case contentDigest(want.Data) != contentDigest(have.Data):
		return Outdated
	default:
		return Same
	}
}

// sameOrigin leaves the UID of the owner out: what a live run began with is not replaced because its FleetMiniCluster
// was created anew.
func sameOrigin(want, have client.Object) bool {
	return want.GetAnnotations()[v1alpha1.AnnotationFleetID] == have.GetAnnotations()[v1alpha1.AnnotationFleetID] &&
		want.GetAnnotations()[v1alpha1.AnnotationOwner] == have.GetAnnotations()[v1alpha1.AnnotationOwner]
}

// drifted compares what was rendered with what is there; fields that the member adds do not count.
func drifted(want, have client.Object) bool {
	if !subset(want.GetLabels(), have.GetLabels()) || !subset(want.GetAnnotations(), have.GetAnnotations()) {
		return true
	}
	switch want := want.(type) {
	case *corev1.ConfigMap:
		have := have.(*corev1.ConfigMap) //nolint:forcetypeassert // emptyLike made it of the same kind
		return !maps.Equal(want.Data, have.Data) || len(have.BinaryData) != len(want.BinaryData)
	case *corev1.Service:
		have := have.(*corev1.Service) //nolint:forcetypeassert // emptyLike made it of the same kind
		return !maps.Equal(want.Spec.Selector, have.Spec.Selector) || !equality.Semantic.DeepDerivative(want.Spec, have.Spec)
	}
	return false
}

func subset(want, have map[string]string) bool {
	for k, v := range want {
		if got, ok := have[k]; !ok || got != v {
			return false
		}
	}
	return true
}

// Apply writes a ConfigMap, Secret or Service. It is created, never taken over: where the name is in use
// by an object of another origin, the error is a *Conflict. It says whether the member's object was changed.
func (m *Member) Apply(ctx context.Context, want client.Object, origin fleet.Origin) (changed bool, err error) {
	if err := m.Verify(ctx); err != nil {
		return false, err
	}
	want = stamped(want)
	err = m.Create(ctx, want.DeepCopyObject().(client.Object)) //nolint:forcetypeassert // a copy has the type of its original
	if !apierrors.IsAlreadyExists(err) {
		return err == nil, err
	}
	have := emptyLike(want)
	if err := m.GetLive(ctx, client.ObjectKeyFromObject(want), have); err != nil {
		return false, err
	}
	if !origin.Owns(have) {
		return false, conflictOf(origin, kindOf(want), have)
	}
	if difference(want, have) == Same {
		return false, nil
	}
	// The UID makes the patch fail should the object be another one by now.
	want.SetUID(have.GetUID())
	want.SetResourceVersion("")
	ctx, cancel := context.WithTimeout(ctx, WriteTimeout)
	defer cancel()
	return true, m.GetClient().Patch(ctx, want, client.Apply, //nolint:staticcheck // applies typed objects as they were rendered
		client.FieldOwner(v1alpha1.FieldManager), client.ForceOwnership)
}

// ErrOtherRun says that the Job of another run of the same MiniCluster is still there.
var ErrOtherRun = errors.New("the Job of an earlier run is still on the member")

// HoldBack marks the Job of a run to be created suspended, so that nothing runs before AdjustRun; false if that is not
// possible. A request to create may reach the member long after whoever sent it was succeeded, and cannot be made to
// depend on anything; one to release depends on the very Job that it was meant for. A Job that a queue on the member
// is to release is created as it is, since the queue would release one of a stale request, too.
func HoldBack(job *batchv1.Job) bool {
	if fleet.Queued(job.Labels) {
		return false
	}
	job.Spec.Suspend = ptr.To(true)
	metav1.SetMetaDataAnnotation(&job.ObjectMeta, v1alpha1.AnnotationSuspended, v1alpha1.SuspendedUnreleased)
	return true
}

// Unreleased says that a Job is held back: it has made no pod.
func Unreleased(job *batchv1.Job) bool {
	return ptr.Deref(job.Spec.Suspend, false) && job.Annotations[v1alpha1.AnnotationSuspended] == v1alpha1.SuspendedUnreleased
}

// SuspendedByUs says that it was MiniFleet who suspended a Job, or held it back.
func SuspendedByUs(job *batchv1.Job) bool {
	by := job.Annotations[v1alpha1.AnnotationSuspended]
	return by == "true" || by == v1alpha1.SuspendedUnreleased
}

// StartRun creates the Job of a run. Where that very Job is there already, because the reply to an
// earlier attempt was lost, it is returned. A Job of another run gives ErrOtherRun, somebody else's Job a
// *Conflict. Known are the UIDs of Jobs that are the origin's, whatever they say.
func (m *Member) StartRun(ctx context.Context, want *batchv1.Job, origin fleet.Origin, known ...types.UID) (*batchv1.Job, error) {
	if err := m.Verify(ctx); err != nil {
		return nil, err
	}
	job := want.DeepCopy()
	err := m.Create(ctx, job)
	if err == nil {
		return job, nil
	}
	if !apierrors.IsAlreadyExists(err) {
		return nil, err
	}
	var have batchv1.Job
	if err := m.GetLive(ctx, client.ObjectKeyFromObject(want), &have); err != nil {
		return nil, err
	}
	if !owns(origin, &have, known) {
		return nil, conflictOf(origin, "Job", &have)
	}
	if fleet.RunOf(&have) != fleet.RunOf(want) {
		return nil, ErrOtherRun
	}
	return &have, nil
}

// AdjustRun sets the size and the suspension of a run's Job in place, and returns the Job as it is then. Size is the
// number of pods. Another Job that has come in its place is not changed, and an error.
func (m *Member) AdjustRun(ctx context.Context, job *batchv1.Job, size int32, suspend bool) (*batchv1.Job, error) {
	if err := m.Verify(ctx); err != nil {
		return nil, err
	}
	// A Job that somebody else has suspended stays so, whatever else is adjusted.
	ours := suspend
	if ptr.Deref(job.Spec.Suspend, false) && !SuspendedByUs(job) {
		suspend = true
	}
	patch := fmt.Appendf(nil, `{"metadata":{"uid":%q,"annotations":{%q:"%t"}},"spec":{"parallelism":%d,"completions":%d,"suspend":%t}}`,
		job.UID, v1alpha1.AnnotationSuspended, ours, size, size, suspend)
	ctx, cancel := context.WithTimeout(ctx, WriteTimeout)
	defer cancel()
	after := job.DeepCopy()
	err := m.GetClient().Patch(ctx, after, client.RawPatch(types.StrategicMergePatchType, patch), client.FieldOwner(v1alpha1.FieldManager))
	return after, err
}

// Create creates an object in a namespace that is there: Permit has made it. The caller has made sure that the member is
// the right one.
func (m *Member) Create(ctx context.Context, obj client.Object) error {
	ctx, cancel := context.WithTimeout(ctx, WriteTimeout)
	defer cancel()
	asked := "CREATE " + client.ObjectKeyFromObject(obj).String()
	err := m.GetClient().Create(ctx, obj, client.FieldOwner(v1alpha1.FieldManager))
	switch {
	case err == nil:
		return m.line.checkNames(obj, asked)
	case namespaceMissing(err, obj.GetNamespace()):
		m.permitted.Clear() // it was deleted since it was asked for
		return fmt.Errorf("namespace %q does not exist on member %s: %w", obj.GetNamespace(), m.Name, err)
	default:
		return err
	}
}

func namespaceMissing(err error, namespace string) bool {
	var status apierrors.APIStatus
	if !apierrors.IsNotFound(err) || !errors.As(err, &status) {
		return false
	}
	d := status.Status().Details
	return d != nil && d.Kind == "namespaces" && d.Name == namespace
}

func kindOf(obj client.Object) string { return obj.GetObjectKind().GroupVersionKind().Kind }
