package parse_test

import (
	"strings"
	"testing"

	"github.com/minifleet/minifleet/gitsource"
	"github.com/minifleet/minifleet/gitsource/parse"
)

func TestMisspeltKindsAreProblems(t *testing.T) {
	for header, problem := range map[string]bool{
		"flux-framework.org/v1alpha2 MiniClusterr": true,
		"flux-framework.org/v1alpha2 MiniClutser":  true,
		"minifleet.dev/v1alpha1 Placment":          true,
		"flux-framework.org/v1alpha2 MetricSet":    false,
		"minifleet.dev/v1alpha1 GitSource":         false,
		"apps/v1 MiniClusterr":                     false,
	} {
		apiVersion, kind, _ := strings.Cut(header, " ")
		body := "apiVersion: " + apiVersion + "\nkind: " + kind + "\nmetadata:\n  name: x\n"
		got := parse.Tree([]gitsource.File{{Path: "a.yaml", Data: []byte(body)}}, parse.Options{})
		if (len(got.Problems) > 0) != problem || len(got.Objects) > 0 {
			t.Errorf("%s: problems %+v and objects %+v, want a problem: %t", header, got.Problems, got.Objects, problem)
		}
	}
}
