package soak

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/minifleet/minifleet/api/v1alpha1"
)

// losses is what somebody has to know who restores a hub, and the soak of what was lost.
type losses struct {
	heirs    map[types.UID]types.UID               // those that were created anew after their finalizer was taken off
	vanished map[types.UID]bool                    // those whose finalizer was taken off and that nobody has created anew
	backup   map[string]*v1alpha1.FleetMiniCluster // by name, as the hub was at some time
	unmarked map[client.ObjectKey]*batchv1.Job     // Jobs as they were before their marks were taken off, by member and name
}

func newLosses() losses {
	return losses{heirs: map[types.UID]types.UID{}, vanished: map[types.UID]bool{}, unmarked: map[client.ObjectKey]*batchv1.Job{}}
}

// lossKinds are what makes the hub forget, or members. `make soak` draws them beside the other kinds.
var lossKinds = []kind{
	{4, func(d *drawer) step {
		return d.loss(step{do: "empty-status", n: 1 + d.r.IntN(len(d.shard.names)), arg: d.pick(downtimes...)})
	}},
	{4, func(d *drawer) step { return step{do: "unmark-job", name: d.name(), on: d.member()} }},
	{2, func(d *drawer) step { return d.loss(step{do: "rebuild-hub", arg: d.pick(rebuilds...)}) }},
	{3, func(d *drawer) step { return d.loss(step{do: "back-up"}) }},
	{3, (*drawer).restoreBackup},
	{3, (*drawer).recreateAway},
	{3, func(d *drawer) step {
		return step{do: "edit-status", name: d.name(), n: d.r.IntN(4), arg: d.pick("Succeeded", "Failed", "Replaced", "Running", "digest")}
	}},
}

// What happens to pods while the hub is down.
const (
	podsGoOn = "pods go on"
	podsEnd  = "pods end"
)

var downtimes = []string{podsGoOn, podsEnd}

// What becomes of the hub that was, when another takes the fleet over.
const (
	oldHubStopped = "the old one is stopped"
	oldHubReturns = "the old one comes back"
)

var rebuilds = []string{oldHubStopped, oldHubStopped, oldHubReturns}

// loss is a step for which the hub's API server has to answer.
func (d *drawer) loss(s step) step {
	if d.isBroken(hubName) {
		return step{}
	}
	return s
}

// restoreBackup restores a backup, where there is one by then, and else makes one.
func (d *drawer) restoreBackup() step {
	s := step{do: "restore-backup", arg: d.pick(rebuilds...), n: d.r.IntN(4000)}
	if !slices.ContainsFunc(d.steps, func(s step) bool { return s.do == "back-up" }) {
		s = step{do: "back-up"}
	}
	return d.loss(s)
}

// recreateAway has FleetMiniClusters be created anew without their finalizer while a member that they run on is away. A
// hub that is paused sees that; one that is not there does not, which decision 18 has as a limit.
func (d *drawer) recreateAway() step {
	member := d.member()
	if d.isBroken(member) || d.isAway(member) || d.isBroken(hubName) {
		return step{}
	}
	stirred := d.some(2)
	d.clear(member, stirred)
	d.runLong(stirred)
	d.wait(2)
	for _, name := range stirred {
		d.add(step{do: "place", name: name})
	}
	d.linger()
	d.add(step{do: "break", on: member, arg: d.pick("refuse", "hang", "kill")})
	d.broken[member] = d.now + brief + d.r.IntN(5)
	if d.r.IntN(2) == 0 {
		d.wait(4) // it is noticed
	}
	for _, name := range stirred {
		d.add(step{do: "recreate", name: name})
	}
	d.linger()
	return step{}
}

// whileDown kills what runs of MiniFleet, does something, and starts it again.
func whileDown(do func(context.Context, *fleet, step) error) func(context.Context, *fleet, step) error {
	return func(ctx context.Context, f *fleet, s step) error {
		f.killHubs(s.shard)
		if err := f.remark(ctx); err != nil {
			return errors.Join(err, f.superviseHub(ctx))
		}
		return errors.Join(do(ctx, f, s), f.superviseHub(ctx))
	}
}

// emptyStatus empties the status of some FleetMiniClusters.
func emptyStatus(ctx context.Context, f *fleet, s step) error {
	all, err := f.fleetMiniClusters(ctx, s.shard)
	if err != nil {
		return err
	}
	if s.arg == podsEnd {
		f.endAllPods(ctx)
		pause(1500)
	}
	var errs []error
	for i := range all[:min(s.n, len(all))] {
		if s.name != "" && all[i].Name != s.name {
			continue
		}
		all[i].Status = v1alpha1.FleetMiniClusterStatus{}
		errs = append(errs, f.clients[hubName].Status().Update(ctx, &all[i]))
	}
	return errors.Join(errs...)
}

// fleetMiniClusters are those of the schedule, by name: of a shard, or of all.
func (f *fleet) fleetMiniClusters(ctx context.Context, shard string) ([]v1alpha1.FleetMiniCluster, error) {
	var list v1alpha1.FleetMiniClusterList
	err := f.clients[hubName].List(ctx, &list, client.InNamespace(f.namespace), client.MatchingLabels(labelled(shard)))
	return list.Items, err
}

// remark puts the marks of Jobs back that were taken off, if they still are: a ledger that is lost as well leaves nothing
// to know such a Job by.
func (f *fleet) remark(ctx context.Context) error {
	var errs []error
	for at, was := range f.unmarked {
		var now batchv1.Job
		err := f.clients[at.Namespace].Get(ctx, client.ObjectKeyFromObject(was), &now)
		if err == nil && now.UID == was.UID && now.Annotations[v1alpha1.AnnotationOwnerUID] == "" {
			now.Labels, now.Annotations = was.Labels, was.Annotations
			err = f.clients[at.Namespace].Update(ctx, &now)
		}
		if client.IgnoreNotFound(err) != nil {
			errs = append(errs, err)
			continue
		}
		delete(f.unmarked, at)
	}
	return errors.Join(errs...)
}

// unmarkJob takes all labels and annotations off a Job, unless the ledger has been lost and does not have it again yet.
func unmarkJob(ctx context.Context, f *fleet, s step) error {
	if taken[s.name] == s.on {
		return errNothing // it is the stranger's
	}
	key := client.ObjectKey{Namespace: f.namespace, Name: s.name}
	return retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		var job batchv1.Job
		if err := f.clients[s.on].Get(ctx, key, &job); err != nil {
			return err
		}
		obj, err := f.get(ctx, s.name)
		if err != nil {
			return err
		}
		if job.Annotations[v1alpha1.AnnotationOwnerUID] == "" || holder(job.UID, map[types.UID]*v1alpha1.FleetMiniCluster{obj.UID: obj}) == nil {
			return errNothing
		}
		at := client.ObjectKey{Namespace: s.on, Name: s.name}
		f.unmarked[at] = job.DeepCopy()
		job.Labels, job.Annotations = nil, nil
		return f.clients[s.on].Update(ctx, &job)
	})
}

// vanish removes a FleetMiniCluster without what belongs to it.
func (f *fleet) vanish(ctx context.Context, obj *v1alpha1.FleetMiniCluster) error {
	c := f.clients[hubName]
	f.vanished[obj.UID] = true
	if len(obj.Finalizers) > 0 {
		if err := c.Patch(ctx, obj.DeepCopy(), client.RawPatch(mergePatch, []byte(`{"metadata":{"finalizers":null}}`))); err != nil {
			return client.IgnoreNotFound(err)
		}
	}
	return client.IgnoreNotFound(c.Delete(ctx, &v1alpha1.FleetMiniCluster{ObjectMeta: metav1.ObjectMeta{Namespace: obj.Namespace, Name: obj.Name}}, client.Preconditions{UID: &obj.UID}))
}

// createAnew creates one as Git has it, with what people have asked for where they have kept that too.
func (f *fleet) createAnew(ctx context.Context, was *v1alpha1.FleetMiniCluster, annotations map[string]string) error {
	obj := &v1alpha1.FleetMiniCluster{ObjectMeta: metav1.ObjectMeta{Namespace: was.Namespace, Name: was.Name, Annotations: annotations, Labels: labelled(v1alpha1.ShardOf(was))}, Spec: was.Spec}
	if err := f.clients[hubName].Create(ctx, obj); err != nil {
		return err
	}
	f.heirs[was.UID] = obj.UID
	delete(f.vanished, was.UID)
	return nil
}

// recreate takes the finalizer off a FleetMiniCluster and creates it anew, while MiniFleet is paused.
func recreate(ctx context.Context, f *fleet, s step) error {
	anew := func(ctx context.Context, f *fleet, s step) error {
		was, err := f.get(ctx, s.name)
		if err != nil || was.DeletionTimestamp != nil {
			return errors.Join(err, errNothing)
		}
		return errors.Join(f.vanish(ctx, was), f.createAnew(ctx, was, was.Annotations))
	}
	if err := f.remark(ctx); err != nil {
		return err
	}
	err := eachHub((*minifleet).Pause)(ctx, f, s)
	return errors.Join(err, anew(ctx, f, s), eachHub((*minifleet).Resume)(ctx, f, s))
}

// rebuildHub has a new hub lead the fleet: it has what was in Git, the members, and the identity of the fleet.
func rebuildHub(ctx context.Context, f *fleet, s step) error {
	return f.takeOver(ctx, s, func() error {
		all, err := f.fleetMiniClusters(ctx, "")
		if err != nil {
			return err
		}
		var errs []error
		for i := range all {
			errs = append(errs, f.vanish(ctx, &all[i]), f.forgetKey(ctx, all[i].Name))
		}
		if err := errors.Join(errs...); err != nil {
			return err
		}
		for i := range all {
			if all[i].DeletionTimestamp != nil {
				continue // Git does not have it any more
			}
			errs = append(errs, f.createAnew(ctx, &all[i], nil))
		}
		return errors.Join(errs...)
	}, nil)
}

// forgetKey removes the certificate that is made for the first run of a FleetMiniCluster.
func (f *fleet) forgetKey(ctx context.Context, name string) error {
	var all corev1.SecretList
	if err := f.clients[hubName].List(ctx, &all, client.InNamespace(managerNamespace)); err != nil {
		return err
	}
	for i := range all.Items {
		if s := &all.Items[i]; s.Annotations[v1alpha1.AnnotationOwner] == f.namespace+"/"+name {
			return client.IgnoreNotFound(f.clients[hubName].Delete(ctx, s))
		}
	}
	return nil
}

// backUp keeps what the hub is now.
func backUp(ctx context.Context, f *fleet, _ step) error {
	all, err := f.fleetMiniClusters(ctx, "")
	if err != nil {
		return err
	}
	f.backup = map[string]*v1alpha1.FleetMiniCluster{}
	for i := range all {
		if all[i].DeletionTimestamp == nil {
			f.backup[all[i].Name] = &all[i]
		}
	}
	return nil
}

// restoreBackup puts the hub back to what it was when it was backed up, and lets Git be applied a moment later.
func restoreBackup(ctx context.Context, f *fleet, s step) error {
	if f.backup == nil {
		return errNothing
	}
	var git []v1alpha1.FleetMiniCluster
	return f.takeOver(ctx, s, func() error {
		var err error
		if git, err = f.fleetMiniClusters(ctx, ""); err != nil {
			return err
		}
		var errs []error
		for i := range git {
			if was := f.backup[git[i].Name]; was == nil || was.UID != git[i].UID {
				errs = append(errs, f.vanish(ctx, &git[i]), f.forgetKey(ctx, git[i].Name))
				continue
			}
			errs = append(errs, f.putBack(ctx, f.backup[git[i].Name]))
		}
		return errors.Join(errs...)
	}, func() error {
		pause(s.n)
		var errs []error
		for i := range git {
			if git[i].DeletionTimestamp == nil {
				errs = append(errs, f.apply(ctx, &git[i]))
			}
		}
		return errors.Join(errs...)
	})
}

// putBack makes a FleetMiniCluster what it was.
func (f *fleet) putBack(ctx context.Context, was *v1alpha1.FleetMiniCluster) error {
	now, err := f.get(ctx, was.Name)
	if err != nil || now.DeletionTimestamp != nil {
		return err // a deletion cannot be taken back
	}
	now.Spec, now.Annotations, now.Labels, now.Finalizers = was.Spec, was.Annotations, was.Labels, was.Finalizers
	if err := f.clients[hubName].Update(ctx, now); err != nil {
		return err
	}
	now.Status = was.Status
	return f.clients[hubName].Status().Update(ctx, now)
}

// apply has a FleetMiniCluster be as Git has it, whether or not it is there.
func (f *fleet) apply(ctx context.Context, want *v1alpha1.FleetMiniCluster) error {
	return retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		now, err := f.get(ctx, want.Name)
		if apierrors.IsNotFound(err) {
			return f.createAnew(ctx, want, nil)
		}
		if err != nil {
			return err
		}
		now.Spec = want.Spec
		return f.clients[hubName].Update(ctx, now)
	})
}

// oldHubTime is how long a hub that comes back runs before somebody stops it.
const oldHubTime = 3 * time.Second

// takeOver has the fleet be led in the next epoch by a hub that has what one is given, and then what is applied. The old
// hub may come back for a while. With shards the epoch is that of all, so that all controllers are started again.
func (f *fleet) takeOver(ctx context.Context, s step, prepare, applied func() error) error {
	var old []*minifleet
	if s.arg == oldHubReturns {
		var err error
		if old, err = f.startHubs(s.shard, false); err != nil {
			return err
		}
		pause(2000) // until it is connected
		if err := each(old, (*minifleet).Pause); err != nil {
			return err
		}
	}
	for _, p := range f.running("") {
		if !slices.Contains(old, p) {
			_ = p.Kill()
		}
	}
	err := f.remark(ctx)
	if err == nil {
		err = errors.Join(prepare(), f.raiseEpoch(ctx))
	}
	err = errors.Join(err, f.freeLeases(ctx, ""))
	_, failed := f.startHubs("", true)
	err = errors.Join(err, failed)
	if applied != nil {
		err = errors.Join(err, applied())
	}
	if old == nil {
		return err
	}
	err = errors.Join(err, each(old, (*minifleet).Resume))
	time.Sleep(oldHubTime)
	return errors.Join(err, each(old, (*minifleet).Kill))
}

// raiseEpoch does what docs/recovery.md wants of who has another hub lead the fleet, or a restored one.
func (f *fleet) raiseEpoch(ctx context.Context) error {
	return retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		var identity corev1.ConfigMap
		if err := f.clients[hubName].Get(ctx, client.ObjectKey{Namespace: managerNamespace, Name: v1alpha1.FleetConfigMap}, &identity); err != nil {
			return err
		}
		epoch, err := strconv.Atoi(identity.Data["epoch"])
		if err != nil {
			return err
		}
		identity.Data["epoch"] = strconv.Itoa(epoch + 1)
		return f.clients[hubName].Update(ctx, &identity)
	})
}

// editStatus edits a line of a ledger as somebody with an editor does.
func editStatus(ctx context.Context, f *fleet, s step) error {
	return retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		obj, err := f.get(ctx, s.name)
		if err != nil {
			return err
		}
		if len(obj.Status.Runs) == 0 {
			return errNothing
		}
		run := &obj.Status.Runs[len(obj.Status.Runs)-1-s.n%len(obj.Status.Runs)]
		if s.arg == "digest" {
			run.Digest = "0123456789abcdef"
		} else {
			run.State = v1alpha1.RunState(s.arg)
		}
		return f.clients[hubName].Status().Update(ctx, obj)
	})
}

// sweepVanished removes what those have left that nobody has created anew, as whoever has taken the finalizer off has to.
func (f *fleet) sweepVanished(ctx context.Context) error {
	var errs []error
	if len(f.vanished) == 0 {
		return nil
	}
	for _, member := range membersOf(f.shards) {
		objects, err := f.owned(ctx, member)
		errs = append(errs, err)
		for _, obj := range objects {
			if f.vanished[f.ownerOf(obj)] {
				errs = append(errs, client.IgnoreNotFound(f.clients[member].Delete(ctx, obj, client.PropagationPolicy(metav1.DeletePropagationForeground))))
			}
		}
	}
	return errors.Join(errs...)
}

// ownerOf is the UID that the owner of an object has by now.
func (f *fleet) ownerOf(obj client.Object) types.UID {
	return heirOf(f.heirs, types.UID(obj.GetAnnotations()[v1alpha1.AnnotationOwnerUID]))
}

// kindsWithLosses are all kinds, those of lossKinds so many times as often.
func kindsWithLosses(times int) []kind {
	out := slices.Clone(kinds)
	for _, k := range lossKinds {
		out = append(out, kind{k.weight * times, k.draw})
	}
	return out
}
