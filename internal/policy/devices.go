package policy

import (
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/minifleet/minifleet/api/v1alpha1"
)

// ordinaryDevices are the domains of extended resources that people schedule by: accelerators, and the
// fabrics between nodes. Whatever else a device plugin gives out is a device of the node that nobody has
// thought about here, be it /dev/fuse or a whole disk, and is asked for.
var ordinaryDevices = []string{
	"nvidia.com", "amd.com", "gpu.intel.com", "habana.ai",
	"google.com", "cloud-tpus.google.com", "aws.amazon.com",
	"rdma", "vpc.amazonaws.com", "networking.gke.io.networks",
}

func (w *walk) resources(r *corev1.ResourceRequirements, at *field.Path) {
	for _, list := range []struct {
		name  string
		items corev1.ResourceList
	}{{"limits", r.Limits}, {"requests", r.Requests}} {
		for _, name := range slices.Sorted(maps.Keys(list.items)) {
			if isRawDevice(name) {
				w.need(v1alpha1.PermissionHostDevices, at.Child(list.name).Key(string(name)), "asks for the node's device %s", name)
			}
		}
	}
	for i, claim := range r.Claims {
		w.need(v1alpha1.PermissionHostDevices, at.Child("claims").Index(i), "asks for the devices of the claim %s", claim.Name)
	}
}

// isRawDevice says whether a resource is neither one of Kubernetes itself (cpu, memory, hugepages-2Mi, and all
// of kubernetes.io that is no class of devices) nor an ordinary device.
func isRawDevice(name corev1.ResourceName) bool {
	domain, _, extended := strings.Cut(string(name), "/")
	switch {
	case !extended:
		return false
	case domain == "deviceclass.resource.kubernetes.io":
		return true
	case domain == "kubernetes.io" || strings.HasSuffix(domain, ".kubernetes.io"):
		return false
	default:
		return !slices.Contains(ordinaryDevices, domain)
	}
}
