// Package v1alpha1 holds MiniFleet's own kinds: GitSource, FleetMiniCluster, Placement and MemberCluster.
//
// +kubebuilder:object:generate=true
// +groupName=minifleet.dev
package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

var (
	// GroupVersion is minifleet.dev/v1alpha1.
	GroupVersion = schema.GroupVersion{Group: "minifleet.dev", Version: "v1alpha1"}

	// SchemeBuilder collects the functions that register this package's kinds.
	SchemeBuilder = runtime.NewSchemeBuilder(addKnownTypes)

	// AddToScheme registers this package's kinds.
	AddToScheme = SchemeBuilder.AddToScheme
)

func addKnownTypes(s *runtime.Scheme) error {
	s.AddKnownTypes(GroupVersion,
		&FleetMiniCluster{}, &FleetMiniClusterList{},
		&GitSource{}, &GitSourceList{},
		&MemberCluster{}, &MemberClusterList{},
		&Notification{}, &NotificationList{},
		&Placement{}, &PlacementList{},
	)
	metav1.AddToGroupVersion(s, GroupVersion)
	return nil
}
