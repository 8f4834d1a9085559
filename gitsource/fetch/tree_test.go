package fetch_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/minifleet/minifleet/gitsource/budget"
	"github.com/minifleet/minifleet/gitsource/fetch"
)

func TestFiles(t *testing.T) {
	repo := newRepository(t)
	repo.commit(map[string]string{
		"root.yaml":           "root",
		"README.md":           "no manifest",
		"fleet/a.yml":         "a",
		"fleet/b.json":        "{}",
		"fleet/UPPER.YAML":    "upper",
		"fleet/empty.yaml":    "",
		"fleet/script.sh":     "no manifest",
		"fleet/deep/er/c.yml": "c",
		"fleet-other/d.yaml":  "d",
		"docs/guide.md":       "no manifest",
	})
	url := serve(t, repo, nil).URL
	fleet := map[string]string{"fleet/a.yml": "a", "fleet/b.json": "{}", "fleet/UPPER.YAML": "upper",
		"fleet/empty.yaml": "", "fleet/deep/er/c.yml": "c"}

	cases := map[string]struct {
		path    string
		files   map[string]string
		missing string
	}{
		"root": {path: "", files: map[string]string{"root.yaml": "root", "fleet-other/d.yaml": "d", "fleet/a.yml": "a",
			"fleet/b.json": "{}", "fleet/UPPER.YAML": "upper", "fleet/empty.yaml": "", "fleet/deep/er/c.yml": "c"}},
		"folder":                 {path: "fleet", files: fleet},
		"dot slash":              {path: "./fleet/", files: fleet},
		"leading slash":          {path: "/fleet", files: fleet},
		"folder in a folder":     {path: "fleet/deep", files: map[string]string{"fleet/deep/er/c.yml": "c"}},
		"one file":               {path: "fleet/a.yml", files: map[string]string{"fleet/a.yml": "a"}},
		"no manifest in it":      {path: "docs", files: map[string]string{}},
		"missing":                {path: "absent", files: map[string]string{}, missing: `"absent" is not in the commit`},
		"missing below":          {path: "fleet/absent/x", files: map[string]string{}, missing: `"fleet/absent" is not in`},
		"file that is no folder": {path: "fleet/a.yml/x", files: map[string]string{}, missing: `"fleet/a.yml" is a file`},
		"file of another kind":   {path: "README.md", files: map[string]string{}, missing: `"README.md" is a file`},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			res := mustFetch(t, fetch.Request{URL: url, Path: tc.path})
			if diff := cmp.Diff(tc.files, contents(res)); diff != "" {
				t.Errorf("files (-want +got):\n%s", diff)
			}
			if res.PathMissing != (tc.missing != "") || !strings.Contains(res.PathProblem, tc.missing) {
				t.Errorf("PathMissing %v, problem %q, want %q", res.PathMissing, res.PathProblem, tc.missing)
			}
		})
	}

	for name, path := range map[string]string{"parent": "../x", "parent inside": "fleet/../..", "backslash": `a\b`} {
		t.Run(name, func(t *testing.T) {
			_, err := (&fetch.Fetcher{}).Fetch(t.Context(), fetch.Request{URL: url, Path: path})
			wantReason(t, err, fetch.ReasonInvalidRequest)
		})
	}
}

func TestEmptyTree(t *testing.T) {
	repo := newRepository(t)
	repo.commit(map[string]string{"a.yaml": "a"})
	repo.git("rm", "--quiet", "a.yaml")
	repo.git("commit", "--quiet", "--message=empty")
	res := mustFetch(t, fetch.Request{URL: serve(t, repo, nil).URL})
	if len(res.Files) != 0 || res.PathMissing || res.Unchanged {
		t.Errorf("result %+v, want no files and no problem", res)
	}
}

func TestLinksAndSubmodules(t *testing.T) {
	repo := newRepository(t)
	repo.commit(map[string]string{"shared/a.yaml": "a", "fleet/b.yaml": "b", "LICENSE": "free"})
	for link, to := range map[string]string{
		"fleet/link.yaml":    "../shared/a.yaml",
		"fleet/passwd.yaml":  "/etc/passwd",
		"fleet/folder":       "../shared",
		"fleet/second":       "folder",
		"fleet/LICENSE":      "../LICENSE",
		"fleet/elsewhere":    "/etc",
		"fleet/above":        "../../..",
		"fleet/dangling.txt": "nowhere",
		"linked":             "shared",
	} {
		if err := os.Symlink(to, filepath.Join(repo.dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	commit := repo.commit(nil)
	repo.git("update-index", "--add", "--cacheinfo", "160000,"+commit+",fleet/module")
	repo.git("commit", "--quiet", "--message=submodule")
	url := serve(t, repo, nil).URL

	const link = "! is a symbolic link, which is not followed; commit the file itself"
	res := mustFetch(t, fetch.Request{URL: url, Path: "fleet"})
	want := map[string]string{
		"fleet/b.yaml": "b", "fleet/link.yaml": link, "fleet/passwd.yaml": link, "fleet/folder": link, "fleet/second": link,
		"fleet/module": "! is a submodule, which is not fetched; make a GitSource for its repository",
	}
	if diff := cmp.Diff(want, contents(res)); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
	for path, says := range map[string]string{
		"linked": "symbolic link", "fleet/folder/a.yaml": "symbolic link", "fleet/module": "submodule",
		"fleet/link.yaml": "symbolic link",
	} {
		res := mustFetch(t, fetch.Request{URL: url, Path: path})
		if !res.PathMissing || !strings.Contains(res.PathProblem, says) || len(res.Files) != 0 {
			t.Errorf("path %s: missing %v, problem %q, %d files", path, res.PathMissing, res.PathProblem, len(res.Files))
		}
	}
}

func TestLimits(t *testing.T) {
	repo := newRepository(t)
	files := map[string]string{"big.yaml": strings.Repeat("x", 101), "exact.yaml": strings.Repeat("y", 100)}
	for i := range 20 {
		files[fmt.Sprintf("many/%02d.yaml", i)] = "z"
	}
	repo.commit(files)
	plain := serve(t, repo, nil).URL
	filtering := newRepository(t)
	filtering.commit(files)
	filtering.git("config", "uploadpack.allowFilter", "true")
	filtered := serve(t, filtering, nil).URL

	for name, url := range map[string]string{"plain server": plain, "filtering server": filtered} {
		t.Run("a large file on a "+name, func(t *testing.T) {
			res := mustFetch(t, fetch.Request{URL: url, Budget: budgetOf(t, budget.Limits{MaxFileBytes: 100})})
			got := contents(res)
			if got["big.yaml"] != "! is larger than the limit of 100 bytes for a file; split it" {
				t.Errorf("big.yaml: %q", got["big.yaml"])
			}
			if got["exact.yaml"] != files["exact.yaml"] || len(got) != len(files) {
				t.Errorf("the other files: %v", got)
			}
		})
	}
	for name, limits := range map[string]budget.Limits{
		"files": {MaxFiles: 19}, "total": {MaxTotalBytes: 100}, "pack": {MaxPackBytes: 100},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := (&fetch.Fetcher{}).Fetch(t.Context(), fetch.Request{URL: plain, Budget: budgetOf(t, limits)})
			wantReason(t, err, fetch.ReasonLimitExceeded)
		})
	}
}

// A large file that nobody asked for must not stand in the way, also when small files are stored as
// differences from each other in a pack.
func TestPackedRepository(t *testing.T) {
	repo := newRepository(t)
	files := map[string]string{"data/zeros.bin": strings.Repeat("\x00", maxObject+1)}
	long := strings.Repeat("a line that all of them share, so that they are stored as differences\n", 200)
	for i := range 300 {
		files[fmt.Sprintf("fleet/%03d.yaml", i)] = fmt.Sprintf("%sname: n%d\n%s", long, i, long)
	}
	repo.commit(files)
	repo.git("repack", "-a", "-d", "-f", "--quiet", "--depth=50", "--window=50")
	for name, offsets := range map[string]string{"by offset": "true", "by hash": "false"} {
		t.Run(name, func(t *testing.T) {
			repo.git("config", "repack.useDeltaBaseOffset", offsets)
			res := mustFetch(t, fetch.Request{URL: serve(t, repo, nil).URL, Path: "fleet"})
			delete(files, "data/zeros.bin")
			if diff := cmp.Diff(files, contents(res)); diff != "" {
				t.Errorf("files differ from those committed")
			}
		})
	}
}

const maxObject = 16 << 20
