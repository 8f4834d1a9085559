package soak

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/hack/lab"
)

// failoverAfter10 is a Placement's failover with a way of fencing, and none without.
func failoverAfter10(s step) any {
	if s.arg == "" {
		return nil
	}
	return map[string]any{"afterSeconds": 10, "fencing": s.arg}
}

// textOrNull is the step's argument, and null where there is none.
func textOrNull(s step) any {
	if s.arg == "" {
		return nil
	}
	return s.arg
}

// declare says of the latest run on a member that it is gone, whether or not it is.
func declare(ctx context.Context, f *fleet, s step) error {
	obj, err := f.get(ctx, s.name)
	if err != nil {
		return err
	}
	if run := lastRun(obj, s.on); run != nil {
		return f.patch(ctx, s.name, `{"metadata":{"annotations":{"`+v1alpha1.AnnotationRunGone+`":%s}}}`, run.ID)
	}
	return errNothing
}

// queue suspends a Job, or resumes it, as a queue on the member would.
func queue(ctx context.Context, f *fleet, s step) error {
	if taken[s.name] == s.on {
		return errNothing // it is the stranger's
	}
	job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: s.name}}
	return f.clients[s.on].Patch(ctx, job, client.RawPatch(mergePatch, fmt.Appendf(nil, `{"spec":{"suspend":%s}}`, s.arg)))
}

// unready has no pod of a MiniCluster on a member be ready, as when their nodes are silent.
func unready(ctx context.Context, f *fleet, s step) error {
	var list corev1.PodList
	err := f.clients[s.on].List(ctx, &list, client.InNamespace(f.namespace), client.MatchingLabels{v1alpha1.LabelOwner: s.name})
	if err != nil || len(list.Items) == 0 {
		return errors.Join(err, errNothing)
	}
	var errs []error
	for i := range list.Items {
		pod := &list.Items[i]
		for j := range pod.Status.Conditions {
			pod.Status.Conditions[j].Status = corev1.ConditionFalse
		}
		errs = append(errs, f.clients[s.on].Status().Update(ctx, pod))
	}
	return errors.Join(errs...)
}

// cordon keeps a member's node from taking pods, or has it take them again.
func cordon(ctx context.Context, f *fleet, s step) error {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: s.on + "-0"}}
	return f.clients[s.on].Patch(ctx, node, client.RawPatch(mergePatch, fmt.Appendf(nil, `{"spec":{"unschedulable":%s}}`, s.arg)))
}

// nodeOf is what each member has.
func nodeOf(member string) lab.Node {
	return lab.Node{Name: member + "-0", CPU: strconv.Itoa(nodeCPU), Memory: "256Gi"}
}

// loseNode removes a member's node, with all that runs there, as somebody does who knows that it is off.
func loseNode(ctx context.Context, f *fleet, s step) error {
	c := f.clients[s.on]
	if err := c.Delete(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: s.on + "-0"}}); err != nil {
		return err
	}
	var list corev1.PodList
	if err := c.List(ctx, &list, client.InNamespace(f.namespace)); err != nil {
		return err
	}
	var errs []error
	for i := range list.Items {
		if list.Items[i].Spec.NodeName != "" {
			errs = append(errs, client.IgnoreNotFound(c.Delete(ctx, &list.Items[i], client.GracePeriodSeconds(0))))
		}
	}
	return errors.Join(errs...)
}

func (f *fleet) restoreNode(ctx context.Context, member string) error {
	err := f.clients[member].Get(ctx, client.ObjectKey{Name: member + "-0"}, &corev1.Node{})
	if apierrors.IsNotFound(err) {
		return f.lab.Cluster(member).AddNodes(ctx, nodeOf(member))
	}
	return errors.Join(err, client.IgnoreNotFound(cordon(ctx, f, step{on: member, arg: "false"})))
}

// unregister deletes a MemberCluster with a policy.
func unregister(ctx context.Context, f *fleet, s step) error {
	m := &v1alpha1.MemberCluster{ObjectMeta: metav1.ObjectMeta{Name: s.on}}
	patch := fmt.Appendf(nil, `{"spec":{"deletionPolicy":%q}}`, s.arg)
	if err := f.clients[hubName].Patch(ctx, m, client.RawPatch(mergePatch, patch)); err != nil {
		return err
	}
	if s.arg == string(v1alpha1.DeletionOrphan) {
		f.abandoned[s.on] = true
	}
	return f.clients[hubName].Delete(ctx, m)
}

// register makes a MemberCluster anew. One that is still being deleted stays as it is.
func (f *fleet) register(ctx context.Context, member string) error {
	err := f.clients[hubName].Create(ctx, f.memberCluster(member))
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}

func (f *fleet) memberCluster(name string) *v1alpha1.MemberCluster {
	key, _ := keyOf(f.shards, name)
	labels := labelled(key)
	labels["zone"] = zones[name]
	return &v1alpha1.MemberCluster{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels},
		Spec:       v1alpha1.MemberClusterSpec{Namespaces: v1alpha1.AllNamespaces(), KubeconfigSecretRef: v1alpha1.LocalReference{Name: name}},
	}
}

// reregister has every member be registered. What is being deleted may go now, whatever runs there.
func (f *fleet) reregister(ctx context.Context) error {
	var errs []error
	for _, name := range membersOf(f.shards) {
		var m v1alpha1.MemberCluster
		err := f.clients[hubName].Get(ctx, client.ObjectKey{Name: name}, &m)
		switch {
		case apierrors.IsNotFound(err):
			err = f.register(ctx, name)
		case err == nil && !m.DeletionTimestamp.IsZero() && m.Spec.DeletionPolicy != v1alpha1.DeletionDrain:
			err = f.clients[hubName].Patch(ctx, &m, client.RawPatch(mergePatch, []byte(`{"spec":{"deletionPolicy":"Drain"}}`)))
		}
		errs = append(errs, client.IgnoreNotFound(err))
	}
	return errors.Join(errs...)
}

// sweep removes what FleetMiniClusters have left that were deleted while a member was not registered: nobody else
// knows of it.
func (f *fleet) sweep(ctx context.Context) error {
	var list v1alpha1.FleetMiniClusterList
	if err := f.clients[hubName].List(ctx, &list); err != nil {
		return err
	}
	left := map[string]bool{}
	for i := range list.Items {
		left[string(list.Items[i].UID)] = true
	}
	var errs []error
	for member := range f.abandoned {
		objects, err := f.owned(ctx, member)
		errs = append(errs, err)
		for _, obj := range objects {
			if owner := string(f.ownerOf(obj)); owner != "" && !left[owner] {
				errs = append(errs, client.IgnoreNotFound(f.clients[member].Delete(ctx, obj, client.PropagationPolicy(metav1.DeletePropagationForeground))))
			}
		}
	}
	return errors.Join(errs...)
}

// stick has runs wait for their pods on a member for longer than their placements let them.
func (d *drawer) stick() step {
	member := d.member()
	if d.isBroken(member) || d.isAway(member) {
		return step{}
	}
	stirred := d.some(2)
	d.clear(member, stirred)
	d.runLong(stirred)
	d.linger()
	how := d.pick("cordon", "queue")
	for _, name := range stirred {
		d.add(step{do: "suspend", name: name, arg: "true"})
	}
	d.linger()
	if how == "cordon" {
		d.add(step{do: "cordon", on: member, arg: "true"})
		d.away[member] = d.now + brief + d.r.IntN(5)
	}
	for _, name := range stirred {
		if how == "queue" {
			d.add(step{do: "queue", name: name, on: member, arg: "true"})
		}
		d.add(step{do: "place", name: name})
		d.add(step{do: "patience", name: name, arg: "10s"})
		d.add(step{do: "suspend", name: name, arg: "false"})
	}
	d.wait(8)
	d.hit(stirred, member)
	d.wait(5) // what nothing has happened to is withdrawn by then
	if d.r.IntN(2) == 0 {
		for _, name := range stirred {
			d.add(step{do: "patience", name: name})
		}
	}
	return step{}
}

// bereave takes the pods of runs from them, or their members, for so long that they count as lost.
func (d *drawer) bereave() step {
	member := d.member()
	if d.isBroken(member) || d.isAway(member) {
		return step{}
	}
	stirred := d.some(2)
	d.clear(member, stirred)
	for _, name := range stirred {
		d.add(step{do: "failover", name: name, arg: d.pick("ProvenGone", "ProvenGone", "Manual")})
		d.add(step{do: "lengthen", name: name, n: 20 + d.r.IntN(8)})
	}
	d.wait(2)
	for _, name := range stirred {
		d.add(step{do: "place", name: name})
	}
	how := d.pick("unready", "unready", "lose-node", "refuse", "hang", "kill")
	switch how {
	case "unready":
		for _, name := range stirred {
			d.add(step{do: "unready", name: name, on: member})
		}
	case "lose-node":
		d.add(step{do: "lose-node", on: member})
		d.away[member] = d.now + brief + d.r.IntN(5)
	default:
		d.add(step{do: "break", on: member, arg: how})
		d.broken[member] = d.now + brief + d.r.IntN(5)
	}
	d.wait(9)
	d.hit(stirred, member)
	d.wait(6) // what nothing has happened to is lost by then
	if d.r.IntN(2) == 0 {
		for _, name := range stirred {
			d.add(step{do: "failover", name: name})
		}
	}
	if d.r.IntN(2) == 0 {
		for _, name := range stirred {
			d.add(step{do: "delete-job", name: name, on: member, arg: d.pick("Background", "Orphan", "Foreground")})
		}
	}
	return step{}
}

// dismiss has a MemberCluster deleted, and registered anew some steps later.
func (d *drawer) dismiss() step {
	member := d.member()
	if d.isAway(member) {
		return step{}
	}
	d.away[member] = d.now + 2 + d.r.IntN(6)
	if d.r.IntN(2) == 0 {
		stirred := d.some(2)
		if !d.isBroken(member) {
			d.clear(member, stirred)
			d.runLong(stirred)
			d.wait(1)
		}
		d.add(step{do: "unregister", on: member, arg: d.pick("Block", "Drain", "Orphan")})
		d.hit(stirred, member)
		return step{}
	}
	return step{do: "unregister", on: member, arg: d.pick("Block", "Drain", "Orphan")}
}

// hit does to runs, or to MiniFleet, what comes at a bad moment.
func (d *drawer) hit(stirred []string, member string) {
	for range 1 + d.r.IntN(3) {
		name := stirred[d.r.IntN(len(stirred))]
		switch d.r.IntN(9) {
		case 0:
			d.add(step{do: "cancel", name: name, on: member})
		case 1:
			d.add(step{do: "rerun", name: name, arg: fmt.Sprintf("token-%d", len(d.steps))})
		case 2:
			d.add(step{do: "suspend", name: name, arg: "true"})
			d.add(step{do: "suspend", name: name, arg: "false"})
		case 3:
			d.add(step{do: "kill-hub", n: d.r.IntN(500)})
		case 4:
			d.add(step{do: "depose-hub", n: 500 + d.r.IntN(4000)})
		case 5:
			d.add(step{do: "declare", name: name, on: member})
			d.add(step{do: "kill-hub", n: d.r.IntN(500)})
		case 6:
			d.add(step{do: "drain", on: member, arg: "true"})
			d.add(step{do: "drain", on: member, arg: "false"})
		case 7:
			d.add(step{do: "delete", name: name})
			d.add(d.create(name))
		default:
			d.add(step{do: "command", name: name, arg: fmt.Sprintf("work-%d", d.r.IntN(3))})
		}
	}
}

func (d *drawer) wait(seconds int) {
	for range seconds {
		d.linger()
	}
}

func (d *drawer) isAway(member string) bool {
	_, ok := d.away[member]
	return ok
}

// comeBack ends what members have been without for long enough.
func (d *drawer) comeBack() {
	for _, d.shard = range d.shards {
		for _, member := range d.shard.members {
			if until, ok := d.away[member]; ok && until <= d.now {
				delete(d.away, member)
				d.add(step{do: "node", on: member})
				d.add(step{do: "register", on: member})
			}
		}
	}
}
