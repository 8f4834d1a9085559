package worktree_test

import (
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-git/go-git/v5/plumbing"

	"github.com/minifleet/minifleet/gitsource/budget"
	"github.com/minifleet/minifleet/gitsource/fetch"
	"github.com/minifleet/minifleet/gitsource/worktree"
)

func git(t *testing.T, dir string, args ...string) string {
	t.Helper()
	cmd := exec.Command("git", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1", "GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@b",
		"GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@b")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("git %s: %v: %s", strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(string(out))
}

func write(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, content := range files {
		at := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(at), 0o750); err != nil {
			t.Fatal(err)
		}
		if target, link := strings.CutPrefix(content, "-> "); link {
			if err := os.Symlink(target, at); err != nil {
				t.Fatal(err)
			}
			continue
		}
		if err := os.WriteFile(at, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// The tree is the one that git itself makes of the folder.
func TestCommit(t *testing.T) {
	cases := map[string]struct{ tracked, files map[string]string }{
		"nothing":    {nil, nil},
		"files":      {nil, map[string]string{"a.yaml": "1", "b/c.yaml": "2", "b.yaml": "3", "b/d/e": ""}},
		"order":      {nil, map[string]string{"a/x": "1", "a.b": "2", "a0": "3"}},
		"a link":     {nil, map[string]string{"a.yaml": "1", "b.yaml": "-> a.yaml", "c": "-> ../elsewhere"}},
		"ignored":    {nil, map[string]string{".gitignore": "/build/\n# no\n*.log\n!keep.log\n", "build/a.yaml": "1", "a.log": "2", "keep.log": "3", "sub/build/a.yaml": "4"}},
		"below":      {nil, map[string]string{"sub/.gitignore": "*.yaml\n", "sub/a.yaml": "1", "sub/deep/b.yaml": "2", "a.yaml": "3"}},
		"tracked":    {map[string]string{"build/a.yaml": "1"}, map[string]string{".gitignore": "build/\n", "build/b.yaml": "2", "build/a.yaml": "changed"}},
		"not shared": {nil, map[string]string{".git/info/exclude": "mine.yaml\n", "mine.yaml": "1", "a.yaml": "2"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			git(t, dir, "init", "--quiet", "--initial-branch=main")
			git(t, dir, "config", "core.fileMode", "false")
			write(t, dir, c.tracked)
			git(t, dir, "add", "--all", "--force")
			tracked := map[string]plumbing.Hash{}
			for line := range strings.Lines(git(t, dir, "ls-files")) {
				tracked[strings.TrimSpace(line)] = plumbing.ZeroHash
			}
			write(t, dir, c.files)
			objects, hash, err := worktree.Commit(os.DirFS(dir), worktree.Options{Tracked: tracked, MaxFileBytes: 1 << 20, MaxFiles: 100})
			if err != nil {
				t.Fatal(err)
			}
			commit, err := objects.EncodedObject(plumbing.CommitObject, hash)
			if err != nil {
				t.Fatal(err)
			}
			r, err := commit.Reader()
			if err != nil {
				t.Fatal(err)
			}
			text, err := io.ReadAll(r)
			if err != nil {
				t.Fatal(err)
			}
			before := git(t, dir, "status", "--porcelain")
			git(t, dir, "add", "--all")
			git(t, dir, "commit", "--quiet", "--allow-empty", "--message=all")
			if want := "tree " + git(t, dir, "rev-parse", "HEAD^{tree}") + "\n"; !strings.HasPrefix(string(text), want) {
				t.Errorf("%swant %sof git status\n%s", text, want, before)
			}
		})
	}
}

// What a GitSource would refuse is refused in the same way.
func TestCommitIsReadAsFetched(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, map[string]string{
		"fleet/a.yaml": "kind: A", "fleet/large.yaml": strings.Repeat("#", 2000), "fleet/also-large.json": strings.Repeat("#", 3000),
		"fleet/link.yaml": "-> a.yaml", "fleet/text.txt": "no manifest", "other/b.yaml": "kind: B", "fleet/sub/.git": "gitdir: elsewhere", "fleet/sub/c.yaml": "kind: C",
	})
	objects, hash, err := worktree.Commit(os.DirFS(dir), worktree.Options{MaxFileBytes: 1 << 20, MaxFiles: 100})
	if err != nil {
		t.Fatal(err)
	}
	got, err := fetch.Local(context.Background(), objects, hash, "", fetch.Request{Path: "fleet", Budget: small(t)})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{
		"fleet/a.yaml": "", "fleet/large.yaml": "is larger than the limit", "fleet/also-large.json": "is larger than the limit",
		"fleet/link.yaml": "is a symbolic link", "fleet/sub": "is a submodule",
	}
	for _, f := range got.Files {
		problem, wanted := want[f.Path]
		if !wanted || problem == "" && f.Problem != "" || !strings.HasPrefix(f.Problem, problem) {
			t.Errorf("%s: %q", f.Path, f.Problem)
		}
		delete(want, f.Path)
	}
	if len(want) > 0 {
		t.Errorf("missing: %v", want)
	}
}

func TestTooManyFiles(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, map[string]string{"a": "", "b": "", "c": ""})
	if _, _, err := worktree.Commit(os.DirFS(dir), worktree.Options{MaxFileBytes: 1, MaxFiles: 2}); err == nil || !strings.Contains(err.Error(), "more than 2 files") {
		t.Error(err)
	}
}

func small(t *testing.T) *budget.Budget {
	t.Helper()
	return budget.New(t.Context(), budget.Limits{MaxFileBytes: 1000}, nil)
}
