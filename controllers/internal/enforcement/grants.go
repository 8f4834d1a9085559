package enforcement

import (
	"context"
	"fmt"
	"slices"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/minifleet/minifleet/api/v1alpha1"
)

// operatorRole is the ClusterRole that the Operator Lifecycle Manager makes for whoever has Kubernetes' role admin: all verbs
// on gitsources.
const operatorRole = "gitsources.minifleet.dev-v1alpha1-admin"

// permissionsCheck is what the policy of config/olm/policy asks besides.
const permissionsCheck = `.subresource("permissions").`

// examineGrants says what is wrong where the policy is in force and the Operator Lifecycle Manager has given the verb that it asks
// for to the administrators of namespaces. Where its role may not be read, nothing is said.
func examineGrants(ctx context.Context, reader client.Reader, have *admissionregistrationv1.ValidatingAdmissionPolicySpec) (Installed, error) {
	if slices.ContainsFunc(have.Validations, func(v admissionregistrationv1.Validation) bool {
		return strings.Contains(v.Expression, permissionsCheck) && strings.Contains(v.Expression, `check("allow")`)
	}) {
		return Installed{}, nil
	}
	var role rbacv1.ClusterRole
	err := reader.Get(ctx, client.ObjectKey{Name: operatorRole}, &role)
	switch {
	case apierrors.IsNotFound(err), meta.IsNoMatchError(err), apierrors.IsForbidden(err):
		return Installed{}, nil
	case err != nil:
		return Installed{}, fmt.Errorf("reading ClusterRole %s: %w", operatorRole, err)
	case !givesAllow(role.Rules):
		return Installed{}, nil
	}
	return Installed{Problem: "the ClusterRole " + operatorRole + " of the Operator Lifecycle Manager gives the administrators of namespaces the verb allow on " +
		"gitsources, which is all that the ValidatingAdmissionPolicy of the hub asks for: install the one for such hubs with `kubectl apply -k config/olm/policy`"}, nil
}

func givesAllow(rules []rbacv1.PolicyRule) bool {
	return slices.ContainsFunc(rules, func(r rbacv1.PolicyRule) bool {
		has := func(all []string, one string) bool { return slices.Contains(all, one) || slices.Contains(all, "*") }
		return has(r.Verbs, "allow") && has(r.Resources, "gitsources") && has(r.APIGroups, v1alpha1.GroupVersion.Group)
	})
}
