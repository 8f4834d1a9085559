package v1alpha2

// ContainerVolume is a volume and where it is mounted. What kind it is follows from what is set; the
// first of these wins: csiDriver, secretName, emptyDir, hostPath, configMapName, claimName. Validate refuses
// more than one.
//
// +kubebuilder:validation:XValidation:rule="(has(self.path) && size(self.path) > 0) || (has(self.emptyDir) && self.emptyDir)",message="say where to mount the volume: set path"
// +kubebuilder:validation:XValidation:rule="(has(self.csiDriver) && size(self.csiDriver) > 0 ? 1 : 0) + (has(self.secretName) && size(self.secretName) > 0 ? 1 : 0) + (has(self.emptyDir) && self.emptyDir ? 1 : 0) + (has(self.hostPath) && size(self.hostPath) > 0 ? 1 : 0) + (has(self.configMapName) && size(self.configMapName) > 0 ? 1 : 0) + (has(self.claimName) && size(self.claimName) > 0 ? 1 : 0) <= 1",message="a volume has one source: keep one of csiDriver, secretName, emptyDir, hostPath, configMapName and claimName"
type ContainerVolume struct {
	// Path to mount the volume at.
	// +kubebuilder:validation:MaxLength=4095
	// +optional
	Path string `json:"path,omitempty"`

	// HostPath is a directory of the node.
	// +kubebuilder:validation:MaxLength=4095
	// +kubebuilder:validation:XValidation:rule="self == '' || self.startsWith('/')",message="must be an absolute path: begin it with /"
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
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self == '' || self.lowerAscii() == 'memory'",message="must be memory, or empty"
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
