// Package docs_test holds the documents to what they say of the code.
package docs_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// test is a reference to a test: its file, and words that name it there.
var test = regexp.MustCompile("`([a-z0-9/_]+_test\\.go): ([^`]+)`")

func TestFaultsAreTested(t *testing.T) {
	doc, err := os.ReadFile("faults.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := 0
	for line := range strings.Lines(string(doc)) {
		if !strings.HasPrefix(line, "| ") || strings.HasPrefix(line, "| fault |") {
			continue
		}
		rows++
		references := test.FindAllStringSubmatch(line, -1)
		if len(references) == 0 {
			t.Errorf("no test is named for %s", line)
		}
		for _, ref := range references {
			source, err := os.ReadFile(filepath.Join("..", filepath.FromSlash(ref[1])))
			if err != nil {
				t.Error(err)
			} else if !strings.Contains(string(source), ref[2]) {
				t.Errorf("%s has no test called %q", ref[1], ref[2])
			}
		}
	}
	if rows < 30 {
		t.Errorf("only %d faults were found in the document", rows)
	}
}
