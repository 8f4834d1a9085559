package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// NamespaceAccess says which namespaces of the hub may use a member.
//
// +kubebuilder:validation:XValidation:rule="(self.from == 'Selector') == has(self.selector)",message="set selector with from: Selector, and only then"
// +kubebuilder:validation:XValidation:rule="(self.from == 'Names') == has(self.names)",message="set names with from: Names, and only then"
type NamespaceAccess struct {
	// From says how the namespaces are told: All of them, those whose labels a Selector matches, or those of these Names.
	From NamespacesFrom `json:"from"`
	// Selector selects namespaces of the hub by their labels.
	// +optional
	Selector *metav1.LabelSelector `json:"selector,omitempty"`
	// Names are namespaces of the hub.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=1024
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=63
	Names []string `json:"names,omitempty"`
}

// NamespacesFrom says how namespaces of the hub are told.
//
// +kubebuilder:validation:Enum=All;Selector;Names
type NamespacesFrom string

// Values of NamespacesFrom.
const (
	// NamespacesFromAll are all of them.
	NamespacesFromAll NamespacesFrom = "All"
	// NamespacesFromSelector are those whose labels match.
	NamespacesFromSelector NamespacesFrom = "Selector"
	// NamespacesFromNames are those that are named.
	NamespacesFromNames NamespacesFrom = "Names"
)

// TargetNamespaces says which namespace of the member stands for a namespace of the hub.
//
// +kubebuilder:validation:XValidation:rule="!has(self.only) || !self.only || (has(self.names) && size(self.names) > 0)",message="only confines MiniFleet to the targets of names: name some, or remove only"
// +kubebuilder:validation:XValidation:rule="!has(self.only) || !self.only || !has(self.template)",message="with only, names say everything: remove template"
type TargetNamespaces struct {
	// Template makes the name, with {namespace} for that of the namespace of the hub: "hub1-{namespace}". Without it the
	// name is the same on both.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^([a-z0-9][-a-z0-9]*)?\{namespace\}([-a-z0-9]*[a-z0-9])?$`
	Template string `json:"template,omitempty"`
	// Names come before the template. A namespace that is named here may be used although MiniFleet has not made it.
	// +optional
	// +listType=map
	// +listMapKey=namespace
	// +kubebuilder:validation:MaxItems=256
	Names []TargetNamespace `json:"names,omitempty"`
	// Only confines MiniFleet to the targets of names, which exist: nothing else is used, read or watched, so that its
	// credentials need rights in these alone.
	// +optional
	Only bool `json:"only,omitempty"`
	// PodSecurity is the Pod Security level that namespaces which MiniFleet makes on the member enforce.
	// +optional
	// +kubebuilder:default=baseline
	PodSecurity PodSecurityLevel `json:"podSecurity,omitempty"`
}

// TargetNamespace names the namespace of the member that stands for one of the hub.
type TargetNamespace struct {
	// Namespace of the hub.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Namespace string `json:"namespace"`
	// Target is the namespace of the member.
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	Target string `json:"target"`
}

// PodSecurityLevel is a level of the Pod Security Standards.
//
// +kubebuilder:validation:Enum=privileged;baseline;restricted
type PodSecurityLevel string

// DefaultPodSecurity is what namespaces that MiniFleet makes enforce, unless told otherwise.
const DefaultPodSecurity PodSecurityLevel = "baseline"

// AllNamespaces lets every namespace of the hub use a member.
func AllNamespaces() *NamespaceAccess { return &NamespaceAccess{From: NamespacesFromAll} }
