package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/operator-framework/api/pkg/apis/scorecard/v1alpha3"

	"github.com/minifleet/minifleet/internal/scripttest"
)

// scorecardTests are all that the program has.
var scorecardTests = []string{
	"basic-check-spec", "olm-bundle-validation", "olm-crds-have-validation", "olm-crds-have-resources",
	"olm-spec-descriptors", "olm-status-descriptors",
}

// scorecard runs a test of operator-sdk's scorecard on a bundle, as a pod of it does: with the bundle at /bundle, which is that
// of a root directory of its own here.
func scorecard(t *testing.T, test string, files map[string][]byte) v1alpha3.TestResult {
	t.Helper()
	program := os.Getenv("MINIFLEET_TEST_SCORECARD")
	if program == "" {
		t.Skip("NOT TESTED with operator-sdk's scorecard: make test-bundle builds it and sets MINIFLEET_TEST_SCORECARD")
	}
	dir := t.TempDir()
	for name, content := range files {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, content, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	scripttest.Copy(t, program, filepath.Join(dir, "scorecard-test"))
	if err := os.Mkdir(filepath.Join(dir, "tmp"), 0o777); err != nil {
		t.Fatal(err)
	}
	command := exec.CommandContext(t.Context(), "/scorecard-test", test)
	command.Dir, command.Env, command.SysProcAttr = "/", []string{"HOME=/tmp"}, rootDirectory(dir)
	out, err := command.Output()
	if err != nil {
		t.Fatalf("%s: %v: %s", test, err, stderr(err))
	}
	var status v1alpha3.TestStatus
	if err := json.Unmarshal(out, &status); err != nil {
		t.Fatalf("%s: %v: %s", test, err, out)
	}
	if len(status.Results) != 1 || status.Results[0].Name != test {
		t.Fatalf("%s has the results %s", test, out)
	}
	return status.Results[0]
}

func stderr(err error) string {
	if exit, ok := err.(*exec.ExitError); ok { //nolint:errorlint // Output returns it as it is
		return string(exit.Stderr)
	}
	return ""
}

func TestScorecard(t *testing.T) {
	files, err := Generate(Options{Root: root})
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range scorecardTests {
		t.Run(test, func(t *testing.T) {
			result := scorecard(t, test, files)
			if result.State != v1alpha3.PassState || len(result.Errors) > 0 {
				t.Errorf("%s: %v %v", result.State, result.Errors, result.Suggestions)
			}
			t.Logf("%s: %s %v", test, result.State, result.Suggestions)
		})
	}
}

// The scorecard sees what is wrong: the test above can fail.
func TestScorecardSeesMistakes(t *testing.T) {
	const csvFile = "bundle/manifests/minifleet.clusterserviceversion.yaml"
	cases := map[string]struct {
		test   string
		change func(spec map[string]any)
	}{
		"a CRD without resources": {"olm-crds-have-resources", func(spec map[string]any) {
			delete(owned(spec)[0].(map[string]any), "resources")
		}},
		"no descriptors of spec": {"olm-spec-descriptors", func(spec map[string]any) {
			for _, description := range owned(spec) {
				delete(description.(map[string]any), "specDescriptors")
			}
		}},
		"no CRDs in the CSV": {"olm-bundle-validation", func(spec map[string]any) {
			delete(spec, "customresourcedefinitions")
		}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			files, err := Generate(Options{Root: root})
			if err != nil {
				t.Fatal(err)
			}
			csv := rawCSV(t)
			c.change(csv.Object["spec"].(map[string]any))
			if files[csvFile], err = toYAML(csv.Object); err != nil {
				t.Fatal(err)
			}
			if result := scorecard(t, c.test, files); result.State != v1alpha3.FailState {
				t.Errorf("%s says %s", c.test, result.State)
			}
		})
	}
}

func owned(spec map[string]any) []any {
	return spec["customresourcedefinitions"].(map[string]any)["owned"].([]any)
}
