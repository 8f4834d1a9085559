package lab_test

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
)

func TestApplyCRDs(t *testing.T) {
	t.Parallel()
	member := shared.Cluster("member")
	for range 2 { // again is no error
		if err := member.ApplyCRDs(t.Context(), "testdata/crds"); err != nil {
			t.Fatal(err)
		}
	}
	config, err := member.RESTConfig()
	if err != nil {
		t.Fatal(err)
	}
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	widget := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "lab.minifleet.dev/v1", "kind": "Widget", "metadata": map[string]any{"generateName": "w-"},
	}}
	resource := schema.GroupVersionResource{Group: "lab.minifleet.dev", Version: "v1", Resource: "widgets"}
	if _, err := client.Resource(resource).Namespace("default").Create(t.Context(), widget, metav1.CreateOptions{}); err != nil {
		t.Error(err)
	}
}

func TestApplyCRDsNeedsSome(t *testing.T) {
	t.Parallel()
	if err := shared.Cluster("member").ApplyCRDs(t.Context(), t.TempDir()); err == nil {
		t.Error("an empty directory is no error")
	}
}
