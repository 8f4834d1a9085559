package policy

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/minifleet/minifleet/api/v1alpha1"
)

// The three lists are those of the Pod Security level "baseline", as of Kubernetes 1.36.
var (
	// ordinaryCapabilities may be added: a container runtime gives them unasked, or could.
	ordinaryCapabilities = []corev1.Capability{
		"AUDIT_WRITE", "CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "MKNOD",
		"NET_BIND_SERVICE", "SETFCAP", "SETGID", "SETPCAP", "SETUID", "SYS_CHROOT",
	}
	// ordinarySELinuxTypes confine containers.
	ordinarySELinuxTypes = []string{"", "container_t", "container_init_t", "container_kvm_t", "container_engine_t"}
	// ordinarySysctls have a value for each pod, and affect no other.
	ordinarySysctls = []string{
		"kernel.shm_rmid_forced",
		"net.ipv4.ip_local_port_range", "net.ipv4.ip_local_reserved_ports", "net.ipv4.ip_unprivileged_port_start",
		"net.ipv4.ping_group_range", "net.ipv4.tcp_fin_timeout", "net.ipv4.tcp_keepalive_intvl",
		"net.ipv4.tcp_keepalive_probes", "net.ipv4.tcp_keepalive_time", "net.ipv4.tcp_rmem",
		"net.ipv4.tcp_syncookies", "net.ipv4.tcp_wmem",
	}
)

// securityContext judges that of a container.
func (w *walk) securityContext(c *corev1.SecurityContext, at *field.Path) {
	if c.Privileged != nil && *c.Privileged {
		w.need(v1alpha1.PermissionPrivileged, at.Child("privileged"), "makes the container root on the node")
	}
	if c.Capabilities != nil {
		for i, capability := range c.Capabilities.Add {
			if !slices.Contains(ordinaryCapabilities, capability) {
				w.need(v1alpha1.PermissionPrivileged, at.Child("capabilities", "add").Index(i), "adds the capability %s", capability)
			}
		}
	}
	if c.ProcMount != nil && *c.ProcMount != corev1.DefaultProcMount {
		w.need(v1alpha1.PermissionPrivileged, at.Child("procMount"), "uncovers what /proc shows of the node (%s)", *c.ProcMount)
	}
	w.confinement(c.SeccompProfile, c.AppArmorProfile, c.SELinuxOptions, c.WindowsOptions, at)
	w.root(c.RunAsUser, at.Child("runAsUser"))
	w.root(c.RunAsGroup, at.Child("runAsGroup"))
}

// podSecurityContext judges that of the pods.
func (w *walk) podSecurityContext(c *corev1.PodSecurityContext, at *field.Path) {
	for i, sysctl := range c.Sysctls {
		if !slices.Contains(ordinarySysctls, sysctl.Name) {
			w.need(v1alpha1.PermissionPrivileged, at.Child("sysctls").Index(i), "sets %s of the node's kernel", sysctl.Name)
		}
	}
	w.confinement(c.SeccompProfile, c.AppArmorProfile, c.SELinuxOptions, c.WindowsOptions, at)
	w.root(c.RunAsUser, at.Child("runAsUser"))
	w.root(c.RunAsGroup, at.Child("runAsGroup"))
	w.root(c.FSGroup, at.Child("fsGroup"))
	for i := range c.SupplementalGroups {
		w.root(&c.SupplementalGroups[i], at.Child("supplementalGroups").Index(i))
	}
}

// confinement judges what keeps a container in, which containers and pods have in common.
func (w *walk) confinement(seccomp *corev1.SeccompProfile, appArmor *corev1.AppArmorProfile, selinux *corev1.SELinuxOptions, windows *corev1.WindowsSecurityContextOptions, at *field.Path) {
	if seccomp != nil && seccomp.Type != corev1.SeccompProfileTypeRuntimeDefault && seccomp.Type != corev1.SeccompProfileTypeLocalhost {
		w.need(v1alpha1.PermissionPrivileged, at.Child("seccompProfile", "type"), "lifts the filter of system calls (%s)", seccomp.Type)
	}
	if appArmor != nil && appArmor.Type != corev1.AppArmorProfileTypeRuntimeDefault && appArmor.Type != corev1.AppArmorProfileTypeLocalhost {
		w.need(v1alpha1.PermissionPrivileged, at.Child("appArmorProfile", "type"), "lifts AppArmor's confinement (%s)", appArmor.Type)
	}
	if selinux != nil {
		w.selinux(selinux, at.Child("seLinuxOptions"))
	}
	if windows != nil {
		w.windows(windows, at.Child("windowsOptions"))
	}
}

func (w *walk) selinux(o *corev1.SELinuxOptions, at *field.Path) {
	if !slices.Contains(ordinarySELinuxTypes, o.Type) {
		w.need(v1alpha1.PermissionPrivileged, at.Child("type"), "runs with the SELinux type %s", o.Type)
	}
	if o.User != "" {
		w.need(v1alpha1.PermissionPrivileged, at.Child("user"), "runs as the SELinux user %s", o.User)
	}
	if o.Role != "" {
		w.need(v1alpha1.PermissionPrivileged, at.Child("role"), "runs with the SELinux role %s", o.Role)
	}
}

func (w *walk) windows(o *corev1.WindowsSecurityContextOptions, at *field.Path) {
	if o.HostProcess != nil && *o.HostProcess {
		w.need(v1alpha1.PermissionPrivileged, at.Child("hostProcess"), "runs as processes of the Windows node")
	}
	if o.RunAsUserName != nil && isWindowsRoot(*o.RunAsUserName) {
		w.need(v1alpha1.PermissionRunAsRoot, at.Child("runAsUserName"), "runs as %s", *o.RunAsUserName)
	}
	if o.GMSACredentialSpecName != nil && *o.GMSACredentialSpecName != "" {
		w.need(v1alpha1.PermissionServiceAccount, at.Child("gmsaCredentialSpecName"), "runs as the Windows service account %s", *o.GMSACredentialSpecName)
	}
	if o.GMSACredentialSpec != nil && *o.GMSACredentialSpec != "" {
		w.need(v1alpha1.PermissionServiceAccount, at.Child("gmsaCredentialSpec"), "runs as a Windows service account")
	}
}

// isWindowsRoot checks the name behind the domain: a user name is NAME or DOMAIN\NAME, in any case.
func isWindowsRoot(user string) bool {
	name := strings.ToLower(user[strings.LastIndexByte(user, '\\')+1:])
	return name == "containeradministrator" || name == "administrator" || name == "system"
}

func (w *walk) root(id *int64, at *field.Path) {
	if id != nil && *id == 0 {
		w.need(v1alpha1.PermissionRunAsRoot, at, "is root's")
	}
}
