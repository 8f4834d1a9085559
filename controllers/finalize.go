package controllers

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/clusters"
	"github.com/minifleet/minifleet/controllers/internal/retry"
	"github.com/minifleet/minifleet/internal/rollup"
	"github.com/minifleet/minifleet/internal/runs"
	"github.com/minifleet/minifleet/internal/sanitize"
)

// finalize removes everything of a deleted FleetMiniCluster from its members, and lets it go when all of
// it is gone. A member that cannot be reached is waited for until the deadline, and then remembers what is
// left to do; one that is no longer registered is not.
func (r *FleetMiniClusterReconciler) finalize(ctx context.Context, fmc *v1alpha1.FleetMiniCluster) (reconcile.Result, error) {
	if !controllerutil.ContainsFinalizer(fmc, v1alpha1.Finalizer) {
		return reconcile.Result{}, nil
	}
	waiting, err := r.cleanMembers(ctx, fmc)
	left := deletionDeadline(fmc).Sub(r.Now())
	if left <= 0 && err == nil {
		waiting, err = r.orphan(ctx, fmc, waiting)
	}
	if len(waiting) == 0 && err == nil {
		controllerutil.RemoveFinalizer(fmc, v1alpha1.Finalizer)
		if err := r.Client.Update(ctx, fmc); err != nil {
			return retry.OnConflict(err)
		}
		return reconcile.Result{}, nil
	}
	if statusErr := r.reportDeleting(ctx, fmc, waiting); statusErr != nil {
		return retry.OnConflict(statusErr)
	}
	if err != nil {
		return reconcile.Result{}, err
	}
	if slices.ContainsFunc(waiting, func(w pending) bool { return w.why == beingDeleted || w.why == notWritten }) {
		return reconcile.Result{RequeueAfter: goneInterval}, nil
	}
	again := awayInterval // the return of a member is news
	if left > 0 {
		again = min(again, left)
	}
	return reconcile.Result{RequeueAfter: again}, nil
}

// deletionDeadline is until when a deletion waits for members that cannot be reached.
func deletionDeadline(fmc *v1alpha1.FleetMiniCluster) time.Time {
	seconds := int32(v1alpha1.DefaultDeletionDeadlineSeconds)
	if fmc.Spec.DeletionDeadlineSeconds != nil {
		seconds = *fmc.Spec.DeletionDeadlineSeconds
	}
	return fmc.DeletionTimestamp.Add(time.Duration(seconds) * time.Second)
}

const (
	beingDeleted = "its objects are being deleted"
	notWritten   = "what is left on it is about to be written down"
)

// pending is a member that a deletion waits for.
type pending struct {
	member, why string
	away        bool // it cannot be reached
}

func (w pending) String() string { return w.member + ": " + w.why }

// cleanMembers deletes on all members at once and returns those that are not clean yet.
func (r *FleetMiniClusterReconciler) cleanMembers(ctx context.Context, fmc *v1alpha1.FleetMiniCluster) ([]pending, error) {
	var (
		mu      sync.Mutex
		wg      sync.WaitGroup
		waiting []pending
		errs    []error
	)
	for _, name := range r.everUsed(ctx, fmc) {
		wg.Go(func() {
			why, away, err := r.cleanMember(ctx, fmc, name)
			mu.Lock()
			defer mu.Unlock()
			if why != "" {
				waiting = append(waiting, pending{name, why, away})
			}
			errs = append(errs, err)
		})
	}
	wg.Wait()
	slices.SortFunc(waiting, func(a, b pending) int { return strings.Compare(a.member, b.member) })
	return waiting, errors.Join(errs...)
}

func (r *FleetMiniClusterReconciler) cleanMember(ctx context.Context, fmc *v1alpha1.FleetMiniCluster, name string) (why string, away bool, err error) {
	var registered v1alpha1.MemberCluster
	if err := r.Client.Get(ctx, client.ObjectKey{Name: name}, &registered); err != nil {
		if apierrors.IsNotFound(err) {
			r.Recorder.Eventf(fmc, nil, "Warning", v1alpha1.ReasonMemberRemoved, "Delete",
				"%s: its MemberCluster no longer exists; objects of this MiniCluster may be left there", name)
			return "", false, nil
		}
		return "its MemberCluster could not be read", false, err
	}
	member, engaged := r.Provider.Member(name)
	if engaged != nil {
		return "the member cannot be reached; its objects are removed when it returns", true, nil //nolint:nilerr // it is waited for
	}
	gone, err := r.cleanup(ctx, member, fmc, nil)
	switch {
	case clusters.Unanswered(err):
		return "the member does not answer", true, nil
	case err != nil:
		return sanitize.Text(err.Error(), sanitize.MaxNote), false, fmt.Errorf("removing objects from member %s: %w", name, err)
	case !gone:
		return beingDeleted, false, nil
	default:
		return "", false, nil
	}
}

// everUsed are the members that may have something of this object.
func (r *FleetMiniClusterReconciler) everUsed(ctx context.Context, fmc *v1alpha1.FleetMiniCluster) []string {
	var names []string
	for _, c := range fmc.Status.Clusters {
		names = append(names, c.Name)
	}
	// A member is in the list above until everything is gone from it, unless its first run is only in the
	// ledger yet.
	names = append(names, runs.Ledger(fmc.Status.Runs).Live()...)
	names = append(names, r.returned(ctx, fmc, names)...)
	slices.Sort(names)
	return slices.Compact(names)
}

func (r *FleetMiniClusterReconciler) reportDeleting(ctx context.Context, fmc *v1alpha1.FleetMiniCluster, waiting []pending) error {
	before := fmc.Status.DeepCopy()
	fmc.Status.ObservedGeneration = fmc.Generation
	// What is gone from a member is no longer told as being there.
	fmc.Status.Clusters = slices.DeleteFunc(fmc.Status.Clusters, func(c v1alpha1.ClusterStatus) bool {
		return !slices.ContainsFunc(waiting, func(w pending) bool { return w.member == c.Name })
	})
	for i := range fmc.Status.Clusters {
		fmc.Status.Clusters[i].Sync, fmc.Status.Clusters[i].Reason = v1alpha1.OutOfSync, v1alpha1.ReasonDeleting
	}
	for i := range fmc.Status.Runs {
		run := &fmc.Status.Runs[i]
		if !run.State.Ended() && !slices.ContainsFunc(waiting, func(w pending) bool { return w.member == run.Cluster }) {
			run.State, run.Stop, run.Message = v1alpha1.RunReplaced, v1alpha1.StopChanged, "deleted with the FleetMiniCluster"
		}
	}
	rollup.Summarize(&fmc.Status)
	told := make([]string, len(waiting))
	for i, w := range waiting {
		told[i] = w.String()
	}
	meta.SetStatusCondition(&fmc.Status.Conditions, metav1.Condition{
		Type: v1alpha1.ConditionReady, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonDeleting,
		Message: sanitize.Text("deleting: "+strings.Join(told, "; "), sanitize.MaxMessage), ObservedGeneration: fmc.Generation, LastTransitionTime: metav1.NewTime(r.Now()),
	})
	if equality.Semantic.DeepEqual(before, &fmc.Status) {
		return nil
	}
	return r.Client.Status().Update(ctx, fmc)
}
