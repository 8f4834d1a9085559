package v1alpha1

import (
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// PlacementSpec says which members run a MiniCluster. The field names follow the Placement API of Open
// Cluster Management where it has them.
//
// +kubebuilder:validation:XValidation:rule="!has(self.spreadPolicy) || !has(self.spreadPolicy.spreadConstraints) || has(self.numberOfClusters)",message="spreadPolicy says which members to choose when not all of them are: set numberOfClusters, or remove spreadPolicy"
type PlacementSpec struct {
	// ClusterSelector selects MemberClusters by their labels. An empty selector selects all of them.
	// +optional
	ClusterSelector metav1.LabelSelector `json:"clusterSelector,omitempty"`

	// ClusterNames are the only members that may be chosen. Those that the selector does not match are not,
	// either. Empty: no member is excluded.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=256
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=253
	ClusterNames []string `json:"clusterNames,omitempty"`

	// ExcludeClusterNames are members that are not chosen whatever else is said.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=256
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=253
	ExcludeClusterNames []string `json:"excludeClusterNames,omitempty"`

	// NumberOfClusters is how many of the selected members run the MiniCluster, each of them one whole
	// copy. Without it, all of them do.
	// +optional
	// +kubebuilder:validation:Minimum=1
	NumberOfClusters *int32 `json:"numberOfClusters,omitempty"`

	// Tolerations allow members with these taints (spec.taints of the MemberCluster) to be chosen.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	Tolerations []Toleration `json:"tolerations,omitempty"`

	// PrioritizerPolicy says which of the members that may be chosen are chosen first.
	// +optional
	PrioritizerPolicy PrioritizerPolicy `json:"prioritizerPolicy,omitzero"`

	// SpreadPolicy spreads the chosen members over sites, zones, or whatever else a label tells.
	// +optional
	SpreadPolicy SpreadPolicy `json:"spreadPolicy,omitzero"`

	// Overrides change the MiniCluster on some of the members. Those that select a member are applied in this
	// order. An edit is for new runs: it runs nothing again.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=16
	Overrides []ClusterOverride `json:"overrides,omitempty"`

	// PendingTimeout is how long a run may wait on its member until all of its pods run. A run that does not,
	// while another member has room for it, is withdrawn; when all of its pods are deleted, it starts there. Without
	// it a run waits for as long as it takes.
	// +optional
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('10s')",message="must be at least 10s"
	PendingTimeout *metav1.Duration `json:"pendingTimeout,omitempty"`

	// Failover lets a run that was lost with its member, or with its nodes there, start on another member. Without
	// it such a run is waited for.
	// +optional
	Failover *Failover `json:"failover,omitempty"`
}

// Failover says when a run is lost, and how it is made sure that it is gone before another one starts.
type Failover struct {
	// AfterSeconds is how long a member may not answer, or a run that had begun may have no pod running on a
	// member that does, before the run is lost.
	// +kubebuilder:validation:Minimum=10
	// +kubebuilder:validation:Maximum=604800
	AfterSeconds int32 `json:"afterSeconds"`
	// Fencing says what makes sure that a lost run is gone.
	// +optional
	// +kubebuilder:default=ProvenGone
	Fencing Fencing `json:"fencing,omitempty"`
}

// Fencing says what makes sure that a lost run is gone.
//
// +kubebuilder:validation:Enum=ProvenGone;Manual
type Fencing string

const (
	// FenceProvenGone moves a run when its member itself says that neither its Job nor any of its pods exists,
	// and has the Job deleted where the member answers but the run is lost with its nodes.
	FenceProvenGone Fencing = "ProvenGone"
	// FenceManual moves a run only when a person says that it is gone (the annotation minifleet.dev/run-gone).
	FenceManual Fencing = "Manual"
)

// ClusterOverride changes the MiniCluster on the members that it selects.
type ClusterOverride struct {
	// Name of the override, for messages.
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	Name string `json:"name"`
	// ClusterSelector selects MemberClusters by their labels. An empty selector selects all of them.
	// +optional
	ClusterSelector metav1.LabelSelector `json:"clusterSelector,omitempty"`
	// Patches of the MiniCluster's spec.
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=32
	Patches []JSONPatch `json:"patches"`
}

// PatchOp is an operation of JSON Patch.
//
// +kubebuilder:validation:Enum=add;remove;replace;move;copy;test
type PatchOp string

// Values of PatchOp that go with a value.
const (
	// PatchAdd adds a value, and the objects that its path leads through if they are not there.
	PatchAdd PatchOp = "add"
	// PatchReplace replaces a value that is there.
	PatchReplace PatchOp = "replace"
	// PatchTest makes the override fail if the value is another.
	PatchTest PatchOp = "test"
)

// JSONPatch is one operation of JSON Patch (RFC 6902).
//
// +kubebuilder:validation:XValidation:rule="self.op in ['move', 'copy'] ? has(self.from) : !has(self.from)",message="set from with move and copy, and with no other op"
type JSONPatch struct {
	// Op is the operation.
	Op PatchOp `json:"op"`
	// Path in the MiniCluster's spec, such as /containers/0/image. The size of the MiniCluster, and whether it
	// is cleaned up, are the same on all members.
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:Pattern=`^/`
	Path string `json:"path"`
	// From is the path to move or copy from.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:Pattern=`^/`
	From string `json:"from,omitempty"`
	// Value to add, to replace with, or to test for.
	// +optional
	Value *apiextensionsv1.JSON `json:"value,omitempty"`
}

// TaintEffect says what a taint of a member does to placements that do not tolerate it. Runs that exist
// stay, whatever the taint.
//
// +kubebuilder:validation:Enum=NoSelect;PreferNoSelect;NoSelectIfNew
type TaintEffect string

const (
	// NoSelect keeps new runs away.
	NoSelect TaintEffect = "NoSelect"
	// PreferNoSelect puts the member behind all others.
	PreferNoSelect TaintEffect = "PreferNoSelect"
	// NoSelectIfNew keeps new runs away, unless the MiniCluster was placed on the member before.
	NoSelectIfNew TaintEffect = "NoSelectIfNew"
)

// Taint keeps placements that do not tolerate it away from a member.
type Taint struct {
	// Key of the taint, in the form of a label key.
	// +kubebuilder:validation:MaxLength=316
	// +kubebuilder:validation:Pattern=`^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]$`
	Key string `json:"key"`
	// Value of the taint.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Value string `json:"value,omitempty"`
	// Effect on placements that do not tolerate the taint.
	Effect TaintEffect `json:"effect"`
}

// TolerationOperator relates the key of a toleration to its value.
//
// +kubebuilder:validation:Enum=Equal;Exists
type TolerationOperator string

// Values of TolerationOperator.
const (
	// TolerateEqual tolerates taints with the same value.
	TolerateEqual TolerationOperator = "Equal"
	// TolerateExists tolerates taints with any value.
	TolerateExists TolerationOperator = "Exists"
)

// Toleration allows members with a taint to be chosen.
//
// +kubebuilder:validation:XValidation:rule="(has(self.key) && self.key != \"\") || (has(self.operator) && self.operator == \"Exists\")",message="without a key the operator must be Exists, which tolerates every taint: set key, or operator: Exists"
// +kubebuilder:validation:XValidation:rule="!has(self.operator) || self.operator != \"Exists\" || !has(self.value) || self.value == \"\"",message="operator Exists goes with any value: remove value, or use operator: Equal"
type Toleration struct {
	// Key of the taints that are tolerated. Empty: all of them, with the operator Exists.
	// +optional
	// +kubebuilder:validation:MaxLength=316
	Key string `json:"key,omitempty"`
	// Operator relates the key to the value.
	// +optional
	// +kubebuilder:default=Equal
	Operator TolerationOperator `json:"operator,omitempty"`
	// Value of the taints that are tolerated, with the operator Equal.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Value string `json:"value,omitempty"`
	// Effect of the taints that are tolerated. Empty: any.
	// +optional
	Effect TaintEffect `json:"effect,omitempty"`
}

// PrioritizerPolicyMode says what becomes of prioritizers that are not named.
//
// +kubebuilder:validation:Enum=Additive;Exact
type PrioritizerPolicyMode string

const (
	// PrioritizersAdditive gives the prioritizer Steady the weight 1 if it is not named, and others 0.
	PrioritizersAdditive PrioritizerPolicyMode = "Additive"
	// PrioritizersExact gives prioritizers that are not named the weight 0.
	PrioritizersExact PrioritizerPolicyMode = "Exact"
)

// PrioritizerPolicy orders members. The score of a member is the sum of weight × score over all
// prioritizers, each of which scores from -100 to 100. The highest score comes first; among equals decides
// an order of members that differs from one MiniCluster to the next, and stays the same.
type PrioritizerPolicy struct {
	// Mode says what becomes of prioritizers that are not named.
	// +optional
	// +kubebuilder:default=Additive
	Mode PrioritizerPolicyMode `json:"mode,omitempty"`
	// Configurations are the prioritizers, with their weights.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	Configurations []PrioritizerConfig `json:"configurations,omitempty"`
}

// PrioritizerConfig is a prioritizer and its weight.
type PrioritizerConfig struct {
	// ScoreCoordinate says where the score comes from.
	ScoreCoordinate ScoreCoordinate `json:"scoreCoordinate"`
	// Weight of the score. With a negative one the worst member comes first; 0 turns the prioritizer off.
	// +optional
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=-10
	// +kubebuilder:validation:Maximum=10
	Weight *int32 `json:"weight,omitempty"`
}

// ScoreType says what kind of score a prioritizer uses.
//
// +kubebuilder:validation:Enum=BuiltIn;Label
type ScoreType string

const (
	// ScoreBuiltIn is a score that MiniFleet computes.
	ScoreBuiltIn ScoreType = "BuiltIn"
	// ScoreLabel is the value of a label of the member, as a cost.
	ScoreLabel ScoreType = "Label"
)

// Prioritizer is a score that MiniFleet computes.
//
// +kubebuilder:validation:Enum=Steady;Balance;FreeCPU;FreeMemory;FreeGPU
type Prioritizer string

const (
	// Steady scores 100 where an earlier run of the MiniCluster was placed, and 0 elsewhere.
	Steady Prioritizer = "Steady"
	// Balance scores 100 where no run of this fleet is live, and -100 where most of them are.
	Balance Prioritizer = "Balance"
	// FreeCPU scores 100 where most CPU is free on nodes that take pods of the MiniCluster, -100 where none is,
	// and 0 where it is not known. Room that is too small or of the wrong kind for its pods does not count.
	FreeCPU Prioritizer = "FreeCPU"
	// FreeMemory is the same for memory.
	FreeMemory Prioritizer = "FreeMemory"
	// FreeGPU is the same for extended resources whose name ends in /gpu.
	FreeGPU Prioritizer = "FreeGPU"
)

// ScoreCoordinate says where a score comes from.
//
// +kubebuilder:validation:XValidation:rule="self.type == \"Label\" ? has(self.label) && !has(self.builtIn) : has(self.builtIn) && !has(self.label)",message="set builtIn with type BuiltIn, and label with type Label"
type ScoreCoordinate struct {
	// Type of the score.
	// +optional
	// +kubebuilder:default=BuiltIn
	Type ScoreType `json:"type,omitempty"`
	// BuiltIn names a score that MiniFleet computes.
	// +optional
	BuiltIn Prioritizer `json:"builtIn,omitempty"`
	// Label is the key of a label of MemberClusters whose value is a number that is not negative: what it
	// costs to run there, in any unit. The member that costs nothing scores 100, the one that costs most,
	// and any without such a label, -100.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=316
	Label string `json:"label,omitempty"`
}

// SpreadPolicy says how chosen members are to be distributed.
type SpreadPolicy struct {
	// SpreadConstraints are considered before scores, the first of them before the second.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=8
	SpreadConstraints []SpreadConstraint `json:"spreadConstraints,omitempty"`
}

// TopologyKeyType says what a topology key is the key of.
//
// +kubebuilder:validation:Enum=Label
type TopologyKeyType string

// TopologyKeyLabel is the key of a label of MemberClusters.
const TopologyKeyLabel TopologyKeyType = "Label"

// UnsatisfiableMaxSkewAction says what to do when the maximum skew cannot be kept.
//
// +kubebuilder:validation:Enum=DoNotSchedule;ScheduleAnyway
type UnsatisfiableMaxSkewAction string

const (
	// DoNotSchedule chooses no member that would make the skew greater than allowed.
	DoNotSchedule UnsatisfiableMaxSkewAction = "DoNotSchedule"
	// ScheduleAnyway puts such members behind all others.
	ScheduleAnyway UnsatisfiableMaxSkewAction = "ScheduleAnyway"
)

// SpreadConstraint spreads chosen members over the values of a label.
type SpreadConstraint struct {
	// TopologyKey is the key of a label. Members without it come last, or are not chosen at all with
	// DoNotSchedule.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=316
	TopologyKey string `json:"topologyKey"`
	// TopologyKeyType says what the key is the key of.
	// +optional
	// +kubebuilder:default=Label
	TopologyKeyType TopologyKeyType `json:"topologyKeyType,omitempty"`
	// MaxSkew is by how many the members that are chosen for one value of the label may exceed those of the
	// value that has the fewest. All members that may be chosen count, whether or not they have room now.
	// +optional
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=1
	MaxSkew int32 `json:"maxSkew,omitempty"`
	// WhenUnsatisfiable says what to do when MaxSkew cannot be kept.
	// +optional
	// +kubebuilder:default=ScheduleAnyway
	WhenUnsatisfiable UnsatisfiableMaxSkewAction `json:"whenUnsatisfiable,omitempty"`
}

// Placement is a named, reusable choice of members. An edit moves new runs; runs that exist stay.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:shortName=pl,categories=minifleet
// +kubebuilder:printcolumn:name="Clusters",type=integer,JSONPath=`.spec.numberOfClusters`,description="How many members are wanted; empty means all that match"
// +kubebuilder:printcolumn:name="Selector",type=string,JSONPath=`.spec.clusterSelector`,description="The labels that a member must have"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type Placement struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec PlacementSpec `json:"spec"`
}

// PlacementList is a list of Placements.
//
// +kubebuilder:object:root=true
type PlacementList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []Placement `json:"items"`
}
