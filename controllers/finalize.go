package controllers

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/clusters"
	"github.com/minifleet/minifleet/internal/rollup"
	"github.com/minifleet/minifleet/internal/runs"
	"github.com/minifleet/minifleet/internal/words"
)

// finalize removes everything of a deleted FleetMiniCluster from its members, and lets it go when all of
// it is gone. A member that cannot be reached is waited for; one that is no longer registered is not.
func (r *FleetMiniClusterReconciler) finalize(ctx context.Context, fmc *v1alpha1.FleetMiniCluster) (reconcile.Result, error) {
	if !controllerutil.ContainsFinalizer(fmc, v1alpha1.Finalizer) {
		return reconcile.Result{}, nil
	}
	waiting, err := r.cleanMembers(ctx, fmc)
	if len(waiting) == 0 && err == nil {
		controllerutil.RemoveFinalizer(fmc, v1alpha1.Finalizer)
		if err := r.Client.Update(ctx, fmc); err != nil {
			return retryConflict(err)
		}
		return reconcile.Result{}, nil
	}
	if statusErr := r.reportDeleting(ctx, fmc, waiting); statusErr != nil {
		return retryConflict(statusErr)
	}
	if err != nil {
		return reconcile.Result{}, err
	}
	if slices.ContainsFunc(waiting, func(w string) bool { return strings.HasSuffix(w, beingDeleted) }) {
		return reconcile.Result{RequeueAfter: goneInterval}, nil
	}
	return reconcile.Result{RequeueAfter: awayInterval}, nil // the return of a member is news
}

const beingDeleted = "its objects are being deleted"

// cleanMembers deletes on all members at once and returns why any of them is not clean yet.
func (r *FleetMiniClusterReconciler) cleanMembers(ctx context.Context, fmc *v1alpha1.FleetMiniCluster) ([]string, error) {
	var (
		mu      sync.Mutex
		wg      sync.WaitGroup
		waiting []string
		errs    []error
	)
	for _, name := range everUsed(fmc) {
		wg.Go(func() {
			why, err := r.cleanMember(ctx, fmc, name)
			mu.Lock()
			defer mu.Unlock()
			if why != "" {
				waiting = append(waiting, name+": "+why)
			}
			errs = append(errs, err)
		})
	}
	wg.Wait()
	slices.Sort(waiting)
	return waiting, errors.Join(errs...)
}

func (r *FleetMiniClusterReconciler) cleanMember(ctx context.Context, fmc *v1alpha1.FleetMiniCluster, name string) (why string, err error) {
	var registered v1alpha1.MemberCluster
	if err := r.Client.Get(ctx, client.ObjectKey{Name: name}, &registered); err != nil {
		if apierrors.IsNotFound(err) {
			r.Recorder.Eventf(fmc, nil, "Warning", v1alpha1.ReasonMemberRemoved, "Delete",
				"%s: its MemberCluster no longer exists; objects of this MiniCluster may be left there", name)
			return "", nil
		}
		return "its MemberCluster could not be read", err
	}
	member, engaged := r.Provider.Member(name)
	if engaged != nil {
		return "the member cannot be reached; its objects are removed when it returns", nil //nolint:nilerr // it is waited for
	}
	gone, err := member.Cleanup(ctx, member.TargetNamespace(fmc.Namespace), fmc.Name, r.origin(fmc))
	switch {
	case clusters.Unanswered(err):
		return "the member does not answer", nil
	case err != nil:
		return words.Safe(err.Error(), words.Note), fmt.Errorf("removing objects from member %s: %w", name, err)
	case !gone:
		return beingDeleted, nil
	default:
		return "", nil
	}
}

// everUsed are the members that may have something of this object.
func everUsed(fmc *v1alpha1.FleetMiniCluster) []string {
	var names []string
	for _, c := range fmc.Status.Clusters {
		names = append(names, c.Name)
	}
	// A member is in the list above until everything is gone from it, unless its first run is only in the
	// ledger yet.
	names = append(names, runs.Ledger(fmc.Status.Runs).Live()...)
	slices.Sort(names)
	return slices.Compact(names)
}

func (r *FleetMiniClusterReconciler) reportDeleting(ctx context.Context, fmc *v1alpha1.FleetMiniCluster, waiting []string) error {
	before := fmc.Status.DeepCopy()
	fmc.Status.ObservedGeneration = fmc.Generation
	// What is gone from a member is no longer told as being there.
	fmc.Status.Clusters = slices.DeleteFunc(fmc.Status.Clusters, func(c v1alpha1.ClusterStatus) bool {
		return !slices.ContainsFunc(waiting, func(w string) bool { return strings.HasPrefix(w, c.Name+": ") })
	})
	for i := range fmc.Status.Clusters {
		fmc.Status.Clusters[i].Sync, fmc.Status.Clusters[i].Reason = v1alpha1.OutOfSync, v1alpha1.ReasonDeleting
	}
	for i := range fmc.Status.Runs {
		run := &fmc.Status.Runs[i]
		if !run.State.Ended() && !slices.ContainsFunc(waiting, func(w string) bool { return strings.HasPrefix(w, run.Cluster+": ") }) {
			run.State, run.Message = v1alpha1.RunReplaced, "deleted with the FleetMiniCluster"
		}
	}
	rollup.Summarize(&fmc.Status)
	meta.SetStatusCondition(&fmc.Status.Conditions, metav1.Condition{
		Type: v1alpha1.ConditionReady, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonDeleting,
		Message: "deleting: " + strings.Join(waiting, "; "), ObservedGeneration: fmc.Generation, LastTransitionTime: metav1.NewTime(r.Now()),
	})
	if equality.Semantic.DeepEqual(before, &fmc.Status) {
		return nil
	}
	return r.Client.Status().Update(ctx, fmc)
}
