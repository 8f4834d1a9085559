package parse_test

import (
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/yaml"

	"github.com/minifleet/minifleet/gitsource"
	"github.com/minifleet/minifleet/gitsource/parse"
)

// The manifests of upstream's examples are accepted as they are. They do not lie in this repository, so
// the test runs where they are beside it.
func TestCorpus(t *testing.T) {
	paths, err := filepath.Glob("../../../shared/corpus/*/minicluster.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if len(paths) == 0 {
		t.Skip("there are no upstream manifests beside this repository")
	}
	for _, path := range paths {
		t.Run(filepath.Base(filepath.Dir(path)), func(t *testing.T) {
			data, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			res := parse.Tree([]gitsource.File{{Path: path, Data: data}}, parse.Options{})
			for _, p := range res.Problems {
				if !p.Warning {
					t.Errorf("line %d: %s: %s", p.Line, p.Field, p.Message)
				}
			}
			if len(res.Objects) != 1 {
				t.Fatalf("%d objects, want 1", len(res.Objects))
			}
			// What was decoded says what the file says: nothing of it is lost or changed.
			wantJSON, err := yaml.YAMLToJSON(data)
			if err != nil {
				t.Fatal(err)
			}
			gotJSON, err := json.Marshal(res.Objects[0].MiniCluster)
			if err != nil {
				t.Fatal(err)
			}
			var want, got map[string]any
			if err := json.Unmarshal(wantJSON, &want); err != nil {
				t.Fatal(err)
			}
			if err := json.Unmarshal(gotJSON, &got); err != nil {
				t.Fatal(err)
			}
			dropObsolete(want["spec"].(map[string]any))
			if diff := cmp.Diff(prune(want), prune(got)); diff != "" {
				t.Errorf("the manifest (-file +decoded):\n%s", diff)
			}
		})
	}
}

// dropObsolete removes the fields that earlier versions of the API had.
func dropObsolete(spec map[string]any) {
	delete(spec, "volumes")
	for _, c := range spec["containers"].([]any) {
		if security, ok := c.(map[string]any)["securityContext"].(map[string]any); ok {
			delete(security, "addCapabilities")
		}
	}
}

// prune removes what a decoder may leave out, zero values and what holds only them, and writes numbers as
// text, since a quantity such as cpu may be written as either.
func prune(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for key, value := range v {
			if value = prune(value); value == nil {
				delete(v, key)
			} else {
				v[key] = value
			}
		}
		if len(v) == 0 {
			return nil
		}
	case []any:
		for i := range v {
			v[i] = prune(v[i])
		}
		if len(v) == 0 {
			return nil
		}
	case bool:
		if !v {
			return nil
		}
	case string:
		if v == "" {
			return nil
		}
	case int64:
		if v == 0 {
			return nil
		}
		return strconv.FormatInt(v, 10)
	}
	return v
}
