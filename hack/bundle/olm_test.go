package main

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/operator-framework/api/pkg/manifests"
	"github.com/operator-framework/api/pkg/operators/v1alpha1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/minifleet/minifleet/hack/lab"
)

// installer does what OLM (v0, for an OperatorGroup of all namespaces) does with a bundle:
//
//  1. It makes the CRDs, and what else is in the bundle, in the namespace of the operator where it is namespaced.
//  2. It makes a service account for each that the CSV names, a ClusterRole and a ClusterRoleBinding for each of
//     clusterPermissions, and the same for permissions, since the operator is for all namespaces.
//  3. For each kind that the CSV owns it makes ClusterRoles that are added to Kubernetes' own admin, edit and view.
//  4. It makes the Deployments of the CSV, with the CSV's annotations and some of its own in the pods.
//
// What the bundle does not have, such as an admission policy, it does not make.
type installer struct {
	hub       client.Client
	namespace string
	csv       *v1alpha1.ClusterServiceVersion
}

func installBundle(t *testing.T, cluster *lab.Cluster, bundle *manifests.Bundle) *installer {
	t.Helper()
	i := &installer{hub: adminOf(t, cluster), csv: bundle.CSV}
	var template corev1.Namespace
	if err := json.Unmarshal([]byte(bundle.CSV.Annotations["operatorframework.io/suggested-namespace-template"]), &template); err != nil {
		t.Fatal(err)
	}
	i.namespace = bundle.CSV.Annotations["operatorframework.io/suggested-namespace"]
	if template.Name != i.namespace {
		t.Fatalf("the suggested namespace is %s, and that of the template %s", i.namespace, template.Name)
	}
	if err := cluster.ApplyCRDs(t.Context(), filepath.Join(root, "bundle", "manifests")); err != nil {
		t.Fatal(err)
	}
	i.create(t, &template)
	for _, object := range bundle.Objects {
		i.createObject(t, object)
	}
	for _, account := range accountsOf(bundle.CSV) {
		i.create(t, &corev1.ServiceAccount{ObjectMeta: i.named(account)})
	}
	strategy := bundle.CSV.Spec.InstallStrategy.StrategySpec
	for n, p := range append(strategy.ClusterPermissions, strategy.Permissions...) {
		i.permit(t, fmt.Sprintf("%s-%d", bundle.CSV.Name, n), p)
	}
	for _, crd := range bundle.CSV.Spec.CustomResourceDefinitions.Owned {
		i.grant(t, crd)
	}
	for _, d := range strategy.DeploymentSpecs {
		i.deploy(t, d)
	}
	return i
}

func accountsOf(csv *v1alpha1.ClusterServiceVersion) []string {
	var out []string
	seen := map[string]bool{}
	for _, d := range csv.Spec.InstallStrategy.StrategySpec.DeploymentSpecs {
		if name := d.Spec.Template.Spec.ServiceAccountName; !seen[name] {
			seen[name] = true
			out = append(out, name)
		}
	}
	return out
}

func (i *installer) named(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: name, Namespace: i.namespace, Labels: map[string]string{"olm.owner": i.csv.Name}}
}

func (i *installer) create(t *testing.T, object client.Object) {
	t.Helper()
	if err := i.hub.Create(t.Context(), object); err != nil {
		t.Fatal(err)
	}
}

// createObject makes what is in the bundle beside the CSV and the CRDs.
func (i *installer) createObject(t *testing.T, object *unstructured.Unstructured) {
	t.Helper()
	kind := object.GetKind()
	if kind == "ClusterServiceVersion" || kind == "CustomResourceDefinition" {
		return
	}
	object = object.DeepCopy()
	mapping, err := i.hub.RESTMapper().RESTMapping(object.GroupVersionKind().GroupKind())
	if err != nil {
		t.Fatal(err)
	}
	if mapping.Scope.Name() == "namespace" {
		object.SetNamespace(i.namespace)
	}
	i.create(t, object)
}

// permit gives an account rules in all namespaces.
func (i *installer) permit(t *testing.T, name string, p v1alpha1.StrategyDeploymentPermissions) {
	t.Helper()
	i.create(t, &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: p.Rules})
	i.create(t, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: i.namespace, Name: p.ServiceAccountName}},
	})
}

// grant makes what is added to Kubernetes' own roles for a kind.
func (i *installer) grant(t *testing.T, crd v1alpha1.CRDDescription) {
	t.Helper()
	plural, group, _ := strings.Cut(crd.Name, ".")
	for suffix, verbs := range map[string][]string{"admin": {"*"}, "edit": {"create", "update", "patch", "delete"}, "view": {"get", "list", "watch"}} {
		i.create(t, &rbacv1.ClusterRole{
			ObjectMeta: metav1.ObjectMeta{
				Name:   crd.Name + "-" + crd.Version + "-" + suffix,
				Labels: map[string]string{"rbac.authorization.k8s.io/aggregate-to-" + suffix: "true"},
			},
			Rules: []rbacv1.PolicyRule{{Verbs: verbs, APIGroups: []string{group}, Resources: []string{plural}}},
		})
	}
}

func (i *installer) deploy(t *testing.T, d v1alpha1.StrategyDeploymentSpec) {
	t.Helper()
	deployment := &appsv1.Deployment{ObjectMeta: i.named(d.Name), Spec: *d.Spec.DeepCopy()}
	for key, value := range d.Label {
		deployment.Labels[key] = value
	}
	template := &deployment.Spec.Template
	annotations := map[string]string{"olm.operatorGroup": "global", "olm.operatorNamespace": i.namespace, "olm.targetNamespaces": ""}
	for _, from := range []map[string]string{i.csv.Annotations, template.Annotations} {
		for key, value := range from {
			annotations[key] = value
		}
	}
	template.Annotations = annotations
	for n := range template.Spec.Containers {
		container := &template.Spec.Containers[n]
		container.Env = append(container.Env, corev1.EnvVar{Name: "OPERATOR_CONDITION_NAME", Value: i.csv.Name})
	}
	i.create(t, deployment)
}

// template is that of the Deployment's pods, as the hub has it.
func (i *installer) template(ctx context.Context, t *testing.T) corev1.PodTemplateSpec {
	t.Helper()
	var deployment appsv1.Deployment
	name := i.csv.Spec.InstallStrategy.StrategySpec.DeploymentSpecs[0].Name
	if err := i.hub.Get(ctx, client.ObjectKey{Namespace: i.namespace, Name: name}, &deployment); err != nil {
		t.Fatal(err)
	}
	return deployment.Spec.Template
}

func adminOf(t *testing.T, cluster *lab.Cluster) client.Client {
	t.Helper()
	config, err := cluster.RESTConfig()
	if err != nil {
		t.Fatal(err)
	}
	c, err := client.New(config, client.Options{Scheme: clientgoscheme.Scheme})
	if err != nil {
		t.Fatal(err)
	}
	return c
}
