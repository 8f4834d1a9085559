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
// there, and returns the members that are still to be waited for. Where only a record is left, nothing is waited for.
func (r *Reconciler) orphan(ctx context.Context, fmc *v1alpha1.FleetMiniCluster, waiting []pending, late bool) ([]pending, error) {
	var still []pending
	var errs []error
	for _, w := range waiting {
		if !w.unreachable || !late && !w.recordOnly {
			still = append(still, w)
			continue
		}
		if err := r.recordOrphan(ctx, fmc, &w); err != nil {
			still = append(still, pending{member: w.member, message: "what is left on it is about to be written down", unreachable: true, soon: true})
			if !apierrors.IsConflict(err) {
				errs = append(errs, err)
			}
		}
	}
	return still, errors.Join(errs...)
}

func (r *Reconciler) recordOrphan(ctx context.Context, fmc *v1alpha1.FleetMiniCluster, w *pending) error {
	member, err := r.noted(ctx, w.member)
	if member == nil || err != nil {
		return err
	}
	known := slices.IndexFunc(member.Status.Orphans, func(o v1alpha1.Orphan) bool { return o.UID == fmc.UID })
	if known >= 0 && member.Status.Orphans[known].RecordOnly && !w.recordOnly {
		member.Status.Orphans[known].RecordOnly = false // more is known by now
		return r.Client.Status().Update(ctx, member)
	}
	if known >= 0 {
		return nil
	}
	if len(member.Status.Orphans) >= v1alpha1.MaxOrphans {
		if w.recordOnly {
			r.Recorder.Eventf(fmc, nil, "Warning", v1alpha1.ReasonOrphaned, "Delete", "%s: the record of its runs is left there, for the member has %d orphans already",
				w.member, v1alpha1.MaxOrphans)
			return nil
		}
		return fmt.Errorf("MemberCluster %s has %d orphans already: make the member reachable, so that they can be removed", w.member, v1alpha1.MaxOrphans)
	}
	namespace := tenant.NamespaceOf(fmc, w.member, &member.Spec)
	member.Status.Orphans = append(member.Status.Orphans, v1alpha1.Orphan{
		UID: fmc.UID, Owner: fmc.Namespace + "/" + fmc.Name, Namespace: namespace, Name: fmc.Name, Since: metav1.NewTime(r.Now()).Rfc3339Copy(),
		RecordOnly: w.recordOnly,
	})
	if err := r.Client.Status().Update(ctx, member); err != nil {
		return err
	}
	r.Recorder.Eventf(member, nil, "Warning", v1alpha1.ReasonOrphaned, "Delete",
		"a FleetMiniCluster was deleted while this member was away; its objects are removed when it returns (status.orphans)")
	return nil
}

// noted is a MemberCluster whose status is about to be given a note; nil where the hub has none. One of another shard is as the
// hub itself has it: what is cached of these is not all, and would be lost.
func (r *Reconciler) noted(ctx context.Context, name string) (*v1alpha1.MemberCluster, error) {
	var member v1alpha1.MemberCluster
	key := client.ObjectKey{Name: name}
	err := r.Client.Get(ctx, key, &member)
	if apierrors.IsNotFound(err) {
		err = r.APIReader.Get(ctx, key, &member)
	}
	if apierrors.IsNotFound(err) {
		return nil, nil //nolint:nilnil // there is none
	}
	if err != nil {
		return nil, fmt.Errorf("reading MemberCluster %s: %w", name, err)
	}
	return &member, nil
}
