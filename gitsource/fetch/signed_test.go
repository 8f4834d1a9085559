package fetch_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/minifleet/minifleet/gitsource/fetch"
	"github.com/minifleet/minifleet/gitsource/object"
)

// Objects that could be read in two ways are refused, whether signatures are asked for or not.
func TestAmbiguousObjects(t *testing.T) {
	const who = "Ada <a@b> 1 +0000\n"
	repo := newRepository(t)
	repo.commit(map[string]string{"a.yaml": "a"})
	tree, commit := repo.git("rev-parse", "HEAD^{tree}"), repo.git("rev-parse", "HEAD")
	other := repo.gitInput("", "hash-object", "-t", "tree", "-w", "--stdin")
	cases := map[string]struct{ kind, ref, content, want string }{
		"two trees":     {"commit", "refs/heads/two", "tree " + tree + "\ntree " + other + "\nauthor " + who + "committer " + who + "\nm\n", "author is missing, or not where Git puts it"},
		"a tree later":  {"commit", "refs/heads/later", "tree " + tree + "\nauthor " + who + "committer " + who + "tree " + other + "\n\nm\n", "tree is there twice"},
		"a named twice": {"tag", "refs/tags/named", "object " + commit + "\ntype commit\ntag named\ntag x\ntagger " + who + "\nm\n", "tag is there twice"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			hash := repo.gitInput(c.content, "hash-object", "--literally", "-t", c.kind, "-w", "--stdin")
			repo.write(".git/"+c.ref, hash+"\n") // whatever git update-ref says
			_, err := (&fetch.Fetcher{}).Fetch(t.Context(), fetch.Request{URL: serve(t, repo, nil).URL, Ref: fetch.Ref{Name: c.ref}, WithTags: true})
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

// The objects are those of the repository, byte by byte, and tags come only where they are asked for.
func TestSignedObjects(t *testing.T) {
	repo := newRepository(t)
	commit := repo.commit(map[string]string{"a.yaml": "a"})
	repo.git("tag", "-a", "-m", "inner", "inner")
	repo.git("tag", "-a", "-m", "outer", "outer", "inner")
	raw := func(kind, name string) object.Raw {
		hash := repo.git("rev-parse", name)
		return object.Raw{Hash: hash, Data: []byte(repo.git("cat-file", kind, hash) + "\n")}
	}
	inner, outer := raw("tag", "inner"), raw("tag", "outer")
	server := serve(t, repo, nil)
	for name, c := range map[string]struct {
		req  fetch.Request
		tags []object.Raw
	}{
		"a branch":              {fetch.Request{Ref: fetch.Ref{Branch: "main"}, WithTags: true}, nil},
		"a tag":                 {fetch.Request{Ref: fetch.Ref{Tag: "inner"}, WithTags: true}, []object.Raw{inner}},
		"a tag of a tag":        {fetch.Request{Ref: fetch.Ref{Tag: "outer"}, WithTags: true}, []object.Raw{outer, inner}},
		"a tag, without tags":   {fetch.Request{Ref: fetch.Ref{Tag: "outer"}}, nil},
		"known by another tag":  {fetch.Request{Ref: fetch.Ref{Tag: "outer"}, WithTags: true, Known: commit, KnownTag: inner.Hash}, []object.Raw{outer, inner}},
		"known, without a tag":  {fetch.Request{Ref: fetch.Ref{Tag: "outer"}, WithTags: true, Known: commit}, []object.Raw{outer, inner}},
		"no longer a tag known": {fetch.Request{Ref: fetch.Ref{Branch: "main"}, WithTags: true, Known: commit, KnownTag: inner.Hash}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			c.req.URL = server.URL
			got := mustFetch(t, c.req)
			want := fetch.Signed{Commit: raw("commit", commit), Tags: c.tags}
			if diff := cmp.Diff(want, got.Signed); diff != "" || got.Unchanged || got.Commit != commit {
				t.Errorf("unchanged %v, commit %s: %s", got.Unchanged, got.Commit, diff)
			}
		})
	}
	known := fetch.Request{URL: server.URL, Ref: fetch.Ref{Tag: "outer"}, WithTags: true, Known: commit, KnownTag: outer.Hash}
	if got := mustFetch(t, known); !got.Unchanged || got.Commit != commit {
		t.Errorf("got %+v of what is known", got)
	}
}
