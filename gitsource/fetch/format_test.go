package fetch_test

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/minifleet/minifleet/gitsource/fetch"
)

func TestSHA256RepositoriesAreRefused(t *testing.T) {
	full := &repository{tb: t, dir: t.TempDir()}
	if out, err := exec.Command("git", "init", "--quiet", "--initial-branch=main", "--object-format=sha256", full.dir).CombinedOutput(); err != nil {
		t.Skipf("this git knows no SHA-256: %v: %s", err, out)
	}
	commit := full.commit(map[string]string{"a.yaml": "a"})
	for name, tc := range map[string]struct {
		ref fetch.Ref
	}{
		"default branch": {fetch.Ref{}},
		"branch":         {fetch.Ref{Branch: "main"}},
		"semver":         {fetch.Ref{SemVer: ">=1.0.0"}},
		"commit":         {fetch.Ref{Commit: commit[:40]}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := (&fetch.Fetcher{}).Fetch(t.Context(), fetch.Request{URL: serve(t, full, nil).URL, Ref: tc.ref})
			if message := wantReason(t, err, fetch.ReasonFetchFailed); !strings.Contains(message, "sha256") {
				t.Errorf("message %q does not name the format", message)
			}
		})
	}
}

func TestLFSPointers(t *testing.T) {
	const pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24d17e2393\nsize 12345\n"
	repo := newRepository(t)
	repo.commit(map[string]string{
		"pointer.yaml": pointer,
		"old.yaml":     strings.Replace(pointer, "git-lfs", "hawser", 1),
		"extended.yml": strings.Replace(pointer, "oid", "ext-0-foo sha256:1\noid", 1),
		"about.yaml":   "# " + pointer,
		"part.yaml":    "version https://git-lfs.github.com/spec/v1\n",
		"long.yaml":    pointer + strings.Repeat("#", 1024),
		"pointer.bin":  pointer,
	})
	got := map[string]bool{}
	for _, f := range mustFetch(t, fetch.Request{URL: serve(t, repo, nil).URL}).Files {
		got[f.Path] = strings.Contains(f.Problem, "Git LFS")
		if got[f.Path] && f.Data != nil {
			t.Errorf("%s has data", f.Path)
		}
	}
	for path, want := range map[string]bool{
		"pointer.yaml": true, "old.yaml": true, "extended.yml": true, "about.yaml": false, "part.yaml": false, "long.yaml": false,
	} {
		if is, ok := got[path]; !ok || is != want {
			t.Errorf("%s: read %v, a pointer %v, want %v", path, ok, is, want)
		}
	}
	if len(got) != 6 {
		t.Errorf("files are %v", got)
	}
}
