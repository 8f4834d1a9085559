package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// NamespaceShare says how much of a member each namespace of the hub may use that it selects. Nothing in it is shared
// between the namespaces: each has the weight, and each the limits.
type NamespaceShare struct {
	// Name tells shares apart.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	Name string `json:"name"`

	// Namespaces are those of the hub that it is for. The first share that selects a namespace counts for it.
	Namespaces ShareNamespaces `json:"namespaces"`

	// Weight is how much of the member a namespace is to have when several wait: one of weight 2 twice as much as one of
	// weight 1, which is what namespaces have that no share selects.
	// +optional
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000
	Weight int32 `json:"weight,omitempty"`

	// Limits are what the live runs of a namespace may request at once: cpu, memory, ephemeral-storage, pods, or extended
	// resources such as nvidia.com/gpu. A run begins only within them. Pods have to request cpu and memory where those are
	// limited.
	// +optional
	Limits ShareLimits `json:"limits,omitempty"`

	// Runs is how many live runs a namespace may have at once.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Runs *int32 `json:"runs,omitempty"`
}

// ShareNamespaces select namespaces of the hub: those named, and those with such labels.
//
// +kubebuilder:validation:XValidation:rule="has(self.names) && size(self.names) > 0 || has(self.selector)",message="give names, a selector or both; the empty selector selects all namespaces"
type ShareNamespaces struct {
	// Names of namespaces.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=256
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=63
	Names []string `json:"names,omitempty"`

	// Selector of their labels; the empty one selects all.
	// +optional
	Selector *metav1.LabelSelector `json:"selector,omitempty"`
}

// ShareLimits are quantities of resources.
//
// +kubebuilder:validation:MaxProperties=32
// +kubebuilder:validation:XValidation:rule="self.all(r, r in ['cpu', 'memory', 'ephemeral-storage', 'pods'] || r.contains('/'))",message="limits are of cpu, memory, ephemeral-storage, pods, and extended resources such as nvidia.com/gpu"
type ShareLimits map[corev1.ResourceName]resource.Quantity
