package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
)

// previousFile names the previous release: its tag, and the hash of its commit, since a clone may lack tags.
const previousFile = "hack/release/previous"

var fullHash = regexp.MustCompile(`^[0-9a-f]{40}$`)

// previousRelease reads that file.
func previousRelease(root string) (tag, commit string, err error) {
	path := filepath.Join(root, previousFile)
	content, err := os.ReadFile(path)
	if err != nil {
		return "", "", err
	}
	fields := strings.Fields(string(content))
	if len(fields) != 2 || !semantic.MatchString(fields[0]) || !fullHash.MatchString(fields[1]) {
		return "", "", fmt.Errorf("%s: want a tag and the full hash of its commit, as in `v1.2.3 0123…`", path)
	}
	return fields[0], fields[1], nil
}

// inHistory says whether a repository has a commit.
func inHistory(root, commit string) bool {
	cmd := exec.Command("git", "cat-file", "-e", commit+"^{commit}")
	cmd.Dir = root
	return cmd.Run() == nil
}

// filesAt returns the files in a directory of a commit, by name.
func filesAt(root, commit, directory string) (map[string][]byte, error) {
	names, err := output(exec.Command("git", "ls-tree", "--name-only", commit+":"+directory), root)
	if err != nil {
		return nil, err
	}
	files := map[string][]byte{}
	for name := range strings.FieldsSeq(string(names)) {
		body, err := output(exec.Command("git", "show", commit+":"+directory+"/"+name), root)
		if err != nil {
			return nil, err
		}
		files[name] = body
	}
	return files, nil
}
