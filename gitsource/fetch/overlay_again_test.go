package fetch_test

import (
	"testing"

	"github.com/minifleet/minifleet/gitsource/fetch"
)

// What is received of a later commit is only what is new; an overlay has all of its files nevertheless, also those that are
// no manifests.
func TestOverlaysOfLaterCommits(t *testing.T) {
	repo := newRepository(t)
	repo.commit(map[string]string{
		"site/kustomization.yaml": "resources: [a.yaml]\nconfigMapGenerator: [{name: c, files: [in.lj]}]", "site/a.yaml": "kind: A", "site/in.lj": "units lj", "other.yaml": "1",
	})
	url := serve(t, repo, nil).URL
	var fetcher fetch.Fetcher
	for _, text := range []string{"2", "3", "4"} {
		repo.commit(map[string]string{"other.yaml": text})
		res, err := fetcher.Fetch(t.Context(), fetch.Request{URL: url, Paths: []string{"site"}})
		if err != nil {
			t.Fatal(err)
		}
		if c := res.Overlays[0]; len(c.Problems) > 0 || string(c.Files["site/in.lj"]) != "units lj" || len(c.Files) != 3 {
			t.Errorf("%v, %v", c.Files, c.Problems)
		}
	}
}
