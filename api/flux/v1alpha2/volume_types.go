package v1alpha2

// ContainerVolume is a volume and where it is mounted. What kind it is follows from what is set; the
// first of these wins: csiDriver, secretName, emptyDir, hostPath, configMapName, claimName.
type ContainerVolume struct {
	// Path to mount the volume at.
	// +optional
	Path string `json:"path,omitempty"`

	// HostPath is a directory of the node.
	// +optional
	HostPath string `json:"hostPath,omitempty"`

	// ConfigMapName is a ConfigMap in the namespace.
	// +optional
	ConfigMapName string `json:"configMapName,omitempty"`

	// Items are the keys of the ConfigMap to mount, with the file that each becomes. Default: all.
	// +optional
	Items map[string]string `json:"items,omitempty"`

	// ClaimName is a PersistentVolumeClaim in the namespace.
	// +optional
	ClaimName string `json:"claimName,omitempty"`

	// SecretName is a Secret in the namespace.
	// +optional
	SecretName string `json:"secretName,omitempty"`

	// ReadOnly mounts the volume read-only.
	// +kubebuilder:default=false
	// +default=false
	// +optional
	ReadOnly bool `json:"readOnly,omitempty"`

	// EmptyDirMedium is what an emptyDir is kept on: memory, or the node's default when empty.
	// +optional
	EmptyDirMedium string `json:"emptyDirMedium,omitempty"`

	// EmptyDirSizeLimit is the size of an emptyDir, as a quantity, e.g. 64Gi.
	// +optional
	EmptyDirSizeLimit string `json:"emptyDirSizeLimit,omitempty"`

	// CSIDriver is the name of the driver of an inline CSI volume.
	// +optional
	CSIDriver string `json:"csiDriver,omitempty"`

	// CSIDriverAttributes are given to the CSI driver.
	// +optional
	CSIDriverAttributes map[string]string `json:"csiDriverAttributes,omitempty"`

	// EmptyDir is a fresh directory that goes with the pod.
	// +kubebuilder:default=false
	// +default=false
	// +optional
	EmptyDir bool `json:"emptyDir,omitempty"`
}
