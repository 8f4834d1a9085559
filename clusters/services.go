package clusters

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/internal/fleet"
)

// ServicesPod returns the pod of services of this name from the cache, or nil where there is none. The
// error is a *Conflict for somebody else's pod.
func (m *Member) ServicesPod(ctx context.Context, key types.NamespacedName, origin fleet.Origin) (*corev1.Pod, error) {
	if key.Namespace == "" {
		return nil, nil // the hub's namespace has none here (KeyOf)
	}
	var pod corev1.Pod
	err := m.GetClient().Get(ctx, key, &pod)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if !origin.Owns(&pod) {
		return nil, conflictOf(origin, "Pod", &pod)
	}
	return &pod, nil
}

// StartServices creates the services pod of a run, unless that very pod is there. That of another run is
// deleted; until that is done its name is returned. Somebody else's pod gives a *Conflict.
func (m *Member) StartServices(ctx context.Context, want *corev1.Pod, origin fleet.Origin) (blocking string, err error) {
	if err := m.Verify(ctx); err != nil {
		return "", err
	}
	err = m.Create(ctx, want.DeepCopy())
	if !apierrors.IsAlreadyExists(err) {
		return "", err
	}
	var have corev1.Pod
	if err := m.GetLive(ctx, client.ObjectKeyFromObject(want), &have); err != nil {
		return "", err
	}
	if !origin.Owns(&have) {
		return "", conflictOf(origin, "Pod", &have)
	}
	if have.Labels[v1alpha1.LabelRun] == want.Labels[v1alpha1.LabelRun] && have.DeletionTimestamp.IsZero() {
		return "", nil
	}
	return have.Name, m.DeleteServices(ctx, &have)
}

// DeleteServices deletes a services pod, and no other pod that may have its name by now.
func (m *Member) DeleteServices(ctx context.Context, pod *corev1.Pod) error {
	if !pod.DeletionTimestamp.IsZero() {
		return nil
	}
	return m.delete(ctx, pod)
}
