package main

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/minifleet/minifleet/gitsource"
	"github.com/minifleet/minifleet/gitsource/parse"
)

func TestManifestsHaveNoProblems(t *testing.T) {
	paths, err := fs.Glob(manifests, "fleet/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var files []gitsource.File
	for _, path := range paths {
		data, err := manifests.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, gitsource.File{Path: path, Data: data})
	}
	result := parse.Tree(files, parse.Options{Namespace: fleetNamespace})
	if diff := cmp.Diff([]parse.Problem(nil), result.Problems); diff != "" {
		t.Errorf("problems (-want +got):\n%s", diff)
	}
}

func TestManifestNames(t *testing.T) {
	names, err := manifestNames()
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"elastic-ensemble", "hpcg", "lammps-reaxff", "osu-allreduce", "parameter-sweep"}
	if diff := cmp.Diff(want, names); diff != "" {
		t.Errorf("names (-want +got):\n%s", diff)
	}
}

// A clone is pushed from by people whose Git has no configuration at all.
func TestCloneCommitsAndPushesWithoutConfiguration(t *testing.T) {
	dir := t.TempDir()
	origin, clone := filepath.Join(dir, "origin.git"), filepath.Join(dir, "clone")
	run := func(dir string, args ...string) {
		t.Helper()
		command := exec.Command("git", args...)
		command.Dir = dir
		command.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=/nonexistent", "GIT_CONFIG_NOSYSTEM=1"}
		if output, err := command.CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v: %s", args, err, output)
		}
	}
	run(dir, "init", "--quiet", "--bare", "--initial-branch=main", origin)
	if err := makeClone(t.Context(), clone, origin); err != nil {
		t.Fatal(err)
	}
	if err := pushClone(t.Context(), clone); err != nil {
		t.Fatal(err)
	}
	run(clone, "rm", "--quiet", "hpcg.yaml")
	run(clone, "commit", "--quiet", "--message=Drop HPCG")
	run(clone, "push")
	run(origin, "diff", "--exit-code", "main^..main", "--", "lammps-reaxff.yaml")
}
