package main

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/operator-framework/api/pkg/manifests"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

const root = "../.."

// committed is the bundle of the repository, as OLM reads it.
func committed(t *testing.T) *manifests.Bundle {
	t.Helper()
	bundle, err := manifests.GetBundleFromDir(filepath.Join(root, "bundle"))
	if err != nil {
		t.Fatal(err)
	}
	return bundle
}

func TestCommittedBundleIsWhatConfigMakes(t *testing.T) {
	files, err := Generate(Options{Root: root})
	if err != nil {
		t.Fatal(err)
	}
	have := map[string]string{}
	for _, dir := range []string{"bundle", dockerfile} {
		err := filepath.WalkDir(filepath.Join(root, dir), func(path string, entry os.DirEntry, err error) error {
			if err != nil || entry.IsDir() {
				return err
			}
			content, err := os.ReadFile(path)
			name, _ := filepath.Rel(root, path)
			have[filepath.ToSlash(name)] = string(content)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	want := map[string]string{}
	for name, content := range files {
		want[name] = string(content)
	}
	if diff := cmp.Diff(want, have); diff != "" {
		t.Errorf("run make generate (-generated +committed):\n%s", diff)
	}
}

func TestPackIsReproducible(t *testing.T) {
	var archives [][]byte
	for range 2 {
		files, err := Generate(Options{Root: root, Image: "registry.example.org/minifleet@sha256:" + strings.Repeat("a", 64), Version: "1.2.3", Replaces: "minifleet.v1.2.2"})
		if err != nil {
			t.Fatal(err)
		}
		dir := t.TempDir()
		if err := writeTree(dir, files); err != nil {
			t.Fatal(err)
		}
		archive, err := Pack(os.DirFS(dir))
		if err != nil {
			t.Fatal(err)
		}
		archives = append(archives, archive)
		bundle, err := manifests.GetBundleFromDir(filepath.Join(dir, "bundle"))
		if err != nil {
			t.Fatal(err)
		}
		image := "registry.example.org/minifleet@sha256:" + strings.Repeat("a", 64)
		csv := bundle.CSV
		got := []string{csv.Name, csv.Spec.Version.String(), csv.Spec.Replaces, csv.Annotations["olm.skipRange"], csv.Annotations["containerImage"], csv.Spec.RelatedImages[0].Image, csv.Spec.InstallStrategy.StrategySpec.DeploymentSpecs[0].Spec.Template.Spec.Containers[0].Image}
		if diff := cmp.Diff([]string{"minifleet.v1.2.3", "1.2.3", "minifleet.v1.2.2", "<1.2.3", image, image, image}, got); diff != "" {
			t.Errorf("a release says (-want +got):\n%s", diff)
		}
	}
	if !bytes.Equal(archives[0], archives[1]) {
		t.Error("two archives of the same files differ")
	}
}

// flat are rules as a set: a line for each verb on each resource.
func flat(rules []rbacv1.PolicyRule) []string {
	var out []string
	for _, r := range rules {
		for _, verb := range r.Verbs {
			for _, url := range r.NonResourceURLs {
				out = append(out, verb+" "+url)
			}
			for _, group := range r.APIGroups {
				for _, resource := range r.Resources {
					out = append(out, strings.Join([]string{verb, group, resource, strings.Join(r.ResourceNames, ",")}, " "))
				}
			}
		}
	}
	slices.Sort(out)
	return out
}

func rulesIn(t *testing.T, objects []*unstructured.Unstructured, kind, name string) []rbacv1.PolicyRule {
	t.Helper()
	for _, object := range objects {
		if object.GetKind() == kind && object.GetName() == name {
			var role rbacv1.ClusterRole
			if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &role); err != nil {
				t.Fatal(err)
			}
			return role.Rules
		}
	}
	t.Fatalf("there is no %s %s", kind, name)
	return nil
}

// The rights of the bundle are those of config/rbac as sets, and the members' kubeconfigs are not to be read elsewhere: OLM
// would lift permissions of the CSV to the whole cluster, where the operator is installed for all namespaces.
func TestRightsAreThoseOfConfig(t *testing.T) {
	config, err := build(root, "config/rbac")
	if err != nil {
		t.Fatal(err)
	}
	bundle := committed(t)
	given := bundle.CSV.Spec.InstallStrategy.StrategySpec
	if len(given.Permissions) != 0 {
		t.Errorf("the CSV has permissions, which OLM gives in every namespace: %v", given.Permissions)
	}
	var everywhere []rbacv1.PolicyRule
	for _, p := range given.ClusterPermissions {
		if p.ServiceAccountName != "minifleet-controller-manager" {
			t.Errorf("service account %q", p.ServiceAccountName)
		}
		everywhere = append(everywhere, p.Rules...)
	}
	if diff := cmp.Diff(flat(rulesIn(t, config, "ClusterRole", "controller-manager")), flat(everywhere)); diff != "" {
		t.Errorf("clusterPermissions (-config +bundle):\n%s", diff)
	}
	if slices.ContainsFunc(flat(everywhere), func(s string) bool { return strings.Contains(s, " secrets ") }) {
		t.Errorf("Secrets may be read in all namespaces: %v", flat(everywhere))
	}
	own := flat(rulesIn(t, bundle.Objects, "Role", "minifleet-controller-manager"))
	if diff := cmp.Diff(flat(rulesIn(t, config, "Role", "controller-manager")), own); diff != "" {
		t.Errorf("rights in the namespace of the operator (-config +bundle):\n%s", diff)
	}
}

// The Deployment is that of config/default.
func TestDeploymentIsThatOfConfig(t *testing.T) {
	config, err := build(root, "config/default")
	if err != nil {
		t.Fatal(err)
	}
	csv := rawCSV(t)
	deployments, _, err := unstructured.NestedSlice(csv.Object, "spec", "install", "spec", "deployments")
	if err != nil || len(deployments) != 1 {
		t.Fatal(deployments, err)
	}
	for _, object := range config {
		if object.GetKind() == "Deployment" {
			want := map[string]any{"name": object.GetName(), "label": map[string]any{"app.kubernetes.io/part-of": "minifleet"}, "spec": object.Object["spec"]}
			if diff := cmp.Diff(want, deployments[0]); diff != "" {
				t.Errorf("-config +bundle:\n%s", diff)
			}
		}
	}
}

func rawCSV(t *testing.T) *unstructured.Unstructured {
	t.Helper()
	for _, object := range committed(t).Objects {
		if object.GetKind() == "ClusterServiceVersion" {
			return object
		}
	}
	t.Fatal("the bundle has no ClusterServiceVersion")
	return nil
}

// What config/default has, the bundle has, or OLM makes it, or it is known that people have to.
func TestNothingOfConfigIsForgotten(t *testing.T) {
	config, err := build(root, "config/default")
	if err != nil {
		t.Fatal(err)
	}
	name := func(o *unstructured.Unstructured) string { return o.GetKind() + " " + o.GetName() }
	var want, have []string
	for _, object := range config {
		want = append(want, name(object))
	}
	for _, object := range committed(t).Objects {
		have = append(have, name(object))
	}
	have = append(have,
		// By OLM.
		"Namespace minifleet-system", "Deployment minifleet-controller-manager", "ServiceAccount minifleet-controller-manager",
		"ClusterRole minifleet-controller-manager", "ClusterRoleBinding minifleet-controller-manager",
		// By people.
		"ValidatingAdmissionPolicy minifleet-gitsource-allow", "ValidatingAdmissionPolicyBinding minifleet-gitsource-allow",
		"ValidatingAdmissionPolicy minifleet-shard", "ValidatingAdmissionPolicyBinding minifleet-shard",
	)
	have = slices.DeleteFunc(have, func(s string) bool { return strings.HasPrefix(s, "ClusterServiceVersion ") })
	if diff := cmp.Diff(want, have, cmpopts.SortSlices(strings.Compare)); diff != "" {
		t.Errorf("-config +bundle:\n%s", diff)
	}
}

func TestSplitRefuses(t *testing.T) {
	object := func(kind, name, namespace string, fields map[string]any) *unstructured.Unstructured {
		u := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": kind}}
		u.SetName(name)
		u.SetNamespace(namespace)
		for key, value := range fields {
			u.Object[key] = value
		}
		return u
	}
	account := func(namespace string) []any {
		return []any{map[string]any{"kind": "ServiceAccount", "name": "manager", "namespace": namespace}}
	}
	ref := map[string]any{"kind": "ClusterRole", "name": "manager"}
	deployment := object("Deployment", "manager", "system", map[string]any{"spec": map[string]any{"template": map[string]any{"spec": map[string]any{"serviceAccountName": "manager"}}}})
	least := []*unstructured.Unstructured{object("Namespace", "system", "", nil), deployment, object("ClusterRole", "manager", "", map[string]any{"rules": []any{}})}
	cases := map[string]struct {
		more []*unstructured.Unstructured
		want string
	}{
		"nothing": {},
		"a kind that OLM does not install": {
			more: []*unstructured.Unstructured{object("DaemonSet", "agent", "system", nil)}, want: "OLM installs no DaemonSet",
		},
		"rights in another namespace": {
			more: []*unstructured.Unstructured{object("RoleBinding", "manager", "kube-system", map[string]any{"roleRef": ref, "subjects": account("system")})}, want: "is in namespace kube-system",
		},
		"rights of another account": {
			more: []*unstructured.Unstructured{object("ClusterRoleBinding", "manager", "", map[string]any{"roleRef": ref, "subjects": account("default")})}, want: "service accounts of the operator",
		},
		"a role that there is not": {
			more: []*unstructured.Unstructured{object("ClusterRoleBinding", "manager", "", map[string]any{"roleRef": map[string]any{"kind": "ClusterRole", "name": "other"}, "subjects": account("system")})}, want: "no ClusterRole other",
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			_, err := split(slices.Concat(least, c.more))
			got := ""
			if err != nil {
				got = err.Error()
			}
			if c.want == "" && got != "" || !strings.Contains(got, c.want) {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func TestCapabilityLevel(t *testing.T) {
	const head = "# Title\n\n| level | requirement | test |\n|---|---|---|\n"
	proof := "`a_test.go: TestA`"
	row := func(level, test string) string { return "| " + level + " | it works | " + test + " |\n" }
	all := func(tests ...string) string {
		out := head
		for i, level := range levels {
			out += row(level, tests[i])
		}
		return out
	}
	cases := map[string]struct{ document, want, wantErr string }{
		"all are proven":                           {document: all(proof, proof, proof, proof, proof), want: "Auto Pilot"},
		"the first is":                             {document: all(proof, "–", proof, proof, proof), want: "Basic Install"},
		"up to the third":                          {document: all(proof, proof, proof, "soon", proof), want: "Full Lifecycle"},
		"one of two requirements is not":           {document: all(proof, proof, proof, proof, proof) + row("Seamless Upgrades", "–"), want: "Basic Install"},
		"nothing is":                               {document: all("–", proof, proof, proof, proof), wantErr: "does not even prove Basic Install"},
		"a level without requirements":             {document: head + row("Basic Install", proof), wantErr: "no requirement of level Seamless Upgrades"},
		"a level that there is not":                {document: head + row("Perfect", proof), wantErr: "is not | level |"},
		"a table of something else does not count": {document: all(proof, "–", proof, proof, proof) + "\n| a | b | c |\n|---|---|---|\n| d | e | f |\n", want: "Basic Install"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := capabilityLevel([]byte(c.document))
			if got != c.want || (err == nil) != (c.wantErr == "") || err != nil && !strings.Contains(err.Error(), c.wantErr) {
				t.Errorf("got %q, %v", got, err)
			}
		})
	}
}
