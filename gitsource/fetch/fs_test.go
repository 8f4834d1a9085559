package fetch

import (
	"bytes"
	"errors"
	"io/fs"
	"testing"
	"testing/fstest"

	"github.com/go-git/go-git/v5/plumbing/format/packfile"

	"github.com/minifleet/minifleet/gitsource/budget"
	"github.com/minifleet/minifleet/gitsource/worktree"
)

// walkerOf walks a commit of files.
func walkerOf(t *testing.T, files map[string]string) *walker {
	t.Helper()
	folder := fstest.MapFS{}
	for name, text := range files {
		folder[name] = &fstest.MapFile{Data: []byte(text), Mode: 0o644}
	}
	objects, hash, err := worktree.Commit(folder, worktree.Options{MaxFileBytes: 1 << 20, MaxFiles: len(files)})
	if err != nil {
		t.Fatal(err)
	}
	spend := budget.New(t.Context(), budget.Limits{}, nil)
	sent, err := reachable(t.Context(), objects, hash, spend)
	if err != nil {
		t.Fatal(err)
	}
	var data bytes.Buffer
	if _, err := packfile.NewEncoder(&data, objects, false).Encode(sent, 0); err != nil {
		t.Fatal(err)
	}
	p, err := openPack(&data, spend)
	if err != nil {
		t.Fatal(err)
	}
	commit, err := findCommit(p, hash)
	if err != nil {
		t.Fatal(err)
	}
	return newWalker(p, commit.tree, spend)
}

// What a commit holds is a file system as the library wants one.
func TestCommitFS(t *testing.T) {
	w := walkerOf(t, map[string]string{"a.yaml": "kind: A", "b/c.txt": "text", "b/d/e.yaml": ""})
	if err := fstest.TestFS(commitFS{w}, "a.yaml", "b/c.txt", "b/d/e.yaml"); err != nil {
		t.Error(err)
	}
	for _, name := range []string{"x", "a.yaml/b", "b/x/y"} {
		if _, err := fs.Stat(commitFS{w}, name); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := (commitFS{w}).ReadLink("a.yaml"); !errors.Is(err, errors.ErrUnsupported) {
		t.Error(err)
	}
}
