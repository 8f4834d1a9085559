package fetch_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/minifleet/minifleet/gitsource/fetch"
)

func TestAbout(t *testing.T) {
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	const when = " 1767225600 +0100"
	cases := map[string]struct {
		author, message string
		want            fetch.About
	}{
		"usual":               {"Ada Lovelace <ada@example.org>" + when, "Run more\n\nWhy.\n", fetch.About{Subject: "Run more", Author: "Ada Lovelace", Time: at}},
		"no line end":         {"Ada <a@b>" + when, "Run more", fetch.About{Subject: "Run more", Author: "Ada", Time: at}},
		"empty lines first":   {"Ada <a@b>" + when, "\n\nRun more\n", fetch.About{Subject: "Run more", Author: "Ada", Time: at}},
		"no message":          {"Ada <a@b>" + when, "", fetch.About{Author: "Ada", Time: at}},
		"no name":             {"<a@b>" + when, "m", fetch.About{Subject: "m", Time: at}},
		"no time":             {"Ada <a@b>", "m", fetch.About{Subject: "m", Author: "Ada"}},
		"no address":          {"Ada", "m", fetch.About{Subject: "m"}},
		"angles turned round": {"Ada >a@b<" + when, "m", fetch.About{Subject: "m"}},
		"time out of range":   {"Ada <a@b> 9223372036854775807 +0000", "m", fetch.About{Subject: "m", Author: "Ada"}},
		"time before 1970":    {"Ada <a@b> -5 +0000", "m", fetch.About{Subject: "m", Author: "Ada"}},
		"long":                {strings.Repeat("A", 5000) + " <a@b>" + when, strings.Repeat("m", 5000), fetch.About{Subject: strings.Repeat("m", 1024), Author: strings.Repeat("A", 1024), Time: at}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			repo := newRepository(t)
			repo.commit(map[string]string{"a.yaml": "a"})
			object := "tree " + repo.git("rev-parse", "HEAD^{tree}") + "\nauthor " + c.author + "\ncommitter Bob <b@c> 1 +0000\n\n" + c.message
			repo.git("update-ref", "refs/heads/main", repo.gitInput(object, "hash-object", "--literally", "-t", "commit", "-w", "--stdin"))
			res := mustFetch(t, fetch.Request{URL: serve(t, repo, nil).URL})
			if diff := cmp.Diff(c.want, res.About); diff != "" {
				t.Error(diff)
			}
			if len(res.Files) != 1 {
				t.Errorf("got %d files", len(res.Files))
			}
		})
	}
}
