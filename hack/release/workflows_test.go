package main

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// A tag of an action can be moved to other code, and a hash cannot: the tag is a comment behind it.
func TestActionsArePinned(t *testing.T) {
	pinned := regexp.MustCompile(`^[\w.-]+/[\w.-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+$`)
	paths, err := filepath.Glob(filepath.Join("..", "..", ".github", "workflows", "*.yaml"))
	if err != nil || len(paths) == 0 {
		t.Fatalf("workflows: %v, %v", paths, err)
	}
	uses := 0
	for _, path := range paths {
		for line := range strings.Lines(read(t, path)) {
			if _, action, found := strings.Cut(line, "uses: "); found {
				uses++
				if !pinned.MatchString(strings.TrimSpace(action)) {
					t.Errorf("%s: %q is not pinned by its hash, with the version behind it", filepath.Base(path), action)
				}
			}
		}
	}
	if uses == 0 {
		t.Error("no workflow uses an action")
	}
}

// Whoever can run a step with the right to sign can sign anything: no job but that of the release has it.
func TestOnlyTheReleaseMaySign(t *testing.T) {
	paths, err := filepath.Glob(filepath.Join("..", "..", ".github", "workflows", "*.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range paths {
		var workflow struct {
			Permissions map[string]string
			Jobs        map[string]struct{ Permissions map[string]string }
		}
		if err := yaml.Unmarshal([]byte(read(t, path)), &workflow); err != nil {
			t.Fatal(err)
		}
		for permission, value := range workflow.Permissions {
			if value != "read" {
				t.Errorf("%s gives all jobs %s: %s", path, permission, value)
			}
		}
		for name, job := range workflow.Jobs {
			if job.Permissions["id-token"] != "" && filepath.Base(path)+"/"+name != "release.yaml/release" {
				t.Errorf("%s: job %s may sign", path, name)
			}
		}
	}
}

// The workflow takes the text of a release from its section of CHANGELOG.md.
func TestChangelogHasThePreviousRelease(t *testing.T) {
	tag, _, err := previousRelease(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	changelog := read(t, filepath.Join("..", "..", "CHANGELOG.md"))
	for _, heading := range []string{"\n## [Unreleased]\n", "\n## [" + strings.TrimPrefix(tag, "v") + "] - "} {
		if strings.Count(changelog, heading) != 1 {
			t.Errorf("CHANGELOG.md does not have one section %q", strings.TrimSpace(heading))
		}
	}
}
