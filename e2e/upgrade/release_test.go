package upgrade

import (
	"bytes"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/minifleet/minifleet/hack/lab"
)

// release is one version of MiniFleet: the tree with its manifests, and its program.
type release struct {
	name, tree, binary string
}

// current is the version under test, as `make build` has built it.
func current(t *testing.T) *release {
	t.Helper()
	root := repositoryRoot(t)
	binary := filepath.Join(root, "bin", "minifleet")
	if _, err := os.Stat(binary); err != nil {
		t.Fatalf("%v: build it with `make build`", err)
	}
	readAll(t, filepath.Join(root, "config"))
	return &release{name: "current", tree: root, binary: binary}
}

// readAll reads the files that kubectl applies, so that `go test` runs this again when one of them has changed.
func readAll(t *testing.T, directory string) {
	t.Helper()
	err := filepath.WalkDir(directory, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			_, err = os.ReadFile(path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// previous builds the release that hack/release/previous names, from this repository's history.
func previous(t *testing.T) *release {
	t.Helper()
	root := repositoryRoot(t)
	named, err := os.ReadFile(filepath.Join(root, "hack", "release", "previous"))
	if err != nil {
		t.Fatal(err)
	}
	tag, commit, found := strings.Cut(strings.TrimSpace(string(named)), " ")
	if !found || len(commit) != 40 {
		t.Fatalf("hack/release/previous: %q is not a tag and the full hash of its commit", named)
	}
	if out, err := exec.Command("git", "-C", root, "cat-file", "-e", commit+"^{commit}").CombinedOutput(); err != nil {
		t.Skipf("NOT TESTED, the upgrade from %s: its commit %s is not in this repository (a shallow clone? `git fetch --unshallow`): %v %s", tag, commit, err, out)
	}
	r := &release{name: tag, tree: filepath.Join(t.TempDir(), tag)}
	r.binary = filepath.Join(r.tree, "bin", "minifleet")
	extract(t, root, commit, r.tree)
	// With the flags of `make build`, so that packages which have not changed since are compiled already.
	build := exec.Command("go", "build", "-trimpath", "-buildvcs=false",
		"-ldflags", "-s -w -X github.com/minifleet/minifleet/internal/version.version="+tag, "-o", r.binary, ".")
	build.Dir = r.tree
	build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("building %s: %v\n%s", tag, err, out)
	}
	return r
}

// extract writes the files of a commit below a directory.
func extract(t *testing.T, repository, commit, directory string) {
	t.Helper()
	if err := os.MkdirAll(directory, 0o755); err != nil {
		t.Fatal(err)
	}
	files, err := exec.Command("git", "-C", repository, "archive", commit).Output()
	if err != nil {
		t.Fatalf("git archive: %v", err)
	}
	tar := exec.Command("tar", "-x", "-C", directory)
	tar.Stdin = bytes.NewReader(files)
	if out, err := tar.CombinedOutput(); err != nil {
		t.Fatalf("tar: %v %s", err, out)
	}
}

func repositoryRoot(t *testing.T) string {
	t.Helper()
	root, err := lab.RepositoryRoot()
	if err != nil {
		t.Fatal(err)
	}
	return root
}
