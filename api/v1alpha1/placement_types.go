package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// PlacementSpec says which members run a MiniCluster. The field names follow the Placement API of Open
// Cluster Management where it has them.
type PlacementSpec struct {
	// ClusterSelector selects MemberClusters by their labels. An empty selector selects all of them.
	// +optional
	ClusterSelector metav1.LabelSelector `json:"clusterSelector,omitempty"`

	// NumberOfClusters is how many of the selected members run the MiniCluster, each of them one whole
	// copy. Without it, all of them do.
	// +optional
	// +kubebuilder:validation:Minimum=1
	NumberOfClusters *int32 `json:"numberOfClusters,omitempty"`
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
