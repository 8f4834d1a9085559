package fleetminicluster

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/internal/plan"
	"github.com/minifleet/minifleet/internal/runs"
	"github.com/minifleet/minifleet/internal/tenant"
)

// vanished are the live runs of FleetMiniClusters that do not exist any more: somebody has taken their finalizer off. Those
// on members that cannot be asked are noted in the MemberClusters, for whoever takes the name.
type vanished struct {
	// deleted is told of those that have had runs.
	deleted func(name types.NamespacedName, uid types.UID)

	mu   sync.Mutex
	runs map[types.NamespacedName]vanishedRuns
}

// vanishedRuns are those of one object.
type vanishedRuns struct {
	uid  types.UID
	live []v1alpha1.Run
}

// predicate lets every event through, having taken note of what has vanished. It comes before whoever takes the name is
// reconciled.
func (v *vanished) predicate() predicate.Predicate {
	return predicate.Funcs{
		UpdateFunc: func(e event.UpdateEvent) bool {
			if e.ObjectOld.GetUID() != e.ObjectNew.GetUID() {
				v.add(e.ObjectOld)
			}
			return true
		},
		DeleteFunc: func(e event.DeleteEvent) bool {
			v.add(e.Object)
			return true
		},
	}
}

func (v *vanished) add(obj client.Object) {
	fmc, ok := obj.(*v1alpha1.FleetMiniCluster)
	if !ok {
		return
	}
	if v.deleted != nil && !plan.KnowsNoRun(fmc) {
		v.deleted(client.ObjectKeyFromObject(fmc), fmc.UID)
	}
	ledger := runs.Ledger(fmc.Status.Runs)
	var live []v1alpha1.Run
	for _, member := range ledger.Live() {
		live = append(live, *ledger.Last(member))
	}
	if len(live) == 0 {
		return
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.runs == nil {
		v.runs = map[types.NamespacedName]vanishedRuns{}
	}
	v.runs[client.ObjectKeyFromObject(fmc)] = vanishedRuns{fmc.UID, live}
}

func (v *vanished) of(key types.NamespacedName) vanishedRuns {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.runs[key]
}

func (v *vanished) forget(key types.NamespacedName) {
	v.mu.Lock()
	defer v.mu.Unlock()
	delete(v.runs, key)
}

// noteVanished notes what has vanished under a name on members that cannot be asked. What is on the others is seen there. An
// object that the hub itself still has is of another shard now, with its ledger.
func (r *Reconciler) noteVanished(ctx context.Context, key types.NamespacedName) error {
	was := r.vanished.of(key)
	if len(was.live) == 0 {
		return nil
	}
	is, err := r.exists(ctx, key, was.uid)
	if err != nil {
		return err
	}
	if is {
		was.live = nil
	}
	for _, run := range was.live {
		if _, err := r.Provider.Member(run.Cluster); err == nil {
			continue
		}
		if err := r.noteUnowned(ctx, key, &run); err != nil {
			return err
		}
	}
	r.vanished.forget(key)
	return nil
}

// noteUnowned notes a live run without an owner in the status of its MemberCluster, until that is connected again.
func (r *Reconciler) noteUnowned(ctx context.Context, key types.NamespacedName, run *v1alpha1.Run) error {
	member, err := r.noted(ctx, run.Cluster)
	if member == nil || err != nil {
		return err
	}
	owner := key.String()
	isNoted := func(j v1alpha1.UnownedJob) bool { return j.Owner == owner && j.Run == run.ID }
	jobs := member.Status.UnownedJobs
	if slices.ContainsFunc(jobs, isNoted) || len(jobs) >= v1alpha1.MaxUnownedJobs {
		return nil // so many have everybody wait
	}
	since := metav1.NewTime(r.Now()).Rfc3339Copy()
	if run.StartTime != nil {
		since = *run.StartTime
	}
	namespace := cmp.Or(run.Namespace, tenant.Original(&member.Spec, key.Namespace))
	member.Status.UnownedJobs = append(jobs, v1alpha1.UnownedJob{Namespace: namespace, Name: key.Name, Owner: owner, Run: run.ID, Since: since})
	err = r.Client.Status().Update(ctx, member)
	if apierrors.IsConflict(err) {
		return errStale
	}
	if err != nil {
		return fmt.Errorf("noting run %s of %s on MemberCluster %s: %w", run.ID, owner, member.Name, err)
	}
	return nil
}
