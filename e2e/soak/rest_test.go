package soak

import (
	"context"
	"fmt"
	"slices"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/minifleet/minifleet/api/v1alpha1"
)

// unrest is what keeps the fleet from being at rest (L: nothing is lost): each FleetMiniCluster that is left
// has run as it is wanted now, or says why not; nothing is left of the others; all edits of others are
// undone.
func (f *fleet) unrest(ctx context.Context) []string {
	out := f.unconnected(ctx)
	var list v1alpha1.FleetMiniClusterList
	if err := f.clients[hubName].List(ctx, &list); err != nil {
		return append(out, err.Error())
	}
	left := map[types.UID]*v1alpha1.FleetMiniCluster{}
	for i := range list.Items {
		obj := &list.Items[i]
		left[obj.UID] = obj
		if why := unsettled(obj); why != "" {
			out = append(out, fmt.Sprintf("%s (%s): %s", obj.Name, obj.UID, why))
		}
	}
	for _, member := range membersOf(f.shards) {
		objects, err := f.owned(ctx, member)
		if err != nil {
			out = append(out, err.Error())
		}
		for _, obj := range objects {
			out = append(out, f.remains(member, obj, left)...)
		}
	}
	return append(out, f.missingStrangers(ctx)...)
}

// unsettled is why a FleetMiniCluster is not done, or empty.
func unsettled(f *v1alpha1.FleetMiniCluster) string {
	if f.DeletionTimestamp != nil {
		return "is being deleted: " + readyOf(f)
	}
	ready, status := readyReason(f), f.Status
	w := (&version{object: f}).wish()
	switch {
	case status.ObservedGeneration != f.Generation:
		return fmt.Sprintf("the status is about generation %d, and not %d", status.ObservedGeneration, f.Generation)
	case status.Digest != w.digest:
		return fmt.Sprintf("digest %s is wanted, and the status says %s", w.digest, status.Digest)
	case f.Spec.Suspend && ready == "Suspended", taken[f.Name] != "" && ready == "NameConflict":
		return ""
	case ready != "Succeeded" && ready != "RunFailed" && ready != "RunCancelled", status.Sync != v1alpha1.Synced:
		return readyOf(f)
	case status.Placement == nil || len(status.Placement.Clusters) == 0:
		return "is placed nowhere"
	}
	for _, member := range status.Placement.Clusters {
		var last *v1alpha1.Run
		for i := range status.Runs {
			if status.Runs[i].Cluster == member {
				last = &status.Runs[i]
			}
		}
		if last == nil || last.Digest != w.digest || w.token != "" && last.RerunAt != w.token || !last.State.Ended() {
			return fmt.Sprintf("%+v is wanted on %s, and the latest run there is %+v", w, member, last)
		}
	}
	return ""
}

func readyReason(f *v1alpha1.FleetMiniCluster) string {
	if c := meta.FindStatusCondition(f.Status.Conditions, v1alpha1.ConditionReady); c != nil {
		return c.Reason
	}
	return ""
}

func readyOf(f *v1alpha1.FleetMiniCluster) string {
	if c := meta.FindStatusCondition(f.Status.Conditions, v1alpha1.ConditionReady); c != nil {
		return fmt.Sprintf("Ready=%s %s: %s", c.Status, c.Reason, c.Message)
	}
	return "has no status"
}

// owned are the objects on a member with MiniFleet's marks, the pods of runs, and all Jobs that are nobody else's: somebody
// may have taken the marks off.
func (f *fleet) owned(ctx context.Context, member string) ([]client.Object, error) {
	var out []client.Object
	for _, list := range []client.ObjectList{&batchv1.JobList{}, &corev1.ConfigMapList{}, &corev1.SecretList{}, &corev1.ServiceList{}, &corev1.PodList{}} {
		options := []client.ListOption{client.InNamespace(f.namespace), client.MatchingLabels{v1alpha1.LabelManagedBy: v1alpha1.ManagedBy}}
		if _, jobs := list.(*batchv1.JobList); jobs {
			options = options[:1]
		}
		if err := f.clients[member].List(ctx, list, options...); err != nil {
			return nil, fmt.Errorf("listing on %s: %w", member, err)
		}
		_ = meta.EachListItem(list, func(o runtime.Object) error {
			if obj, ok := o.(client.Object); ok && !f.isStranger(obj) {
				out = append(out, obj)
			}
			return nil
		})
	}
	return out, nil
}

// remains is what is wrong with an object on a member: nobody's, or as somebody has edited it.
func (f *fleet) remains(member string, obj client.Object, left map[types.UID]*v1alpha1.FleetMiniCluster) []string {
	what := fmt.Sprintf("%s has %T %s", member, obj, obj.GetName())
	owner := left[f.ownerOf(obj)]
	if job, ok := obj.(*batchv1.Job); ok && owner == nil && job.Annotations[v1alpha1.AnnotationOwnerUID] == "" {
		owner = holder(job.UID, left) // somebody has taken its marks off, and of one that has ended nobody puts them back
	}
	if obj.GetLabels()[v1alpha1.LabelCopy] == "true" {
		for key := range obj.GetAnnotations() {
			if uid, ok := strings.CutPrefix(key, v1alpha1.AnnotationUserPrefix); ok && left[heirOf(f.heirs, types.UID(uid))] != nil {
				owner = left[heirOf(f.heirs, types.UID(uid))]
			}
		}
	}
	if owner == nil {
		if pod, ok := obj.(*corev1.Pod); ok && metav1.GetControllerOf(pod) != nil {
			return []string{what + ", a pod of a run that is deleted"} // collected when its Job is gone
		}
		return []string{what + ", which belongs to nothing that is left"}
	}
	if owner.Spec.Suspend || taken[owner.Name] == member {
		return nil // what no run uses stays as it is until the next one
	}
	texts := []string{}
	switch obj := obj.(type) {
	case *corev1.ConfigMap:
		for _, v := range obj.Data {
			texts = append(texts, v)
		}
	case *corev1.Secret:
		for _, v := range obj.Data {
			texts = append(texts, string(v))
		}
	case *corev1.Service:
		texts = append(texts, map[bool]string{true: edited}[obj.Spec.Selector["app"] == "another"])
	}
	if slices.Contains(texts, edited) {
		return []string{what + ", which is still as somebody has edited it"}
	}
	return nil
}

// holder is the FleetMiniCluster whose ledger has a Job, nil if none has.
func holder(job types.UID, left map[types.UID]*v1alpha1.FleetMiniCluster) *v1alpha1.FleetMiniCluster {
	for _, f := range left {
		if slices.ContainsFunc(f.Status.Runs, func(r v1alpha1.Run) bool { return r.JobUID == job }) {
			return f
		}
	}
	return nil
}

// missingStrangers are objects of others that are not there any more.
func (f *fleet) missingStrangers(ctx context.Context) []string {
	var out []string
	for _, s := range f.strangers {
		now, _ := s.object.DeepCopyObject().(client.Object)
		err := f.clients[s.member].Get(ctx, client.ObjectKeyFromObject(s.object), now)
		if err != nil || now.GetUID() != s.object.GetUID() {
			out = append(out, fmt.Sprintf("somebody else's %T %s on %s is gone: %v", s.object, s.object.GetName(), s.member, err))
		}
	}
	return out
}
