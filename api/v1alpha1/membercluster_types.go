package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// KubeconfigKey is the key of a kubeconfig Secret that holds the kubeconfig.
const KubeconfigKey = "kubeconfig"

// LocalReference names an object in a namespace that the context gives.
type LocalReference struct {
	// Name of the object.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
}

// MemberClusterSpec says how to reach a cluster and what MiniFleet may do there. Its labels are what a
// Placement selects.
//
// +kubebuilder:validation:XValidation:rule="has(self.__namespace__) == has(oldSelf.__namespace__) && (!has(self.__namespace__) || self.__namespace__ == oldSelf.__namespace__)",message="namespace is immutable: objects in the old one would be left behind; delete the MemberCluster and register it anew"
// +kubebuilder:validation:XValidation:rule="has(self.namespaces) || (oldSelf.hasValue() && !has(oldSelf.value().namespaces))",optionalOldSelf=true,message="say which namespaces of the hub may use the member: namespaces: {from: All}, or Selector, or Names",fieldPath=".namespaces"
// +kubebuilder:validation:XValidation:rule="has(self.kubeconfigSecretRef) != has(self.clusterProfileRef)",message="say where the credentials come from: set kubeconfigSecretRef or clusterProfileRef, and not both",fieldPath=".kubeconfigSecretRef"
// +kubebuilder:validation:XValidation:rule="!has(self.__namespace__) || !has(self.targetNamespaces)",message="namespace confines everything to one: remove it, or targetNamespaces"
type MemberClusterSpec struct {
	// KubeconfigSecretRef names a Secret in the manager's own namespace whose key `kubeconfig` holds a
	// kubeconfig with embedded, static credentials. Either this or clusterProfileRef is set.
	// +optional
	KubeconfigSecretRef LocalReference `json:"kubeconfigSecretRef,omitzero"`

	// ClusterProfileRef names a ClusterProfile of SIG Multicluster (multicluster.x-k8s.io/v1alpha1) in the namespace that
	// the controller reads them from, by default its own. Its status says where the cluster is, and which of the
	// credential plugins in the controller's --cluster-profile-providers has credentials for it.
	// +optional
	ClusterProfileRef LocalReference `json:"clusterProfileRef,omitzero"`

	// Namespaces says which namespaces of the hub may use this member. It has to be said; nothing new begins on a
	// member from before it had to be, until it is.
	// +optional
	Namespaces *NamespaceAccess `json:"namespaces,omitempty"`

	// TargetNamespaces says which namespace of the member stands for which of the hub. An edit is for what begins to use
	// the member from then on: a run stays where it is.
	// +optional
	TargetNamespaces *TargetNamespaces `json:"targetNamespaces,omitempty"`

	// Namespace confines everything that MiniFleet does on this member, for all namespaces of the hub that may use it, to
	// one namespace that already exists there.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	Namespace string `json:"namespace,omitempty"`

	// CreateNamespaces allows MiniFleet to create namespaces that are missing on this member.
	// +optional
	// +kubebuilder:default=true
	CreateNamespaces *bool `json:"createNamespaces,omitempty"`

	// Suspend keeps new runs away from this member. Runs that exist go on and are still reported.
	// +optional
	Suspend bool `json:"suspend,omitempty"`

	// DeletionPolicy says what the deletion of this object does to what MiniFleet has on the member. It can be
	// changed while the deletion waits.
	// +optional
	// +kubebuilder:default=Block
	DeletionPolicy DeletionPolicy `json:"deletionPolicy,omitempty"`

	// Taints keep placements away that do not tolerate them.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	Taints []Taint `json:"taints,omitempty"`

	// Capacity says whether MiniFleet watches the member's nodes and pods, and places on it only what has room
	// there. Where it does not, or may not, everything is taken to fit: that is right for members that make
	// nodes when they are needed.
	// +optional
	// +kubebuilder:default=Observe
	Capacity CapacityMode `json:"capacity,omitempty"`

	// Shares say how much of the member namespaces of the hub may use, and in which proportion when several wait. A
	// namespace that none selects has weight 1 and no limits.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=64
	Shares []NamespaceShare `json:"shares,omitempty"`
}

// DeletionPolicy says what becomes of a member's runs and objects when its MemberCluster is deleted. Nothing new
// is placed there from then on.
//
// +kubebuilder:validation:Enum=Block;Drain;Orphan
type DeletionPolicy string

const (
	// DeletionBlock waits until live runs have ended, then removes from the member what MiniFleet has there.
	DeletionBlock DeletionPolicy = "Block"
	// DeletionDrain stops live runs first, which start elsewhere where their placement allows it.
	DeletionDrain DeletionPolicy = "Drain"
	// DeletionOrphan leaves everything on the member as it is. How its live runs end is not known any more.
	DeletionOrphan DeletionPolicy = "Orphan"
)

// CapacityMode says whether the capacity of a member is observed.
//
// +kubebuilder:validation:Enum=Observe;None
type CapacityMode string

const (
	// CapacityObserve watches nodes and pods.
	CapacityObserve CapacityMode = "Observe"
	// CapacityNone watches neither.
	CapacityNone CapacityMode = "None"
)

// MemberCapacity is what a member's schedulable nodes have, and what is free of it: allocatable minus the
// requests of the pods that are scheduled there. Quantities are Kubernetes resource quantities.
type MemberCapacity struct {
	// Nodes is the number of nodes, schedulable or not.
	Nodes int32 `json:"nodes"`
	// CPU is FREE/TOTAL in cores.
	CPU string `json:"cpu"`
	// Memory is FREE/TOTAL in bytes with a binary suffix.
	Memory string `json:"memory"`
	// GPUs is FREE/TOTAL of the extended resources whose name ends in /gpu, e.g. nvidia.com/gpu.
	// +optional
	GPUs string `json:"gpus,omitempty"`
}

// MaxOrphans is how many orphans a MemberCluster remembers; deletions beyond that wait for the member.
const MaxOrphans = 500

// Orphan is a FleetMiniCluster that was deleted while the member was away, and whose objects may still be
// there.
type Orphan struct {
	// UID of the FleetMiniCluster.
	UID types.UID `json:"uid"`
	// Owner is NAMESPACE/NAME of the FleetMiniCluster.
	Owner string `json:"owner"`
	// Namespace and Name of its objects on the member.
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// Since is when it was given up.
	Since metav1.Time `json:"since"`
	// RecordOnly says that all of its runs there had ended, and nothing is left but the record of these.
	// +optional
	RecordOnly bool `json:"recordOnly,omitempty"`
}

// MaxUnownedJobs is how many unowned Jobs a MemberCluster names.
const MaxUnownedJobs = 50

// UnownedJob is a live Job of this fleet on the member that no FleetMiniCluster of the hub owns.
type UnownedJob struct {
	// Namespace and Name of the Job on the member.
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// Owner is NAMESPACE/NAME of the FleetMiniCluster that it was created for, as the Job says.
	// +optional
	Owner string `json:"owner,omitempty"`
	// Run is the id of the run, as the Job says.
	// +optional
	Run string `json:"run,omitempty"`
	// Since is when the Job was created.
	Since metav1.Time `json:"since"`
}

// Quarantine is why nothing is asked of a member until a person lifts it (AnnotationLiftQuarantine).
type Quarantine struct {
	// Since is when the member was disconnected.
	Since metav1.Time `json:"since"`
	// Limit is the name of the limit that an answer was beyond, Allowed what it allows.
	Limit   string `json:"limit"`
	Allowed string `json:"allowed"`
	// Asked is the request that was answered so: its method and its path.
	Asked string `json:"asked"`
}

// MemberIdentity is what a cluster UID is bound to: what the administrator of the hub says of the member, and no member
// can forge.
type MemberIdentity struct {
	// Since is when the cluster UID was recorded.
	Since metav1.Time `json:"since"`
	// Server is the address in the kubeconfig or the ClusterProfile, https://HOST:PORT.
	Server string `json:"server"`
	// CA is the SHA-256 hash of the certificate authorities given there, in hexadecimal digits; empty where they are
	// those of the hub's system.
	// +optional
	CA string `json:"ca,omitempty"`
}

// MemberClusterStatus is what the hub knows of a member.
type MemberClusterStatus struct {
	// ObservedGeneration is the generation that this status speaks of.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// Conditions: Ready says whether the member can be reached and is the cluster that was registered. Drained
	// is there while the member is drained or deleted, and says whether runs are still live there. UnownedJobs is
	// there, and true, while Jobs of this fleet are live there that no FleetMiniCluster owns; NotShared while
	// spec.namespaces is missing.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// ClusterUID is the UID of the member's kube-system namespace, recorded at the first contact (of its
	// one namespace, where spec.namespace is set and kube-system may not be read). A different
	// cluster behind the same name is refused.
	// +optional
	ClusterUID string `json:"clusterUID,omitempty"`

	// Shard is the shard whose controller uses the member: the label minifleet.dev/shard of the MemberCluster when it was
	// connected last. Empty is the controller without --shard. While it has live runs there, no other takes the member over.
	// +optional
	Shard string `json:"shard,omitempty"`

	// Identity is what clusterUID is bound to. Of two members with the same clusterUID the one that was recorded first is
	// used. It changes with the kubeconfig Secret or the ClusterProfile, as long as the same cluster answers.
	// +optional
	Identity *MemberIdentity `json:"identity,omitempty"`

	// Quarantine is there while nothing is asked of the member, because an answer was beyond a limit.
	// +optional
	Quarantine *Quarantine `json:"quarantine,omitempty"`

	// Version is the Kubernetes version of the member's API server.
	// +optional
	Version string `json:"version,omitempty"`

	// Capacity is absent where it is not observed (spec.capacity), or the credentials may not read nodes and
	// pods.
	// +optional
	Capacity *MemberCapacity `json:"capacity,omitempty"`

	// Orphans are what is to be removed from the member when it returns: at most 500 FleetMiniClusters that
	// were deleted meanwhile.
	// +optional
	// +listType=map
	// +listMapKey=uid
	// +kubebuilder:validation:MaxItems=500
	Orphans []Orphan `json:"orphans,omitempty"`

	// UnownedJobs are live Jobs of this fleet on the member that no FleetMiniCluster of the hub owns: the first 50 by
	// namespace and name. Nothing is done about them; the condition UnownedJobs says what can be.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=50
	UnownedJobs []UnownedJob `json:"unownedJobs,omitempty"`

	// LastHeardTime is when the last answer came, as far as is known. It is set only while the member cannot be reached,
	// so that a healthy fleet writes nothing.
	// +optional
	LastHeardTime *metav1.Time `json:"lastHeardTime,omitempty"`
}

// MemberCluster is a cluster that MiniClusters run on.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Cluster,shortName=mcl,categories=minifleet
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Version",type=string,JSONPath=`.status.version`
// +kubebuilder:printcolumn:name="Nodes",type=integer,JSONPath=`.status.capacity.nodes`
// +kubebuilder:printcolumn:name="CPU free/total",type=string,JSONPath=`.status.capacity.cpu`
// +kubebuilder:printcolumn:name="Memory free/total",type=string,priority=1,JSONPath=`.status.capacity.memory`
// +kubebuilder:printcolumn:name="GPU free/total",type=string,priority=1,JSONPath=`.status.capacity.gpus`
// +kubebuilder:printcolumn:name="Reason",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Drained",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Drained")].status`
// +kubebuilder:printcolumn:name="Kubeconfig secret",type=string,priority=1,JSONPath=`.spec.kubeconfigSecretRef.name`
// +kubebuilder:printcolumn:name="Cluster profile",type=string,priority=1,JSONPath=`.spec.clusterProfileRef.name`
// +kubebuilder:printcolumn:name="Last heard",type=date,priority=1,JSONPath=`.status.lastHeardTime`
// +kubebuilder:printcolumn:name="Shard",type=string,priority=1,JSONPath=`.metadata.labels.minifleet\.dev/shard`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type MemberCluster struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   MemberClusterSpec   `json:"spec"`
	Status MemberClusterStatus `json:"status,omitempty"`
}

// MemberClusterList is a list of MemberClusters.
//
// +kubebuilder:object:root=true
type MemberClusterList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []MemberCluster `json:"items"`
}
