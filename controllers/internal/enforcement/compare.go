package enforcement

import (
	"errors"
	"io"
	"slices"
	"strings"
	"sync"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/yaml"

	"github.com/minifleet/minifleet/config/policy"
)

// manifest is the policy as this version of MiniFleet has it.
var manifest = sync.OnceValues(func() (*admissionregistrationv1.ValidatingAdmissionPolicy, error) {
	documents := yaml.NewYAMLOrJSONDecoder(strings.NewReader(string(policy.GitSourceAllow)), 4096)
	for {
		var p admissionregistrationv1.ValidatingAdmissionPolicy
		err := documents.Decode(&p)
		switch {
		case errors.Is(err, io.EOF):
			return nil, errors.New("config/policy has no ValidatingAdmissionPolicy")
		case err != nil:
			return nil, err
		case p.Kind == "ValidatingAdmissionPolicy":
			return &p, nil
		}
	}
})

// differs names a field in which an installed policy says less than it should, or something else; empty for none. It may
// have validations of its own besides: with these it denies more.
func differs(want, have *admissionregistrationv1.ValidatingAdmissionPolicySpec) string {
	switch {
	case have.FailurePolicy != nil && *have.FailurePolicy != admissionregistrationv1.Fail:
		return "spec.failurePolicy"
	case have.ParamKind != nil:
		return "spec.paramKind"
	case len(have.MatchConditions) > 0:
		return "spec.matchConditions"
	case have.MatchConstraints == nil || isNarrow(have.MatchConstraints) || !equality.Semantic.DeepEqual(rulesOf(want), rulesOf(have)):
		return "spec.matchConstraints"
	case !equality.Semantic.DeepEqual(want.Variables, have.Variables):
		return "spec.variables"
	}
	for _, v := range want.Validations {
		if !slices.ContainsFunc(have.Validations, func(h admissionregistrationv1.Validation) bool { return h.Expression == v.Expression }) {
			return "spec.validations"
		}
	}
	return ""
}

// rulesOf are the resources that a policy is for.
func rulesOf(s *admissionregistrationv1.ValidatingAdmissionPolicySpec) []admissionregistrationv1.NamedRuleWithOperations {
	out := slices.Clone(s.MatchConstraints.ResourceRules)
	for i := range out {
		if scope := out[i].Scope; scope != nil && *scope != admissionregistrationv1.ClusterScope {
			out[i].Scope = nil // it is "*" where it is unset
		}
	}
	return out
}

// isNarrow says whether some of the resources are excluded.
func isNarrow(m *admissionregistrationv1.MatchResources) bool {
	return len(m.ExcludeResourceRules) > 0 || !selectsAll(m.NamespaceSelector) || !selectsAll(m.ObjectSelector)
}

func selectsAll(s *metav1.LabelSelector) bool {
	return s == nil || len(s.MatchLabels) == 0 && len(s.MatchExpressions) == 0
}

// unbound says why a binding does not have a policy deny what it should everywhere; empty if it does.
func unbound(b *admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec, policyName string) string {
	m := b.MatchResources
	switch {
	case b.PolicyName != policyName:
		return "is for another policy: spec.policyName differs"
	case !slices.Contains(b.ValidationActions, admissionregistrationv1.Deny):
		return "does not deny: spec.validationActions has no Deny"
	case m != nil && (len(m.ResourceRules) > 0 || isNarrow(m)):
		return "does not cover all GitSources: spec.matchResources has a selector or a rule"
	default:
		return ""
	}
}
