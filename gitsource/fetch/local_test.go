package fetch_test

import (
	"strings"
	"testing"

	"github.com/go-git/go-git/v5"
	"github.com/go-git/go-git/v5/plumbing"
	"github.com/google/go-cmp/cmp"

	"github.com/minifleet/minifleet/gitsource/budget"
	"github.com/minifleet/minifleet/gitsource/fetch"
)

// A commit is read on this machine as from a server.
func TestLocalIsFetch(t *testing.T) {
	r := newRepository(t)
	r.commit(map[string]string{"old.yaml": "kind: Old"})
	r.git("rm", "--quiet", "old.yaml")
	commit := r.commit(map[string]string{
		"fleet/a.yaml": "kind: A", "fleet/b/c.yml": "kind: B", "fleet/same.yaml": "kind: A", "fleet/large.yaml": strings.Repeat("#", 1001), "other.json": "{}", "readme.md": "text",
	})
	r.git("gc", "--quiet") // so that it is in a pack
	s := serve(t, r, nil)
	clone, err := git.PlainOpen(r.dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"", "fleet", "fleet/a.yaml", "absent", "readme.md"} {
		request := func() fetch.Request {
			return fetch.Request{URL: s.URL, Path: path, Budget: budget.New(t.Context(), budget.Limits{MaxFileBytes: 1000}, nil), Ref: fetch.Ref{Branch: "main"}}
		}
		want, err := new(fetch.Fetcher).Fetch(t.Context(), request())
		if err != nil {
			t.Fatal(err)
		}
		got, err := fetch.Local(t.Context(), clone.Storer, plumbing.NewHash(commit), "main", request())
		if err != nil {
			t.Fatal(err)
		}
		got.RefName = want.RefName // which is not asked for
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: %s", path, diff)
		}
	}
	if _, err := fetch.Local(t.Context(), clone.Storer, plumbing.NewHash(strings.Repeat("1", 40)), "", fetch.Request{}); err == nil || !strings.Contains(err.Error(), "has no object 1111") {
		t.Error(err)
	}
}
