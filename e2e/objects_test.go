package e2e

import (
	"context"
	"fmt"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/minifleet/minifleet/api/v1alpha1"
)

// owned lists KIND/NAME of what MiniFleet has on a member, pods of its Jobs included.
func (w *world) owned(ctx context.Context, member string) []string {
	var out []string
	for _, list := range []client.ObjectList{&batchv1.JobList{}, &corev1.ConfigMapList{}, &corev1.SecretList{}, &corev1.ServiceList{}} {
		_ = members[member].List(ctx, list, client.InNamespace(w.name), client.MatchingLabels{v1alpha1.LabelManagedBy: v1alpha1.ManagedBy})
		_ = meta.EachListItem(list, func(o runtime.Object) error {
			if obj, ok := o.(client.Object); ok {
				out = append(out, fmt.Sprintf("%T/%s", obj, obj.GetName()))
			}
			return nil
		})
	}
	var pods corev1.PodList
	_ = members[member].List(ctx, &pods, client.InNamespace(w.name))
	for _, p := range pods.Items {
		out = append(out, "Pod/"+p.Name)
	}
	return out
}

// curveKey is the secret key in the Secret of a MiniCluster on a member.
func (w *world) curveKey(ctx context.Context, member, name string) string {
	var list corev1.SecretList
	_ = members[member].List(ctx, &list, client.InNamespace(w.name), client.MatchingLabels{v1alpha1.LabelOwner: name})
	for _, s := range list.Items {
		if cert := string(s.Data["curve.cert"]); cert != "" {
			return secretKey(cert)
		}
	}
	return ""
}

// configMaps is the content of all ConfigMaps in the world's namespace on a member.
func (w *world) configMaps(ctx context.Context, member string) string {
	var list corev1.ConfigMapList
	_ = members[member].List(ctx, &list, client.InNamespace(w.name))
	out := ""
	for _, m := range list.Items {
		for _, v := range m.Data {
			out += v
		}
	}
	return out
}
