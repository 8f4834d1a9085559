package members

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"
)

// What a join applies is what `kubectl apply -k config/member/…` would.
func TestAccessIsWhatKustomizeBuilds(t *testing.T) {
	for directory, confined := range map[string]string{"cluster": "", "namespaced": "miniclusters"} {
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
			objects, err := access(confined)
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
			if tokenOf(objects) == nil {
				t.Error("there is no token")
			}
		})
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
