package v1alpha1

// Permission opens fields of a MiniCluster that reach beyond its own pods: to the nodes that they run on, to the
// API server of the member, or to whatever else acts upon pods there. Without it, a MiniCluster that sets such a field is refused.
//
// +kubebuilder:validation:Enum=HostDevices;HostNamespaces;HostPath;PodAnnotations;Privileged;RunAsRoot;ServiceAccount;ServiceAccountToken;Tolerations
type Permission string

// Values of Permission.
const (
	// PermissionHostDevices opens devices of the node: extended resources that are not known to be
	// accelerators or fabrics, volumes from below /dev, and annotations by which runtimes add devices.
	PermissionHostDevices Permission = "HostDevices"
	// PermissionHostNamespaces opens pod.hostPID and pod.hostIPC.
	PermissionHostNamespaces Permission = "HostNamespaces"
	// PermissionHostPath opens volumes with a hostPath.
	PermissionHostPath Permission = "HostPath"
	// PermissionPodAnnotations opens annotations of the pods that are not known to be harmless, and labels that
	// other programs on a member are known to act upon.
	PermissionPodAnnotations Permission = "PodAnnotations"
	// PermissionPrivileged opens privileged containers, and whatever else the Pod Security level "baseline"
	// forbids of a security context.
	PermissionPrivileged Permission = "Privileged"
	// PermissionRunAsRoot opens user and group 0 in a security context.
	PermissionRunAsRoot Permission = "RunAsRoot"
	// PermissionServiceAccount opens service accounts other than "default".
	PermissionServiceAccount Permission = "ServiceAccount"
	// PermissionServiceAccountToken opens the mounting of the service account's token, and Secrets of a member that
	// hold a token for its API server.
	PermissionServiceAccountToken Permission = "ServiceAccountToken"
	// PermissionTolerations opens tolerations of the taints that keep ordinary pods off nodes of the control plane,
	// and off nodes that are closed or not well.
	PermissionTolerations Permission = "Tolerations"
)

// Permissions returns all permissions, sorted.
func Permissions() []Permission {
	return []Permission{
		PermissionHostDevices, PermissionHostNamespaces, PermissionHostPath, PermissionPodAnnotations, PermissionPrivileged,
		PermissionRunAsRoot, PermissionServiceAccount, PermissionServiceAccountToken, PermissionTolerations,
	}
}

// DeclaredNeed is a MiniCluster that a GitSource declares and that needs permissions, or may need some on a member.
type DeclaredNeed struct {
	// Name of the FleetMiniCluster.
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
	// Digest is the hash of the MiniCluster as Git declares it, in 64 hexadecimal digits. What the GitSource
	// allows holds for a FleetMiniCluster of this name with this digest, and for no other.
	// +kubebuilder:validation:MaxLength=64
	Digest string `json:"digest"`
	// Overrides is the hash of the overrides that Git declares for it, in 64 hexadecimal digits: those of its own
	// placement, or of the Placement that it names. It is empty where Git declares none. What the GitSource allows
	// holds for the MiniCluster with these, and with no others that change it.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	Overrides string `json:"overrides,omitempty"`
	// Permissions that it needs, whether or not they are allowed; none where that depends on the member.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	Permissions []Permission `json:"permissions"`
}
