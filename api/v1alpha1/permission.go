package v1alpha1

// Permission opens fields of a MiniCluster that reach beyond its own pods: to the nodes that they run on, or
// to the API server of the member. Without it, a MiniCluster that sets such a field is refused.
//
// +kubebuilder:validation:Enum=HostDevices;HostNamespaces;HostPath;Privileged;RunAsRoot;ServiceAccount;ServiceAccountToken
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
	// PermissionPrivileged opens privileged containers, and whatever else the Pod Security level "baseline"
	// forbids of a security context.
	PermissionPrivileged Permission = "Privileged"
	// PermissionRunAsRoot opens user and group 0 in a security context.
	PermissionRunAsRoot Permission = "RunAsRoot"
	// PermissionServiceAccount opens service accounts other than "default".
	PermissionServiceAccount Permission = "ServiceAccount"
	// PermissionServiceAccountToken opens the mounting of the service account's token.
	PermissionServiceAccountToken Permission = "ServiceAccountToken"
)

// Permissions returns all permissions, sorted.
func Permissions() []Permission {
	return []Permission{
		PermissionHostDevices, PermissionHostNamespaces, PermissionHostPath, PermissionPrivileged,
		PermissionRunAsRoot, PermissionServiceAccount, PermissionServiceAccountToken,
	}
}

// DeclaredNeed is a MiniCluster that a GitSource declares and that needs permissions.
type DeclaredNeed struct {
	// Name of the FleetMiniCluster.
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
	// Digest is the hash of the MiniCluster as Git declares it, in 64 hexadecimal digits. What the GitSource
	// allows holds for a FleetMiniCluster of this name with this digest, and for no other.
	// +kubebuilder:validation:MaxLength=64
	Digest string `json:"digest"`
	// Permissions that it needs, whether or not they are allowed.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	Permissions []Permission `json:"permissions"`
}
