package copies

import (
	"context"
	"errors"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/clusters"
	"github.com/minifleet/minifleet/internal/fleet"
)

// step takes the one step from what the member has, nil for nothing, to what it is to have.
func step(ctx context.Context, m *clusters.Member, source, want, have client.Object, user fleet.Origin) (Change, error) {
	switch {
	case have == nil:
		return Created, m.Create(ctx, want.DeepCopyObject().(client.Object)) //nolint:forcetypeassert // a copy has the type of its original
	case have.GetUID() == source.GetUID():
		return Kept, nil // the member is the hub, and this is the very object
	case !isCopyOf(m, have, source, user.FleetID):
		return "", conflictOf(want, have, user)
	case !have.GetDeletionTimestamp().IsZero():
		return "", fmt.Errorf("%s %s/%s is being deleted on the member; it is copied anew when it is deleted", Kind(want), have.GetNamespace(), have.GetName())
	}
	same, marked := sameContent(want, have), marked(want, have)
	switch {
	case same && marked && isUser(have, user):
		return Kept, nil
	case same && marked:
		return Kept, addUser(ctx, m, have, user)
	}
	change := Repaired
	if !same && have.GetAnnotations()[v1alpha1.AnnotationCopyOfVersion] != source.GetResourceVersion() {
		change = Updated
	}
	if !same && (immutable(have) || typeOf(have) != typeOf(want)) {
		return change, replace(ctx, m, want, have)
	}
	return change, overwrite(ctx, m, want, have)
}

// addUser notes a user on a copy. It needs no resource version: whoever removes the copy meanwhile names the
// one that knows nothing of this user.
func addUser(ctx context.Context, m *clusters.Member, have client.Object, user fleet.Origin) error {
	patch := fmt.Appendf(nil, `{"metadata":{"uid":%q,"annotations":{%q:%q}}}`, have.GetUID(), v1alpha1.AnnotationUserPrefix+user.OwnerUID, user.Owner)
	return patchCopy(ctx, m, have, client.RawPatch(types.MergePatchType, patch))
}

// overwrite makes a copy what it should be, unless somebody has written to it since it was read.
func overwrite(ctx context.Context, m *clusters.Member, want, have client.Object) error {
	next := have.DeepCopyObject().(client.Object) //nolint:forcetypeassert // a copy has the type of its original
	setContent(next, want)
	next.SetLabels(merged(have.GetLabels(), want.GetLabels()))
	next.SetAnnotations(merged(have.GetAnnotations(), want.GetAnnotations()))
	return patchCopy(ctx, m, next, client.MergeFromWithOptions(have, client.MergeFromWithOptimisticLock{}))
}

// replace deletes a copy that cannot be changed and creates it anew, for the same users. Pods that run
// keep what they have mounted; one that starts in between waits for it.
func replace(ctx context.Context, m *clusters.Member, want, have client.Object) error {
	if err := deleteCopy(ctx, m, have); err != nil {
		return err
	}
	next := want.DeepCopyObject().(client.Object) //nolint:forcetypeassert // a copy has the type of its original
	annotations := next.GetAnnotations()
	for _, user := range Users(have) {
		annotations[v1alpha1.AnnotationUserPrefix+user.OwnerUID] = user.Owner
	}
	next.SetAnnotations(annotations)
	return m.Create(ctx, next)
}

// removeUsers takes users off a copy as it was read, and deletes it when there is no other.
func removeUsers(ctx context.Context, m *clusters.Member, have client.Object, released func(fleet.Origin) bool) error {
	next := have.DeepCopyObject().(client.Object) //nolint:forcetypeassert // a copy has the type of its original
	annotations, stay := next.GetAnnotations(), 0
	for _, user := range Users(have) {
		if released(user) {
			delete(annotations, v1alpha1.AnnotationUserPrefix+user.OwnerUID)
		} else {
			stay++
		}
	}
	switch {
	case stay == 0:
		return deleteCopy(ctx, m, have)
	case len(annotations) == len(have.GetAnnotations()):
		return nil
	}
	next.SetAnnotations(annotations)
	return patchCopy(ctx, m, next, client.MergeFromWithOptions(have, client.MergeFromWithOptimisticLock{}))
}

func patchCopy(ctx context.Context, m *clusters.Member, obj client.Object, patch client.Patch) error {
	ctx, cancel := context.WithTimeout(ctx, clusters.WriteTimeout)
	defer cancel()
	return m.GetClient().Patch(ctx, obj.DeepCopyObject().(client.Object), patch, client.FieldOwner(v1alpha1.FieldManager)) //nolint:forcetypeassert // a copy has the type of its original
}

// deleteCopy deletes a copy as it was read: not one that has got another user since.
func deleteCopy(ctx context.Context, m *clusters.Member, obj client.Object) error {
	ctx, cancel := context.WithTimeout(ctx, clusters.WriteTimeout)
	defer cancel()
	uid, version := obj.GetUID(), obj.GetResourceVersion()
	err := m.GetClient().Delete(ctx, obj, client.Preconditions{UID: &uid, ResourceVersion: &version}, client.PropagationPolicy(metav1.DeletePropagationBackground))
	return client.IgnoreNotFound(err)
}

// lostRace says whether a write failed because of what somebody else wrote. The uid in a patch is such a reason,
// which the API server calls invalid.
func lostRace(err error) bool {
	var status apierrors.APIStatus
	if apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) {
		return true
	}
	if !errors.As(err, &status) || status.Status().Details == nil {
		return false
	}
	d := status.Status().Details
	otherUID := apierrors.IsInvalid(err) && slices.ContainsFunc(d.Causes, func(c metav1.StatusCause) bool { return c.Field == "metadata.uid" })
	return otherUID || apierrors.IsNotFound(err) && d.Kind != "namespaces"
}
