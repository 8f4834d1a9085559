package main

import (
	"errors"
	"fmt"
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

// parts of what is installed, by who installs it.
type parts struct {
	namespace               *unstructured.Unstructured
	deployments             []*unstructured.Unstructured
	definitions, others     []*unstructured.Unstructured
	clusterPermissions      []permission
	bound                   map[string]bool // names of ClusterRoles that OLM makes itself
	roles, bindings, unused []*unstructured.Unstructured
}

// permission is what a service account may do.
type permission struct {
	account string
	rules   []any
}

// installedByOLM are kinds that OLM installs as they are. It refuses or ignores all others.
// https://olm.operatorframework.io/docs/tasks/creating-operator-manifests/
var installedByOLM = []string{"ClusterRole", "ClusterRoleBinding", "ConfigMap", "NetworkPolicy", "PodDisruptionBudget", "PriorityClass", "Role", "RoleBinding", "Secret", "Service"}

// droppedByOLM are kinds that people install besides: docs/olm.md says how.
var droppedByOLM = []string{"ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"}

// split says of each object how it gets into a bundle.
func split(installed []*unstructured.Unstructured) (*parts, error) {
	p := &parts{bound: map[string]bool{}}
	for _, object := range installed {
		switch kind := object.GetKind(); {
		case kind == "Namespace":
			p.namespace = object
		case kind == "Deployment":
			p.deployments = append(p.deployments, object)
		case kind == "CustomResourceDefinition":
			p.definitions = append(p.definitions, object)
		case kind == "ClusterRoleBinding" || kind == "RoleBinding":
			p.bindings = append(p.bindings, object)
		case kind == "ClusterRole" || kind == "Role":
			p.roles = append(p.roles, object)
		case kind == "ServiceAccount" || slices.Contains(droppedByOLM, kind):
			p.unused = append(p.unused, object)
		case slices.Contains(installedByOLM, kind):
			p.others = append(p.others, withoutNamespace(object))
		default:
			return nil, fmt.Errorf("config/default has %s %s, and OLM installs no %s: leave it out of config/default, or say in droppedByOLM of hack/bundle that people install it besides", kind, object.GetName(), kind)
		}
	}
	if p.namespace == nil || len(p.deployments) == 0 {
		return nil, errors.New("config/default has no Namespace, or no Deployment")
	}
	return p, errors.Join(p.bind(), p.checkAccounts())
}

// bind finds out what the service accounts may do. What they may everywhere becomes clusterPermissions. Roles of the
// operator's namespace stay what they are: were they the permissions of the CSV, OLM would give them in every namespace, since
// MiniFleet is installed for all (docs/decisions/0040-the-olm-bundle.md).
func (p *parts) bind() error {
	for _, binding := range p.bindings {
		var b rbacv1.RoleBinding // a ClusterRoleBinding has the same fields
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(binding.Object, &b); err != nil {
			return err
		}
		if err := p.checkBinding(binding.GetKind(), &b); err != nil {
			return err
		}
		if binding.GetKind() == "RoleBinding" {
			p.others = append(p.others, withoutNamespace(binding))
			continue
		}
		rules, err := p.rulesOf(b.RoleRef)
		if err != nil {
			return fmt.Errorf("ClusterRoleBinding %s: %w", b.Name, err)
		}
		for _, subject := range b.Subjects {
			p.clusterPermissions = append(p.clusterPermissions, permission{account: subject.Name, rules: rules})
		}
		p.bound[b.RoleRef.Name] = true
	}
	for _, role := range p.roles {
		if role.GetKind() == "Role" || !p.bound[role.GetName()] {
			p.others = append(p.others, withoutNamespace(role))
		}
	}
	return nil
}

// checkBinding makes sure that a binding is one that OLM can make: in the namespace of the operator, to its accounts.
func (p *parts) checkBinding(kind string, b *rbacv1.RoleBinding) error {
	if kind == "RoleBinding" && b.Namespace != p.namespace.GetName() {
		return fmt.Errorf("RoleBinding %s is in namespace %s: OLM makes those of the operator's namespace only", b.Name, b.Namespace)
	}
	for _, subject := range b.Subjects {
		if subject.Kind != rbacv1.ServiceAccountKind || subject.Namespace != p.namespace.GetName() {
			return fmt.Errorf("%s %s binds %s %s: the bundle is for the service accounts of the operator", kind, b.Name, subject.Kind, subject.Name)
		}
	}
	return nil
}

func (p *parts) rulesOf(ref rbacv1.RoleRef) ([]any, error) {
	for _, role := range p.roles {
		if role.GetKind() == ref.Kind && role.GetName() == ref.Name {
			rules, _, err := unstructured.NestedSlice(role.Object, "rules")
			return rules, err
		}
	}
	return nil, fmt.Errorf("config/default has no %s %s", ref.Kind, ref.Name)
}

// checkAccounts makes sure that OLM makes every service account, which it does for those of Deployments.
func (p *parts) checkAccounts() error {
	for _, given := range p.clusterPermissions {
		if !slices.ContainsFunc(p.deployments, func(d *unstructured.Unstructured) bool {
			account, _, _ := unstructured.NestedString(d.Object, "spec", "template", "spec", "serviceAccountName")
			return account == given.account
		}) {
			return fmt.Errorf("no Deployment of config/default has service account %s", given.account)
		}
	}
	return nil
}

// withoutNamespace is an object for the namespace that OLM installs into.
func withoutNamespace(object *unstructured.Unstructured) *unstructured.Unstructured {
	out := object.DeepCopy()
	unstructured.RemoveNestedField(out.Object, "metadata", "namespace")
	return out
}
