package main

import (
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// What people apply beside OLM are the policies and their bindings, and the one for sources asks for one verb more.
func TestPolicyForOLM(t *testing.T) {
	objects, err := build(root, "config/olm/policy")
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, object := range objects {
		names = append(names, object.GetKind()+" "+object.GetName())
		if validations, found, _ := unstructured.NestedSlice(object.Object, "spec", "validations"); found && len(validations) != map[string]int{"minifleet-gitsource-allow": 3, "minifleet-shard": 2}[object.GetName()] {
			t.Errorf("%s has %d validations", object.GetName(), len(validations))
		}
		if policy, found, _ := unstructured.NestedString(object.Object, "spec", "policyName"); found && policy != object.GetName() {
			t.Errorf("the binding %s is of %s", object.GetName(), policy)
		}
	}
	slices.Sort(names)
	want := []string{
		"ValidatingAdmissionPolicy minifleet-gitsource-allow", "ValidatingAdmissionPolicy minifleet-shard",
		"ValidatingAdmissionPolicyBinding minifleet-gitsource-allow", "ValidatingAdmissionPolicyBinding minifleet-shard",
	}
	if !slices.Equal(names, want) {
		t.Errorf("%v", names)
	}
}
