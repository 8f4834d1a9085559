package policy

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	fluxv1alpha2 "github.com/minifleet/minifleet/api/flux/v1alpha2"
	"github.com/minifleet/minifleet/api/v1alpha1"
)

// closedNodes are the taints that keep ordinary pods off nodes which are not for them. Taints that an administrator has
// chosen to tell nodes apart, such as nvidia.com/gpu, are ordinary: to be tolerated is what they are for.
var closedNodes = []struct {
	// keys are whole keys; those that end in / are domains.
	keys []string
	why  string
}{
	{[]string{"node-role.kubernetes.io/", "CriticalAddonsOnly"}, "lets the pods run beside the member's control plane"},
	{[]string{"node.kubernetes.io/", "node.cloudprovider.kubernetes.io/"}, "lets the pods run on nodes that Kubernetes has closed, or keeps them on nodes that it has lost"},
	{[]string{"ToBeDeletedByClusterAutoscaler", "karpenter.sh/"}, "lets the pods run on nodes that are being removed"},
}

func (w *walk) toleration(t *fluxv1alpha2.Toleration, at *field.Path) {
	if t.Key == "" {
		w.need(v1alpha1.PermissionTolerations, at, "tolerates every taint, that of the member's control plane too")
		return
	}
	for _, c := range closedNodes {
		if slices.ContainsFunc(c.keys, func(k string) bool { return k == t.Key || strings.HasSuffix(k, "/") && strings.HasPrefix(t.Key, k) }) {
			w.need(v1alpha1.PermissionTolerations, at.Child("key"), "%s (%s)", c.why, t.Key)
			return
		}
	}
}
