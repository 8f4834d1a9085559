package docs_test

import (
	"os"
	"strings"
	"testing"
)

// Tests that the capability table names exist. A requirement without one keeps the level of the bundle down, and is no mistake.
func TestCapabilitiesAreTested(t *testing.T) {
	text, err := os.ReadFile("operations.md")
	if err != nil {
		t.Fatal(err)
	}
	rows, inside := 0, false
	for line := range strings.Lines(string(text)) {
		switch {
		case !strings.HasPrefix(line, "|"):
			inside = false
		case strings.HasPrefix(line, "| level |"):
			inside = true
		case inside && strings.HasSuffix(strings.TrimSpace(line), "| – |"):
			rows++
		case inside && !strings.HasPrefix(line, "|---"):
			rows++
			checkRow(t, line)
		}
	}
	if rows < 15 {
		t.Errorf("only %d requirements were found in operations.md", rows)
	}
}
