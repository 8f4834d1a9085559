package parse_test

import (
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/yaml"

	"github.com/minifleet/minifleet/gitsource"
	"github.com/minifleet/minifleet/gitsource/parse"
	"github.com/minifleet/minifleet/internal/miniclustertest"
)

// TestManifests parses MiniClusters of all kinds, each from a file of its own.
func TestManifests(t *testing.T) {
	for _, m := range miniclustertest.Own() {
		t.Run(m.Name, func(t *testing.T) { mustParseAll(t, m) })
	}
	t.Run("shared", func(t *testing.T) {
		shared, err := miniclustertest.Shared()
		if err != nil {
			t.Skipf("not parsed: %v", err)
		}
		for _, m := range shared {
			t.Run(m.Name, func(t *testing.T) { mustParseAll(t, m) })
		}
	})
}

// mustParseAll parses a manifest and compares what was decoded with what the file says: nothing of it may be
// lost or changed.
func mustParseAll(t *testing.T, m miniclustertest.Manifest) {
	t.Helper()
	res := parse.Tree([]gitsource.File{{Path: m.Path, Data: m.Text}}, parse.Options{})
	for _, p := range res.Problems {
		if !p.Warning {
			t.Errorf("line %d: %s: %s", p.Line, p.Field, p.Message)
		}
	}
	if len(res.Objects) != 1 {
		t.Fatalf("%d objects, want 1", len(res.Objects))
	}
	wantJSON, err := yaml.YAMLToJSON(m.Text)
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
}

// dropObsolete removes the fields that earlier versions of the API had, which some of the shared manifests set.
func dropObsolete(spec map[string]any) {
	delete(spec, "volumes")
	for _, c := range spec["containers"].([]any) {
		if security, ok := c.(map[string]any)["securityContext"].(map[string]any); ok {
			delete(security, "addCapabilities")
		}
	}
}

// prune removes what a decoder may omit, zero values and what holds only them, and writes numbers as
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
