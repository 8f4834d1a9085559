package v1alpha2

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

var (
	// GroupVersion is the group and version of the MiniCluster kind.
	GroupVersion = schema.GroupVersion{Group: "flux-framework.org", Version: "v1alpha2"}

	// SchemeBuilder collects what AddToScheme registers.
	SchemeBuilder = runtime.NewSchemeBuilder(addKnownTypes)

	// AddToScheme registers the kinds of this package, for decoding.
	AddToScheme = SchemeBuilder.AddToScheme
)

// Kind is the kind of a MiniCluster manifest.
const Kind = "MiniCluster"

func addKnownTypes(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion, &MiniCluster{}, &MiniClusterList{})
	metav1.AddToGroupVersion(scheme, GroupVersion)
	return nil
}
