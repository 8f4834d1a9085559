package lab

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
)

// policyResources are the kinds that make up an admission policy.
var policyResources = map[string]string{
	"ValidatingAdmissionPolicy":        "validatingadmissionpolicies",
	"ValidatingAdmissionPolicyBinding": "validatingadmissionpolicybindings",
}

// ApplyPolicies applies every ValidatingAdmissionPolicy, and its binding, in the YAML files of a directory, such as
// config/policy. Other kinds and other files are skipped. An API server enforces a policy some time after it was applied.
func (c *Cluster) ApplyPolicies(ctx context.Context, dir string) error {
	policies, err := readManifests(dir, "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding")
	if err != nil {
		return err
	}
	config, err := c.RESTConfig()
	if err != nil {
		return err
	}
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return err
	}
	for _, policy := range policies {
		resource := schema.GroupVersionResource{Group: "admissionregistration.k8s.io", Version: "v1", Resource: policyResources[policy.GetKind()]}
		options := metav1.ApplyOptions{FieldManager: "lab", Force: true}
		if _, err := client.Resource(resource).Apply(ctx, policy.GetName(), policy, options); err != nil {
			return fmt.Errorf("applying %s %s: %w", policy.GetKind(), policy.GetName(), err)
		}
	}
	return nil
}
