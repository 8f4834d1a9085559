package fleetminicluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/clusters"
	"github.com/minifleet/minifleet/controllers/internal/condition"
	"github.com/minifleet/minifleet/controllers/internal/retry"
	"github.com/minifleet/minifleet/internal/plan"
	"github.com/minifleet/minifleet/internal/render"
	"github.com/minifleet/minifleet/internal/rollup"
	"github.com/minifleet/minifleet/internal/sanitize"
)

// finalize removes everything of a deleted FleetMiniCluster from its members, and lets it go when all of
// it is removed. A member that cannot be reached is waited for until the deadline, and then remembers what is
// left to do; at once, where that is only the record of runs. One that is no longer registered is not waited for.
func (r *Reconciler) finalize(ctx context.Context, fmc *v1alpha1.FleetMiniCluster) (reconcile.Result, error) {
	if !controllerutil.ContainsFinalizer(fmc, v1alpha1.Finalizer) {
		return reconcile.Result{}, nil
	}
	waiting, err := r.cleanMembers(ctx, fmc)
	if err != nil && len(waiting) == 0 {
		return reconcile.Result{}, err // there is nothing to be told of members
	}
	left := deletionDeadline(fmc).Sub(r.Now())
	if err == nil {
		waiting, err = r.orphan(ctx, fmc, waiting, left <= 0)
	}
	if len(waiting) == 0 && err == nil {
		err = r.keys.Delete(ctx, fmc)
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
	if slices.ContainsFunc(waiting, func(w pending) bool { return w.soon }) {
		return reconcile.Result{RequeueAfter: r.Intervals.Deleting}, nil
	}
	return reconcile.Result{RequeueAfter: plan.After(r.Intervals.Unreachable, left)}, nil
}

// deletionDeadline is until when a deletion waits for members that cannot be reached.
func deletionDeadline(fmc *v1alpha1.FleetMiniCluster) time.Time {
	seconds := int32(v1alpha1.DefaultDeletionDeadlineSeconds)
	if fmc.Spec.DeletionDeadlineSeconds != nil {
		seconds = *fmc.Spec.DeletionDeadlineSeconds
	}
	return fmc.DeletionTimestamp.Add(time.Duration(seconds) * time.Second)
}

// pending is a member that a deletion waits for.
type pending struct {
	member, message string
	unreachable     bool
	soon            bool // it is likely to be clean soon
	recordOnly      bool // nothing is left there but the record of runs
}

func (w pending) String() string { return w.member + ": " + w.message }

// cleanMembers deletes on all members at once and returns those that are not clean yet.
func (r *Reconciler) cleanMembers(ctx context.Context, fmc *v1alpha1.FleetMiniCluster) ([]pending, error) {
	var (
		mu      sync.Mutex
		wg      sync.WaitGroup
		waiting []pending
		errs    []error
	)
	names, asked, err := r.toClean(ctx, fmc)
	if err != nil {
		return nil, err
	}
	if waiting, err = r.haveRecords(ctx, fmc, slices.Concat(names, asked)); err != nil {
		return nil, err
	}
	for _, name := range names {
		wg.Go(func() {
			w, err := r.cleanMember(ctx, fmc, name)
			mu.Lock()
			defer mu.Unlock()
			if w != nil {
				waiting = append(waiting, *w)
			}
			errs = append(errs, err)
		})
	}
	wg.Wait()
	slices.SortFunc(waiting, func(a, b pending) int { return strings.Compare(a.member, b.member) })
	return waiting, errors.Join(errs...)
}

// toClean are the members that have something of a FleetMiniCluster or may have: those that the status knows of, those
// whose caches show something of it, those that this hub has not asked since it was rebuilt or restored, and all of
// them where the status has lost what it knew. Those asked are connected.
func (r *Reconciler) toClean(ctx context.Context, fmc *v1alpha1.FleetMiniCluster) (names, asked []string, err error) {
	names = append(plan.MayHold(fmc), fmc.Status.Unasked...)
	if r.Unasked != nil {
		names = append(names, r.Unasked()...)
	}
	lost := plan.KnowsNoRun(fmc) && wasPutBack(fmc)
	if plan.KnowsNoRun(fmc) && !lost && !r.isNewcomer(fmc) {
		if lost, err = r.keys.Exists(ctx, fmc); err != nil {
			return nil, nil, err
		}
	}
	var list v1alpha1.MemberClusterList
	if err := r.Client.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
		return nil, nil, fmt.Errorf("listing MemberClusters: %w", err)
	}
	for i := range list.Items {
		name := list.Items[i].Name
		m, err := r.Provider.Member(name)
		if err == nil {
			asked = append(asked, name)
		}
		if lost || err == nil && r.leftOn(ctx, m, fmc) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names), asked, nil
}

// haveRecords are the registered members, but for some, that have nothing of a FleetMiniCluster but the record of runs, as far as
// its status knows.
func (r *Reconciler) haveRecords(ctx context.Context, fmc *v1alpha1.FleetMiniCluster, but []string) ([]pending, error) {
	var out []pending
	for _, name := range plan.HaveRecords(fmc) {
		if slices.Contains(but, name) {
			continue
		}
		registered, err := r.registered(ctx, name)
		if err != nil {
			return nil, err
		}
		if registered {
			out = append(out, pending{member: name, message: "what is on record there is removed when it returns", unreachable: true, recordOnly: true})
		}
	}
	return out, nil
}

// leftOn says whether the cache of a member shows a Job or a record of a FleetMiniCluster, or what is made before a Job: one
// that had the name before may have come no further.
func (r *Reconciler) leftOn(ctx context.Context, m *clusters.Member, fmc *v1alpha1.FleetMiniCluster) bool {
	key, origin := r.keyOn(ctx, m, fmc), r.origin(fmc)
	named := func(name string) types.NamespacedName {
		return types.NamespacedName{Namespace: key.Namespace, Name: name}
	}
	return r.holds(ctx, m, key, fmc) != nil || m.HasRecord(ctx, key, origin) || key.Namespace != "" &&
		(m.Holds(ctx, named(render.SecretName(key.Name)), &corev1.Secret{}, origin) || m.Holds(ctx, named(render.ConfigMapName(key.Name)), &corev1.ConfigMap{}, origin))
}

// cleanMember deletes on one member; the result is nil once nothing is left there.
func (r *Reconciler) cleanMember(ctx context.Context, fmc *v1alpha1.FleetMiniCluster, name string) (*pending, error) {
	registered, err := r.memberCluster(ctx, name)
	if err != nil {
		return &pending{member: name, message: "its MemberCluster could not be read"}, err
	}
	if registered == nil {
		r.Recorder.Eventf(fmc, nil, "Warning", v1alpha1.ReasonMemberRemoved, "Delete",
			"%s: its MemberCluster no longer exists; objects of this MiniCluster may be left there", name)
		return nil, nil
	}
	if shard := v1alpha1.ShardOf(registered); shard != r.Elsewhere.Shard {
		return &pending{member: name, message: "it is of " + v1alpha1.ShardName(shard) + ", whose controller is told what to remove", unreachable: true}, nil
	}
	member, err := r.Provider.Member(name)
	if err != nil {
		return &pending{member: name, message: "the member cannot be reached; its objects are removed when it returns", unreachable: true}, nil //nolint:nilerr // it is waited for
	}
	removed, err := r.removeAll(ctx, member, fmc, clusters.Removal{Owns: r.origin(fmc).Owns, Jobs: known(fmc.Status.Runs, name)})
	switch {
	case clusters.Unanswered(err):
		return &pending{member: name, message: "the member does not answer", unreachable: true}, nil
	case err != nil:
		return &pending{member: name, message: sanitize.Text(err.Error(), sanitize.MaxNote)}, fmt.Errorf("removing objects from member %s: %w", name, err)
	case !removed:
		return &pending{member: name, message: "its objects are being deleted", soon: true}, nil
	default:
		return nil, nil
	}
}

func (r *Reconciler) reportDeleting(ctx context.Context, fmc *v1alpha1.FleetMiniCluster, waiting []pending) error {
	before := fmc.Status.DeepCopy()
	waits := func(member string) bool {
		return slices.ContainsFunc(waiting, func(w pending) bool { return w.member == member })
	}
	fmc.Status.ObservedGeneration = fmc.Generation
	// What was removed from a member is no longer told as being there.
	fmc.Status.Clusters = slices.DeleteFunc(fmc.Status.Clusters, func(c v1alpha1.ClusterStatus) bool { return !waits(c.Name) })
	for i := range fmc.Status.Clusters {
		fmc.Status.Clusters[i].Sync, fmc.Status.Clusters[i].Reason = v1alpha1.OutOfSync, v1alpha1.ReasonDeleting
	}
	for i := range fmc.Status.Runs {
		if run := &fmc.Status.Runs[i]; !run.State.Ended() && !waits(run.Cluster) {
			run.State, run.Stop, run.Message = v1alpha1.RunReplaced, v1alpha1.StopChanged, "deleted with the FleetMiniCluster"
		}
	}
	fmc.Status.State = v1alpha1.StateDeleting
	rollup.Summarize(&fmc.Status)
	told := make([]string, len(waiting))
	for i, w := range waiting {
		told[i] = w.String()
	}
	condition.Set(fmc, r.Now(), &metav1.Condition{
		Type: v1alpha1.ConditionReady, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonDeleting,
		Message: "deleting: " + strings.Join(told, "; "),
	})
	if equality.Semantic.DeepEqual(before, &fmc.Status) {
		return nil
	}
	return r.Client.Status().Update(ctx, fmc)
}
