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
var test = regexp.MustCompile("`([A-Za-z0-9/_.-]+(?:_test\\.go|\\.test\\.tsx?|\\.spec\\.ts)): ([^`]+)`")

// Every line of a table whose last column is "test" names a test that there is.
func TestWhatIsPromisedIsTested(t *testing.T) {
	for document, least := range map[string]int{"faults.md": 30, "security.md": 80, "policy.md": 20} {
		t.Run(document, func(t *testing.T) {
			text, err := os.ReadFile(document)
			if err != nil {
				t.Fatal(err)
			}
			rows, tested := 0, false
			for line := range strings.Lines(string(text)) {
				switch {
				case !strings.HasPrefix(line, "|"):
					tested = false
				case isHeading(line):
					tested = true
				case tested && !strings.HasPrefix(line, "|---"):
					rows++
					checkRow(t, line)
				}
			}
			if rows < least {
				t.Errorf("only %d promises were found in the document", rows)
			}
		})
	}
}

// isHeading says whether a line is the head of a table whose last column names tests.
func isHeading(line string) bool {
	cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
	last := strings.TrimSpace(cells[len(cells)-1])
	return last == "test" || strings.HasPrefix(line, "| fault |")
}

func checkRow(t *testing.T, line string) {
	t.Helper()
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
