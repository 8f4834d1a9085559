package render_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestCompatibilityDocument checks that docs/compatibility.md names tests that there are: a test of this
// package or of the MiniCluster's API, with one of its cases after a slash, or a file of tests.
func TestCompatibilityDocument(t *testing.T) {
	const root = "../../"
	document, err := os.ReadFile(root + "docs/compatibility.md")
	if err != nil {
		t.Fatal(err)
	}
	tests := map[string]string{} // the file that has a test
	for _, pattern := range []string{"*_test.go", root + "api/flux/v1alpha2/*_test.go"} {
		files, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for _, found := range regexp.MustCompile(`(?m)^func (Test\w+)\(`).FindAllSubmatch(text, -1) {
				tests[string(found[1])] = string(text)
			}
		}
	}
	named := regexp.MustCompile("`(Test\\w+)(/([^`]+))?`|`([a-z0-9/_]+_test\\.go)`").FindAllStringSubmatch(string(document), -1)
	if len(named) < 40 {
		t.Errorf("the document names %d tests only", len(named))
	}
	for _, name := range named {
		file, isTest := tests[name[1]]
		switch _, here := os.Stat(name[4]); {
		case name[1] != "" && !isTest:
			t.Errorf("there is no %s", name[1])
		case name[3] != "" && !strings.Contains(file, `"`+name[3]+`"`):
			t.Errorf("%s has no case %q", name[1], name[3])
		case name[4] != "" && here != nil:
			if _, err := os.Stat(root + name[4]); err != nil {
				t.Errorf("there is no file %s", name[4])
			}
		}
	}
}
