package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// levels are OLM's capability levels, the lowest first.
var levels = []string{"Basic Install", "Seamless Upgrades", "Full Lifecycle", "Deep Insights", "Auto Pilot"}

// capabilityLevel is the highest level all of whose requirements, and all of those below it, have a test in the table of
// docs/operations.md: | level | requirement | test |. That these tests exist, the tests of docs make sure.
func capabilityLevel(document []byte) (string, error) {
	proven, err := requirements(document)
	if err != nil {
		return "", err
	}
	reached := ""
	for _, level := range levels {
		tests := proven[level]
		if len(tests) == 0 {
			return "", fmt.Errorf("docs/operations.md has no requirement of level %s", level)
		}
		if slices.Contains(tests, "") {
			break
		}
		reached = level
	}
	if reached == "" {
		return "", errors.New("docs/operations.md does not even prove " + levels[0])
	}
	return reached, nil
}

// requirements are the last cells of the table's rows, by level: what names tests, or empty.
func requirements(document []byte) (map[string][]string, error) {
	out, inside := map[string][]string{}, false
	for line := range strings.Lines(string(document)) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		switch {
		case !strings.HasPrefix(line, "|"):
			inside = false
		case slices.Equal(cells, []string{"level", "requirement", "test"}):
			inside = true
		case inside && !strings.HasPrefix(line, "|---"):
			if len(cells) != 3 || !slices.Contains(levels, cells[0]) {
				return nil, fmt.Errorf("docs/operations.md: %q is not | level | requirement | test |", strings.TrimSpace(line))
			}
			test := cells[2]
			if !strings.Contains(test, "_test.go: ") {
				test = ""
			}
			out[cells[0]] = append(out[cells[0]], test)
		}
	}
	return out, nil
}
