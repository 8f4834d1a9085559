package membercluster

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/fluxcd/pkg/runtime/conditions"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	mcmanager "sigs.k8s.io/multicluster-runtime/pkg/manager"
	"sigs.k8s.io/multicluster-runtime/pkg/multicluster"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/clusters"
	"github.com/minifleet/minifleet/controllers/internal/condition"
	"github.com/minifleet/minifleet/internal/fleet"
	"github.com/minifleet/minifleet/internal/sanitize"
)

// maxOwner is the length, in bytes, of an owner in the status: that of a namespace, a slash, and a name.
const maxOwner = 63 + 1 + 253

// owners are the FleetMiniClusters of a hub, by what a Job may be known by as theirs.
type owners struct {
	keys map[string]bool    // NAMESPACE/NAME
	jobs map[types.UID]bool // in their ledgers
	runs map[string]bool    // in their ledgers, without a Job yet
}

// ownersAmong are those that take up the Jobs of a member of a shard. A FleetMiniCluster of another shard cannot, and owns
// what its ledger knows.
func ownersAmong(all []v1alpha1.FleetMiniCluster, shard string) owners {
	out := owners{keys: make(map[string]bool, len(all)), jobs: map[types.UID]bool{}, runs: map[string]bool{}}
	for i := range all {
		if v1alpha1.ShardOf(&all[i]) == shard {
			out.keys[ownerOf(&all[i])] = true
		}
		for _, run := range all[i].Status.Runs {
			if run.JobUID == "" && !run.State.Ended() {
				out.runs[run.ID] = true
			}
			if run.JobUID != "" {
				out.jobs[run.JobUID] = true
			}
		}
	}
	return out
}

func (o owners) own(job *batchv1.Job) bool {
	return o.keys[job.Annotations[v1alpha1.AnnotationOwner]] || o.jobs[job.UID] || o.runs[fleet.RunOf(job)]
}

// unownedJobs are the live Jobs of this fleet on a member that no FleetMiniCluster owns, sorted. Of a member that is not
// connected they are what they were.
func (r *Reconciler) unownedJobs(ctx context.Context, member *v1alpha1.MemberCluster) ([]v1alpha1.UnownedJob, error) {
	m, err := r.Provider.Member(member.Name)
	if err != nil {
		return member.Status.UnownedJobs, nil //nolint:nilerr // its return is an event
	}
	var jobs batchv1.JobList
	if err := m.GetClient().List(ctx, &jobs, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing the Jobs in the cache of member %s: %w", member.Name, err)
	}
	// One whose owner is in the cache is owned, of whatever ledger it is: only for the others all ledgers are read.
	live := slices.DeleteFunc(liveJobs(jobs.Items, r.FleetID), func(job *batchv1.Job) bool { return r.ownerCached(ctx, job) })
	if len(live) == 0 {
		return nil, nil
	}
	var cached v1alpha1.FleetMiniClusterList
	if err := r.Client.List(ctx, &cached, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing FleetMiniClusters: %w", err)
	}
	return r.confirmUnowned(ctx, member, unowned(live, ownersAmong(cached.Items, r.Elsewhere.Shard), member.Status.Orphans))
}

// confirmUnowned asks the hub itself, whose cache may be behind, before it names another Job than before.
func (r *Reconciler) confirmUnowned(ctx context.Context, member *v1alpha1.MemberCluster, candidates []*batchv1.Job) ([]v1alpha1.UnownedJob, error) {
	out := describeJobs(candidates)
	isKnown := func(j v1alpha1.UnownedJob) bool {
		return slices.ContainsFunc(member.Status.UnownedJobs, func(k v1alpha1.UnownedJob) bool { return equality.Semantic.DeepEqual(j, k) })
	}
	if !slices.ContainsFunc(out, func(j v1alpha1.UnownedJob) bool { return !isKnown(j) }) {
		return out, nil
	}
	var list v1alpha1.FleetMiniClusterList
	if err := r.APIReader.List(ctx, &list); err != nil {
		return nil, fmt.Errorf("listing FleetMiniClusters on the hub: %w", err)
	}
	return describeJobs(unowned(candidates, ownersAmong(list.Items, r.Elsewhere.Shard), member.Status.Orphans)), nil
}

// liveJobs are those of a fleet that have not ended, are not being deleted, and were not merely created: one that was
// never released runs nothing, and is removed as stale.
func liveJobs(jobs []batchv1.Job, fleetID string) []*batchv1.Job {
	var out []*batchv1.Job
	for i := range jobs {
		job := &jobs[i]
		if job.Annotations[v1alpha1.AnnotationFleetID] == fleetID && job.DeletionTimestamp.IsZero() && !finished(job) && !clusters.Unreleased(job) {
			out = append(out, job)
		}
	}
	return out
}

func finished(job *batchv1.Job) bool {
	return slices.ContainsFunc(job.Status.Conditions, func(c batchv1.JobCondition) bool {
		return (c.Type == batchv1.JobComplete || c.Type == batchv1.JobFailed) && c.Status == corev1.ConditionTrue
	})
}

// unowned are the Jobs that are neither owned nor to be removed as orphans.
func unowned(jobs []*batchv1.Job, by owners, orphans []v1alpha1.Orphan) []*batchv1.Job {
	var out []*batchv1.Job
	for _, job := range jobs {
		isOrphan := func(o v1alpha1.Orphan) bool { return o.Owner == job.Annotations[v1alpha1.AnnotationOwner] }
		if !by.own(job) && !slices.ContainsFunc(orphans, isOrphan) {
			out = append(out, job)
		}
	}
	return out
}

func describeJobs(jobs []*batchv1.Job) []v1alpha1.UnownedJob {
	var out []v1alpha1.UnownedJob
	for _, job := range jobs {
		out = append(out, v1alpha1.UnownedJob{
			Namespace: job.Namespace, Name: job.Name, Run: fleet.RunOf(job), Since: job.CreationTimestamp,
			Owner: sanitize.Text(job.Annotations[v1alpha1.AnnotationOwner], maxOwner),
		})
	}
	slices.SortFunc(out, func(a, b v1alpha1.UnownedJob) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return out
}

// setUnowned sets the condition UnownedJobs, or removes it where there are none.
func setUnowned(member *v1alpha1.MemberCluster, jobs []v1alpha1.UnownedJob, now time.Time) {
	member.Status.UnownedJobs = jobs[:min(len(jobs), v1alpha1.MaxUnownedJobs)]
	if len(jobs) == 0 {
		member.Status.UnownedJobs = nil
		conditions.Delete(member, v1alpha1.ConditionUnownedJobs)
		return
	}
	condition.Set(member, now, conditions.TrueCondition(v1alpha1.ConditionUnownedJobs, v1alpha1.ReasonOwnerNotFound, "%s", unownedMessage(member.Name, jobs)))
}

func unownedMessage(member string, jobs []v1alpha1.UnownedJob) string {
	names := make([]string, len(jobs))
	for i, j := range jobs {
		owner := j.Owner
		if owner == "" {
			owner = "unknown"
		}
		names[i] = fmt.Sprintf("%s/%s (of %s)", j.Namespace, j.Name, owner)
	}
	text := "1 live Job of this fleet is of no FleetMiniCluster on this hub: " + names[0]
	if len(jobs) > 1 {
		text = fmt.Sprintf("%d live Jobs of this fleet are of no FleetMiniCluster on this hub: %s", len(jobs), sanitize.Names(names, maxNames))
	}
	return text + fmt.Sprintf("; put its manifest back, and the Job is taken up if it is what that asks for, and waited for if not; or wait until it ends; or stop it with `kubectl --context %s -n %s delete job %s`",
		member, jobs[0].Namespace, jobs[0].Name)
}

// unownedBy are the registered members on which a Job of a FleetMiniCluster is live, or is listed as unowned.
func (r *Reconciler) unownedBy(ctx context.Context, f *v1alpha1.FleetMiniCluster) []reconcile.Request {
	return r.members(ctx, func(m *v1alpha1.MemberCluster) bool {
		return slices.ContainsFunc(f.Status.Runs, func(run v1alpha1.Run) bool { return run.Cluster == m.Name && !run.State.Ended() }) ||
			slices.ContainsFunc(m.Status.UnownedJobs, func(j v1alpha1.UnownedJob) bool { return j.Owner == ownerOf(f) })
	})
}

// WatchJobs has a member reconciled when something happens to a Job there whose owner is not on the hub. It is added to
// the manager; notify must not block.
func (r *Reconciler) WatchJobs(notify func(member string)) mcmanager.Runnable {
	return &jobWatches{ownerMissing: r.ownerMissing, notify: notify}
}

// ownerMissing says whether the cache has no FleetMiniCluster that a live or ended Job of this fleet names as its owner.
func (r *Reconciler) ownerMissing(ctx context.Context, job *batchv1.Job) bool {
	if job.Annotations[v1alpha1.AnnotationFleetID] != r.FleetID {
		return false
	}
	key, ok := fleet.Origin{Owner: job.Annotations[v1alpha1.AnnotationOwner]}.Key()
	if !ok {
		return true
	}
	return apierrors.IsNotFound(r.Client.Get(ctx, key, &v1alpha1.FleetMiniCluster{}, client.UnsafeDisableDeepCopy))
}

// ownerCached says whether the cache has the FleetMiniCluster of this shard that a Job names as its owner.
func (r *Reconciler) ownerCached(ctx context.Context, job *batchv1.Job) bool {
	var owner v1alpha1.FleetMiniCluster
	key, ok := fleet.Origin{Owner: job.Annotations[v1alpha1.AnnotationOwner]}.Key()
	return ok && r.Client.Get(ctx, key, &owner, client.UnsafeDisableDeepCopy) == nil && v1alpha1.ShardOf(&owner) == r.Elsewhere.Shard
}

type jobWatches struct {
	ownerMissing func(context.Context, *batchv1.Job) bool
	notify       func(member string)
}

// Start implements mcmanager.Runnable: there is nothing to do before a member engages.
func (w *jobWatches) Start(ctx context.Context) error {
	<-ctx.Done()
	return nil
}

// Engage implements mcmanager.Runnable. The handler ends with the member's cache.
func (w *jobWatches) Engage(ctx context.Context, name multicluster.ClusterName, member cluster.Cluster) error {
	informer, err := member.GetCache().GetInformer(ctx, &batchv1.Job{})
	if err != nil {
		return fmt.Errorf("watching Jobs of member %s: %w", name, err)
	}
	notify := func(any) { w.notify(name.String()) }
	_, err = informer.AddEventHandler(toolscache.FilteringResourceEventHandler{
		FilterFunc: func(obj any) bool {
			if unknown, ok := obj.(toolscache.DeletedFinalStateUnknown); ok {
				obj = unknown.Obj
			}
			job, ok := obj.(*batchv1.Job)
			return ok && w.ownerMissing(ctx, job)
		},
		Handler: toolscache.ResourceEventHandlerFuncs{AddFunc: notify, UpdateFunc: func(_, after any) { notify(after) }, DeleteFunc: notify},
	})
	return err
}
