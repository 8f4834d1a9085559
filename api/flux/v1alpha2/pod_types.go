package v1alpha2

import (
	corev1 "k8s.io/api/core/v1"
)

// PodSpec says how the cluster's pods are scheduled and secured.
type PodSpec struct {
	// Annotations of each pod.
	// +optional
	Annotations map[string]string `json:"annotations,omitempty"`

	// Labels of each pod.
	// +optional
	Labels map[string]string `json:"labels,omitempty"`

	// RestartPolicy of the pods, as Jobs know it. Default: OnFailure.
	// +kubebuilder:validation:Enum="";OnFailure;Never
	// +optional
	RestartPolicy string `json:"restartPolicy,omitempty"`

	// ServiceAccountName that the pods run as.
	// +optional
	ServiceAccountName string `json:"serviceAccountName,omitempty"`

	// RuntimeClassName that runs the pods.
	// +optional
	RuntimeClassName string `json:"runtimeClassName,omitempty"`

	// AutomountServiceAccountToken mounts the service account's token, which is off by default.
	// +optional
	AutomountServiceAccountToken bool `json:"automountServiceAccountToken,omitempty"`

	// SchedulerName that places the pods.
	// +optional
	SchedulerName string `json:"schedulerName,omitempty"`

	// NodeSelector is labels that a node must have.
	// +optional
	NodeSelector map[string]string `json:"nodeSelector,omitempty"`

	// NodeAffinity is labels that a node must have with one of the values listed. It has no effect with
	// network.disableAffinity.
	// +optional
	NodeAffinity map[string][]string `json:"nodeAffinity,omitempty"`

	// Tolerations of the pods.
	// +optional
	// +listType=atomic
	Tolerations []Toleration `json:"tolerations,omitempty"`

	// DNSPolicy of the pods.
	// +kubebuilder:validation:Enum="";ClusterFirst;ClusterFirstWithHostNet;Default
	// +optional
	DNSPolicy string `json:"dnsPolicy,omitempty"`

	// HostIPC shares the node's IPC namespace with the pods.
	// +optional
	HostIPC bool `json:"hostIPC,omitempty"`

	// HostPID shares the node's process namespace with the pods.
	// +optional
	HostPID bool `json:"hostPID,omitempty"`

	// Resources are the pods' overhead, beyond what the containers ask for.
	// +optional
	Resources corev1.ResourceList `json:"resources,omitempty"`

	// SecurityContext of the pods.
	// +optional
	SecurityContext corev1.PodSecurityContext `json:"securityContext,omitzero"`
}

// Toleration of a node's taint.
type Toleration struct {
	// Key of the taint. Empty tolerates all keys, with the operator Exists.
	// +optional
	Key string `json:"key,omitempty"`

	// Effect of the taint. Empty tolerates all effects.
	// +kubebuilder:validation:Enum="";NoSchedule;PreferNoSchedule;NoExecute
	// +optional
	Effect string `json:"effect,omitempty"`

	// Operator is Equal (the default) or Exists.
	// +kubebuilder:validation:Enum="";Equal;Exists
	// +optional
	Operator string `json:"operator,omitempty"`

	// Value of the taint, for Equal.
	// +optional
	Value string `json:"value,omitempty"`
}
