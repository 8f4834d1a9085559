package v1alpha2

import (
	corev1 "k8s.io/api/core/v1"
)

// MiniClusterContainer is a container of the cluster's pods, or of its services pod.
type MiniClusterContainer struct {
	// ImagePullSecret is the name of a Secret in the namespace to pull the image with.
	// +optional
	ImagePullSecret string `json:"imagePullSecret,omitempty"`

	// Image of the container.
	// +kubebuilder:default="ghcr.io/rse-ops/accounting:app-latest"
	// +default="ghcr.io/rse-ops/accounting:app-latest"
	// +kubebuilder:validation:MaxLength=512
	// +optional
	Image string `json:"image,omitempty"`

	// WorkingDir is where the command runs. Default: that of the image.
	// +kubebuilder:validation:MaxLength=4095
	// +kubebuilder:validation:XValidation:rule="self == '' || self.startsWith('/')",message="must be an absolute path: begin it with /"
	// +optional
	WorkingDir string `json:"workingDir,omitempty"`

	// Name of the container. The one that runs Flux is always called as the MiniCluster is; every other
	// needs a name.
	// +kubebuilder:validation:MaxLength=253
	// +optional
	Name string `json:"name,omitempty"`

	// Command is shell. The lead broker submits it when the container runs Flux; a sidecar runs it.
	// +optional
	Command string `json:"command,omitempty"`

	// PullAlways is short for an imagePullPolicy of Always, and wins over it.
	// +kubebuilder:default=false
	// +default=false
	// +optional
	PullAlways bool `json:"pullAlways,omitempty"`

	// ImagePullPolicy says when the image is pulled. Default: IfNotPresent.
	// +kubebuilder:validation:Enum="";Always;IfNotPresent;Never
	// +optional
	ImagePullPolicy string `json:"imagePullPolicy,omitempty"`

	// Ports (TCP) of the container. Those of a sidecar get a Service of the container's name.
	// +kubebuilder:validation:items:Minimum=1
	// +kubebuilder:validation:items:Maximum=65535
	// +optional
	// +listType=atomic
	Ports []int32 `json:"ports,omitempty"`

	// Environment variables by name.
	// +optional
	Environment map[string]string `json:"environment,omitempty"`

	// Secrets are environment variables whose values come from Secrets, by the variable's name.
	// +optional
	Secrets map[string]Secret `json:"secrets,omitempty"`

	// Launcher says that the command submits jobs itself: it is given to flux start as it is.
	// +optional
	Launcher bool `json:"launcher,omitempty"`

	// Batch says that each line of the command is a job of one batch script.
	// +optional
	Batch bool `json:"batch,omitempty"`

	// BatchRaw takes the lines of a batch command as they are, without flux submit before each.
	// +optional
	BatchRaw bool `json:"batchRaw,omitempty"`

	// Logs is the directory for the output of batch jobs. Default: /tmp/fluxout.
	// +kubebuilder:validation:MaxLength=4095
	// +kubebuilder:validation:XValidation:rule="self == '' || self.startsWith('/')",message="must be an absolute path: begin it with /"
	// +optional
	Logs string `json:"logs,omitempty"`

	// RunFlux marks the container that runs Flux. Not needed when there is only one.
	// +optional
	RunFlux bool `json:"runFlux,omitempty"`

	// NoWrapEntrypoint starts a sidecar with the entrypoint of its image.
	// +optional
	NoWrapEntrypoint bool `json:"noWrapEntrypoint,omitempty"`

	// Volumes to mount, by the volume's name.
	// +kubebuilder:validation:MaxProperties=1000
	// +optional
	Volumes map[string]ContainerVolume `json:"volumes,omitempty"`

	// LifeCycle hooks of the container.
	// +optional
	LifeCycle LifeCycle `json:"lifeCycle,omitzero"`

	// Resources are the container's requests and limits.
	// +optional
	Resources corev1.ResourceRequirements `json:"resources,omitzero"`

	// Commands run around the main one.
	// +optional
	Commands Commands `json:"commands,omitzero"`

	// SecurityContext of the container.
	// +optional
	SecurityContext corev1.SecurityContext `json:"securityContext,omitzero"`
}

// LifeCycle hooks of a container, each a command.
type LifeCycle struct {
	// PostStartExec runs when the container has started.
	// +optional
	PostStartExec string `json:"postStartExec,omitempty"`

	// PreStopExec runs before the container is stopped.
	// +optional
	PreStopExec string `json:"preStopExec,omitempty"`
}

// Secret is one key of a Secret in the namespace.
type Secret struct {
	// Name of the Secret.
	Name string `json:"name"`

	// Key within the Secret.
	Key string `json:"key"`
}

// Commands are pieces of shell that run in the container's entrypoint, around the main command.
type Commands struct {
	// Prefix stands before the command that is given to flux start, e.g. a wrapper that mounts something.
	// +optional
	Prefix string `json:"prefix,omitempty"`

	// Script is run in place of a command, as a file.
	// +optional
	Script string `json:"script,omitempty"`

	// Init runs before anything else.
	// +optional
	Init string `json:"init,omitempty"`

	// Pre runs before the broker, on the lead and on the workers.
	// +optional
	Pre string `json:"pre,omitempty"`

	// Post runs after the broker has ended.
	// +optional
	Post string `json:"post,omitempty"`

	// WorkerPre runs before the broker, on the workers.
	// +optional
	WorkerPre string `json:"workerPre,omitempty"`

	// BrokerPre runs before the broker, on the lead.
	// +optional
	BrokerPre string `json:"brokerPre,omitempty"`

	// ServicePre runs before the command of a sidecar.
	// +optional
	ServicePre string `json:"servicePre,omitempty"`
}
