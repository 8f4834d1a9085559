package fetch_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/minifleet/minifleet/gitsource/budget"
	"github.com/minifleet/minifleet/gitsource/fetch"
)

func paths(res *fetch.Result) []string {
	out := []string{}
	for _, f := range res.Files {
		out = append(out, f.Path)
	}
	return out
}

func TestSeveralPaths(t *testing.T) {
	repo := newRepository(t)
	repo.commit(map[string]string{"a/1.yaml": "1", "a/b/2.yaml": "2", "a-b/3.yaml": "3", "c/4.yaml": "4", "5.yaml": "5", "c/README.md": "text"})
	url := serve(t, repo, nil).URL
	for name, tc := range map[string]struct {
		paths   []string
		files   []string
		missing []string
	}{
		"two":                       {paths: []string{"c", "a/b"}, files: []string{"a/b/2.yaml", "c/4.yaml"}},
		"one within the other":      {paths: []string{"a/b", "a", "a/b/2.yaml"}, files: []string{"a/1.yaml", "a/b/2.yaml"}},
		"twice":                     {paths: []string{"c", "./c/", "/c"}, files: []string{"c/4.yaml"}},
		"names that begin the same": {paths: []string{"a", "a-b"}, files: []string{"a-b/3.yaml", "a/1.yaml", "a/b/2.yaml"}},
		"a file":                    {paths: []string{"5.yaml", "c"}, files: []string{"5.yaml", "c/4.yaml"}},
		"the root":                  {paths: []string{"c", "."}, files: []string{"5.yaml", "a-b/3.yaml", "a/1.yaml", "a/b/2.yaml", "c/4.yaml"}},
		"one is missing":            {paths: []string{"c", "d"}, files: []string{"c/4.yaml"}, missing: []string{`"d" is not in the commit`}},
		"one is missing in another": {paths: []string{"c", "c/d"}, files: []string{"c/4.yaml"}, missing: []string{`"c/d" is not in the commit`}},
		"all are missing":           {paths: []string{"x", "5.yaml/y"}, files: []string{}, missing: []string{`"x" is not`, `"5.yaml" is a file`}},
		"many are missing":          {paths: strings.Split("0123456789", ""), files: []string{}, missing: []string{`"0" is not`, "and 5 more"}},
		"one is no manifest":        {paths: []string{"c/README.md", "c"}, files: []string{"c/4.yaml"}, missing: []string{`"c/README.md" is a file`}},
	} {
		t.Run(name, func(t *testing.T) {
			res := mustFetch(t, fetch.Request{URL: url, Paths: tc.paths})
			if diff := cmp.Diff(tc.files, paths(res)); diff != "" {
				t.Errorf("files (-want +got):\n%s", diff)
			}
			if res.PathMissing != (len(tc.missing) > 0) {
				t.Errorf("missing %v: %q", res.PathMissing, res.PathProblem)
			}
			for _, says := range tc.missing {
				if !strings.Contains(res.PathProblem, says) {
					t.Errorf("%q does not say %q", res.PathProblem, says)
				}
			}
		})
	}
	for name, req := range map[string]fetch.Request{
		"path and paths": {Path: "a", Paths: []string{"c"}}, "one leaves the repository": {Paths: []string{"a", "../c"}},
		"too many": {Paths: strings.Split(strings.Repeat("a,", 200), ",")},
	} {
		t.Run(name, func(t *testing.T) {
			req.URL = url
			_, err := (&fetch.Fetcher{}).Fetch(t.Context(), req)
			wantReason(t, err, fetch.ReasonInvalidRequest)
		})
	}
}

func TestIgnore(t *testing.T) {
	repo := newRepository(t)
	repo.commit(map[string]string{
		".sourceignore": "# old ones\nold/\n*.json\n!keep.json\n/fleet/link.yaml\n", "a.yaml": "", "b.json": "", "keep.json": "", "old/c.yaml": "",
		"fleet/.sourceignore": "/d.yaml\n!old/\n", "fleet/d.yaml": "", "fleet/e.yaml": "", "fleet/deep/d.yaml": "", "fleet/old/f.yaml": "",
		"big.yaml": strings.Repeat("x", 2000),
	})
	if err := os.Symlink("../a.yaml", filepath.Join(repo.dir, "fleet/link.yaml")); err != nil {
		t.Fatal(err)
	}
	repo.commit(nil)
	url := serve(t, repo, nil).URL
	for name, tc := range map[string]struct {
		req  fetch.Request
		want []string
	}{
		"files of rules":             {fetch.Request{}, []string{"a.yaml", "big.yaml", "fleet/deep/d.yaml", "fleet/e.yaml", "fleet/old/f.yaml", "keep.json"}},
		"those above a path count":   {fetch.Request{Path: "fleet"}, []string{"fleet/deep/d.yaml", "fleet/e.yaml", "fleet/old/f.yaml"}},
		"rules of the source":        {fetch.Request{Ignore: "/big.yaml\nfleet/**/d.yaml"}, []string{"a.yaml", "fleet/e.yaml", "fleet/old/f.yaml", "keep.json"}},
		"that take back":             {fetch.Request{Ignore: "!old/\n!*.json\nfleet"}, []string{"a.yaml", "b.json", "big.yaml", "keep.json", "old/c.yaml"}},
		"a path that is ignored":     {fetch.Request{Path: "old"}, []string{}},
		"below one":                  {fetch.Request{Path: "old/c.yaml"}, []string{}},
		"a file that is ignored":     {fetch.Request{Paths: []string{"b.json", "a.yaml"}}, []string{"a.yaml"}},
		"everything":                 {fetch.Request{Ignore: "*"}, []string{}},
		"everything, and taken back": {fetch.Request{Ignore: "*\n!a.yaml"}, []string{"a.yaml"}},
	} {
		t.Run(name, func(t *testing.T) {
			tc.req.URL, tc.req.Budget = url, budgetOf(t, budget.Limits{MaxFileBytes: 1000})
			res := mustFetch(t, tc.req)
			if diff := cmp.Diff(tc.want, paths(res)); diff != "" || res.PathMissing {
				t.Errorf("missing %q, files (-want +got):\n%s", res.PathProblem, diff)
			}
			for _, f := range res.Files {
				if f.Problem != "" && f.Path != "big.yaml" {
					t.Errorf("%s %s", f.Path, f.Problem)
				}
			}
		})
	}
}

// Where rules cannot be read, what they hide must not come to light.
func TestUnreadableRules(t *testing.T) {
	for name, tc := range map[string]struct {
		tree   func(p *packFile) objectID
		req    fetch.Request
		reason string
		says   string
	}{
		"a link": {
			tree:   func(p *packFile) objectID { return p.tree(line{symlink, ".sourceignore", p.blob("rules")}) },
			reason: fetch.ReasonFetchFailed, says: `".sourceignore" is a link`,
		},
		"a large file": {
			tree: func(p *packFile) objectID {
				return p.tree(line{dir, "a", p.tree(line{file, ".sourceignore", p.blob(strings.Repeat("a\n", 40_000))})})
			},
			reason: fetch.ReasonLimitExceeded, says: `"a/.sourceignore" is larger than 65536 bytes`,
		},
		"a file that was not sent": {
			tree:   func(p *packFile) objectID { return p.tree(line{file, ".sourceignore", objectID{1}}) },
			reason: fetch.ReasonLimitExceeded, says: `".sourceignore" is larger`,
		},
		"rules for many paths": {
			tree: func(p *packFile) objectID {
				rules := p.blob(strings.Repeat("*a*b*c*d*e*f*g*h*i*j*\n", 2900))
				return p.tree(append([]line{{file, ".sourceignore", rules}}, lines(15_000, strings.Repeat("x", 200)+".yaml", file, p.blob(""))...)...)
			},
			reason: fetch.ReasonLimitExceeded, says: "comparing paths with ignore rules takes more than 1,000,000 steps",
		},
		"rules of many folders": {
			tree: func(p *packFile) objectID {
				rules := p.blob(strings.Repeat("/x\n", 20_000))
				id := p.tree(line{file, ".sourceignore", rules}, line{file, "a.yaml", p.blob("")})
				for range 20 {
					id = p.tree(line{file, ".sourceignore", rules}, line{dir, "a", id}, line{dir, "b", id})
				}
				return id
			},
			reason: fetch.ReasonLimitExceeded, says: "comparing paths",
		},
		"different rules in many folders": {
			tree: func(p *packFile) objectID {
				var all []line
				for i := range 60 {
					rules := p.blob(fmt.Sprintf("%d\n%s", i, strings.Repeat("[a]", 20_000)))
					all = append(all, line{dir, fmt.Sprintf("%03d", i), p.tree(line{file, ".sourceignore", rules})})
				}
				return p.tree(all...)
			},
			reason: fetch.ReasonLimitExceeded, says: "comparing paths",
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPackFile()
			tc.req.URL, tc.req.Budget = p.commit(tc.tree(p)).serve(t), budgetOf(t, budget.Limits{MaxComparisons: 1_000_000})
			_, err := (&fetch.Fetcher{}).Fetch(t.Context(), tc.req)
			if message := wantReason(t, err, tc.reason); !strings.Contains(message, tc.says) {
				t.Errorf("%q does not say %q", message, tc.says)
			}
		})
	}
	t.Run("in an ignored folder", func(t *testing.T) {
		p := newPackFile()
		tree := p.tree(line{dir, "a", p.tree(line{symlink, ".sourceignore", p.blob("rules")})}, line{file, "b.yaml", p.blob("b")})
		res := mustFetch(t, fetch.Request{URL: p.commit(tree).serve(t), Ignore: "a/"})
		if got := paths(res); !slices.Equal(got, []string{"b.yaml"}) {
			t.Errorf("files %v", got)
		}
	})
	t.Run("a folder of that name", func(t *testing.T) {
		p := newPackFile()
		tree := p.tree(line{dir, ".sourceignore", p.tree(line{file, "b.yaml", p.blob("b")})})
		res := mustFetch(t, fetch.Request{URL: p.commit(tree).serve(t)})
		if got := paths(res); !slices.Equal(got, []string{".sourceignore/b.yaml"}) {
			t.Errorf("files %v", got)
		}
	})
}
