package policy

import (
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/minifleet/minifleet/api/v1alpha1"
)

// annotations that Kubernetes, or a container runtime that is set up for it, reads as settings of security.
// The first whose prefix fits decides.
var annotations = []struct {
	prefix     string
	permission v1alpha1.Permission // empty: ordinary
	why        string
	// harmless says which values ask for nothing; nil: none.
	harmless func(value string) bool
}{
	{"container.apparmor.security.beta.kubernetes.io/", v1alpha1.PermissionPrivileged, "lifts AppArmor's confinement", confinedByAppArmor},
	{"container.seccomp.security.alpha.kubernetes.io/", v1alpha1.PermissionPrivileged, "lifts the filter of system calls", confinedBySeccomp},
	{"seccomp.security.alpha.kubernetes.io/", v1alpha1.PermissionPrivileged, "lifts the filter of system calls", confinedBySeccomp},
	{"seccomp-profile.kubernetes.cri-o.io", v1alpha1.PermissionPrivileged, "replaces the filter of system calls", nil},

	{"cdi.k8s.io/", v1alpha1.PermissionHostDevices, "adds devices of the node", nil},
	{"cdi-devices.nri.", v1alpha1.PermissionHostDevices, "adds devices of the node", nil},
	{"devices.nri.", v1alpha1.PermissionHostDevices, "adds devices of the node", nil},
	{"devices.noderesource.dev", v1alpha1.PermissionHostDevices, "adds devices of the node", nil},
	{"mounts.nri.", v1alpha1.PermissionHostPath, "mounts paths of the node", nil},

	{"io.kubernetes.cri-o.Devices", v1alpha1.PermissionHostDevices, "adds devices of the node", nil},
	{"io.kubernetes.cri-o.ShmSize", "", "", nil},
	{"io.kubernetes.cri-o.", v1alpha1.PermissionPrivileged, "is a setting of the node's runtime, CRI-O", nil},
	{"cpu-load-balancing.crio.io", v1alpha1.PermissionPrivileged, "is a setting of the node's runtime, CRI-O", nil},
	{"cpu-quota.crio.io", v1alpha1.PermissionPrivileged, "is a setting of the node's runtime, CRI-O", nil},
	{"irq-load-balancing.crio.io", v1alpha1.PermissionPrivileged, "is a setting of the node's runtime, CRI-O", nil},
	{"dev.gvisor.flag.", v1alpha1.PermissionPrivileged, "is a setting of the node's runtime, gVisor", nil},
	{"io.containers.trace-syscall", v1alpha1.PermissionPrivileged, "starts a hook on the node", nil},
	{"io.katacontainers.config.", v1alpha1.PermissionPrivileged, "is a setting of the node's runtime, Kata Containers", nil},
	{"org.systemd.property.", v1alpha1.PermissionPrivileged, "is a setting of the node's systemd", nil},
	{"run.oci.", v1alpha1.PermissionPrivileged, "is a setting of the node's runtime, crun", nil},
}

func (w *walk) annotation(key, value string, at *field.Path) {
	for _, a := range annotations {
		if !strings.HasPrefix(key, a.prefix) {
			continue
		}
		if a.permission != "" && (a.harmless == nil || !a.harmless(value)) {
			w.need(a.permission, at, "%s (%q)", a.why, value)
		}
		return
	}
}

func confinedByAppArmor(profile string) bool {
	return profile == "" || profile == "runtime/default" || strings.HasPrefix(profile, "localhost/")
}

func confinedBySeccomp(profile string) bool {
	return profile == "runtime/default" || profile == "docker/default" || strings.HasPrefix(profile, "localhost/")
}
