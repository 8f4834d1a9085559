package fleetminicluster

import (
	"context"
	"errors"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/internal/tenant"
)

// +kubebuilder:rbac:groups=minifleet.dev,resources=memberclusters,verbs=get;list;watch
// +kubebuilder:rbac:groups=minifleet.dev,resources=memberclusters/status,verbs=update

// orphan writes down, on each member that cannot be reached, that a deleted FleetMiniCluster may have left objects
// there, and returns the members that are still to be waited for.
func (r *Reconciler) orphan(ctx context.Context, fmc *v1alpha1.FleetMiniCluster, waiting []pending) ([]pending, error) {
	var still []pending
	var errs []error
	for _, w := range waiting {
		if !w.unreachable {
			still = append(still, w)
			continue
		}
		if err := r.recordOrphan(ctx, fmc, w.member); err != nil {
			still = append(still, pending{member: w.member, message: "what is left on it is about to be written down", unreachable: true, soon: true})
			if !apierrors.IsConflict(err) {
				errs = append(errs, err)
			}
		}
	}
	return still, errors.Join(errs...)
}

func (r *Reconciler) recordOrphan(ctx context.Context, fmc *v1alpha1.FleetMiniCluster, name string) error {
	var member v1alpha1.MemberCluster
	if err := r.Client.Get(ctx, client.ObjectKey{Name: name}, &member); err != nil {
		return client.IgnoreNotFound(err)
	}
	known := func(o v1alpha1.Orphan) bool { return o.UID == fmc.UID }
	if slices.ContainsFunc(member.Status.Orphans, known) {
		return nil
	}
	if len(member.Status.Orphans) >= v1alpha1.MaxOrphans {
		return fmt.Errorf("MemberCluster %s has %d orphans already: make the member reachable, so that they can be removed", name, v1alpha1.MaxOrphans)
	}
	namespace := tenant.NamespaceOf(fmc, name, &member.Spec)
	member.Status.Orphans = append(member.Status.Orphans, v1alpha1.Orphan{
		UID: fmc.UID, Owner: fmc.Namespace + "/" + fmc.Name, Namespace: namespace, Name: fmc.Name, Since: metav1.NewTime(r.Now()).Rfc3339Copy(),
	})
	if err := r.Client.Status().Update(ctx, &member); err != nil {
		return err
	}
	r.Recorder.Eventf(&member, nil, "Warning", v1alpha1.ReasonOrphaned, "Delete",
		"a FleetMiniCluster was deleted while this member was away; its objects are removed when it returns (status.orphans)")
	return nil
}
