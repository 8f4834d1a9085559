package members

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"
)

// What a join applies is what `kubectl apply -k config/member/…` would.
func TestAccessIsWhatKustomizeBuilds(t *testing.T) {
	for directory, objects := range map[string]func() ([]client.Object, error){
		"cluster":    func() ([]client.Object, error) { return access("") },
		"namespaced": func() ([]client.Object, error) { return access("miniclusters") },
		"namespaces": func() ([]client.Object, error) { return build("namespaces", "") },
		"policy":     policy,
	} {
		t.Run(directory, func(t *testing.T) {
			built, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), filepath.Join("..", "..", "..", "config", "member", directory))
			if err != nil {
				t.Fatal(err)
			}
			body, err := built.AsYaml()
			if err != nil {
				t.Fatal(err)
			}
			want := map[string]any{}
			for _, document := range strings.Split(string(body), "\n---\n") {
				var fields map[string]any
				if err := yaml.Unmarshal([]byte(document), &fields); err != nil {
					t.Fatal(err)
				}
				want[keyOf(fields)] = fields
			}
			objects, err := objects()
			if err != nil {
				t.Fatal(err)
			}
			got := map[string]any{}
			for _, obj := range objects {
				body, err := manifest(obj)
				if err != nil {
					t.Fatal(err)
				}
				var fields map[string]any
				if err := yaml.Unmarshal(body, &fields); err != nil {
					t.Fatal(err)
				}
				got[keyOf(fields)] = fields
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("-kustomize +join:\n%s", diff)
			}
			if directory != "policy" && tokenOf(objects) == nil {
				t.Error("there is no token")
			}
		})
	}
}

func TestAccessOfSomeNamespaces(t *testing.T) {
	objects, err := access("", "hpc", "ml")
	if err != nil {
		t.Fatal(err)
	}
	var bound []string
	for _, obj := range objects {
		if b, is := obj.(*rbacv1.RoleBinding); is {
			bound = append(bound, b.Namespace)
			if b.Subjects[0].Namespace != "minifleet-member" {
				t.Errorf("bound to %+v", b.Subjects)
			}
		}
		if r, is := obj.(*rbacv1.ClusterRoleBinding); is && r.RoleRef.Name != "minifleet-member" {
			t.Errorf("role %s is bound everywhere", r.RoleRef.Name)
		}
	}
	if diff := cmp.Diff([]string{"default", "hpc", "ml"}, bound); diff != "" {
		t.Error(diff)
	}
}

func keyOf(fields map[string]any) string {
	kind, _ := fields["kind"].(string)
	metadata, _ := fields["metadata"].(map[string]any)
	name, _ := metadata["name"].(string)
	return kind + "/" + name
}

func TestAccessOfAnotherNamespace(t *testing.T) {
	objects, err := access("site")
	if err != nil {
		t.Fatal(err)
	}
	for _, obj := range objects {
		if obj.GetNamespace() != "site" {
			t.Errorf("%T is in namespace %q", obj, obj.GetNamespace())
		}
	}
}
