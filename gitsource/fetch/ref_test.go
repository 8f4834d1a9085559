package fetch_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/minifleet/minifleet/gitsource/fetch"
)

// mustFetch fetches or ends the test.
func mustFetch(t *testing.T, req fetch.Request) *fetch.Result {
	t.Helper()
	res, err := (&fetch.Fetcher{}).Fetch(t.Context(), req)
	if err != nil {
		t.Fatalf("Fetch: %v", err)
	}
	return res
}

// wantReason ends the test unless err is an *Error with reason, and returns its message.
func wantReason(t *testing.T, err error, reason string) string {
	t.Helper()
	var failure *fetch.Error
	if !errors.As(err, &failure) {
		t.Fatalf("error %v (%T), want a *fetch.Error with reason %s", err, err, reason)
	}
	if failure.Reason != reason {
		t.Fatalf("reason %s (%s), want %s", failure.Reason, failure.Message, reason)
	}
	return failure.Message
}

// contents maps path to content, or to "! PROBLEM".
func contents(res *fetch.Result) map[string]string {
	m := map[string]string{}
	for _, f := range res.Files {
		m[f.Path] = string(f.Data)
		if f.Problem != "" {
			m[f.Path] = "! " + f.Problem
		}
	}
	return m
}

func TestRefs(t *testing.T) {
	repo := newRepository(t)
	first := repo.commit(map[string]string{"a.yaml": "first"})
	repo.git("tag", "v1.2.0")
	second := repo.commit(map[string]string{"a.yaml": "second"})
	repo.git("tag", "--annotate", "--message=two", "v1.10.0")
	repo.git("tag", "--annotate", "--message=nested", "nested", "v1.10.0")
	third := repo.commit(map[string]string{"a.yaml": "third"})
	repo.git("tag", "v2.0.0-rc.1")
	repo.git("checkout", "--quiet", "-b", "feature/x", first)
	feature := repo.commit(map[string]string{"a.yaml": "feature"})
	repo.git("checkout", "--quiet", "main")
	srv := serve(t, repo, nil)

	cases := map[string]struct {
		ref                        fetch.Ref
		commit, revision, name, is string
	}{
		"default branch":    {fetch.Ref{}, third, "main@" + third[:7], "refs/heads/main", "third"},
		"branch":            {fetch.Ref{Branch: "main"}, third, "main@" + third[:7], "refs/heads/main", "third"},
		"branch with slash": {fetch.Ref{Branch: "feature/x"}, feature, "feature/x@" + feature[:7], "refs/heads/feature/x", "feature"},
		"tag":               {fetch.Ref{Tag: "v1.2.0"}, first, "v1.2.0@" + first[:7], "refs/tags/v1.2.0", "first"},
		"annotated tag":     {fetch.Ref{Tag: "v1.10.0"}, second, "v1.10.0@" + second[:7], "refs/tags/v1.10.0", "second"},
		"tag of a tag":      {fetch.Ref{Tag: "nested"}, second, "nested@" + second[:7], "refs/tags/nested", "second"},
		"highest version":   {fetch.Ref{SemVer: ">=1.0.0"}, second, "v1.10.0@" + second[:7], "refs/tags/v1.10.0", "second"},
		"version range":     {fetch.Ref{SemVer: "~1.2"}, first, "v1.2.0@" + first[:7], "refs/tags/v1.2.0", "first"},
		"pre-release":       {fetch.Ref{SemVer: ">=1.0.0-0"}, third, "v2.0.0-rc.1@" + third[:7], "refs/tags/v2.0.0-rc.1", "third"},
		"listed commit":     {fetch.Ref{Commit: third}, third, third[:7], "", "third"},
		"commit in history": {fetch.Ref{Commit: second}, second, second[:7], "", "second"},
		"upper case commit": {fetch.Ref{Commit: strings.ToUpper(first)}, first, first[:7], "", "first"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			res := mustFetch(t, fetch.Request{URL: srv.URL, Ref: tc.ref})
			got := []string{res.Commit, res.Revision, res.RefName, contents(res)["a.yaml"]}
			want := []string{tc.commit, tc.revision, tc.name, tc.is}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("commit, revision, ref name, content (-want +got):\n%s", diff)
			}
		})
	}
}

func TestDetachedHead(t *testing.T) {
	repo := newRepository(t)
	first := repo.commit(map[string]string{"a.yaml": "first"})
	repo.commit(map[string]string{"a.yaml": "second"})
	repo.git("checkout", "--quiet", first)
	res := mustFetch(t, fetch.Request{URL: serve(t, repo, nil).URL})
	if res.Revision != "HEAD@"+first[:7] || res.RefName != "HEAD" {
		t.Errorf("revision %s of ref %s, want HEAD@%s", res.Revision, res.RefName, first[:7])
	}
}

func TestRefErrors(t *testing.T) {
	repo := newRepository(t)
	repo.commit(map[string]string{"a.yaml": "first"})
	repo.git("tag", "v1.0.0")
	srv := serve(t, repo, nil)
	absent := strings.Repeat("1", 40)

	cases := map[string]struct {
		ref    fetch.Ref
		reason string
		says   string
	}{
		"branch":             {fetch.Ref{Branch: "deleted"}, fetch.ReasonRefNotFound, `no branch "deleted"`},
		"tag":                {fetch.Ref{Tag: "deleted"}, fetch.ReasonRefNotFound, `no tag "deleted"`},
		"version":            {fetch.Ref{SemVer: ">=2"}, fetch.ReasonRefNotFound, `range ">=2"`},
		"commit":             {fetch.Ref{Commit: absent}, fetch.ReasonRefNotFound, absent},
		"branch is no tag":   {fetch.Ref{Tag: "main"}, fetch.ReasonRefNotFound, `no tag "main"`},
		"two at once":        {fetch.Ref{Branch: "main", Tag: "v1.0.0"}, fetch.ReasonInvalidRequest, "keep one"},
		"short commit":       {fetch.Ref{Commit: "1a2b3c4"}, fetch.ReasonInvalidRequest, "40 hexadecimal"},
		"commit is a branch": {fetch.Ref{Commit: "main"}, fetch.ReasonInvalidRequest, "40 hexadecimal"},
		"bad range":          {fetch.Ref{SemVer: "newest"}, fetch.ReasonInvalidRequest, "not a version range"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			_, err := (&fetch.Fetcher{}).Fetch(t.Context(), fetch.Request{URL: srv.URL, Ref: tc.ref})
			if message := wantReason(t, err, tc.reason); !strings.Contains(message, tc.says) {
				t.Errorf("message %q does not say %q", message, tc.says)
			}
		})
	}
}

func TestEmptyRepository(t *testing.T) {
	srv := serve(t, newRepository(t), nil)
	_, err := (&fetch.Fetcher{}).Fetch(t.Context(), fetch.Request{URL: srv.URL})
	wantReason(t, err, fetch.ReasonRefNotFound)
}

// A server may refuse a commit that no ref points to; then it is found in the history of the branches.
func TestCommitFromServerThatSendsOnlyTips(t *testing.T) {
	repo := newRepository(t)
	first := repo.commit(map[string]string{"a.yaml": "first"})
	repo.commit(map[string]string{"a.yaml": "second"})
	refused := 0
	srv := serve(t, repo, func(w http.ResponseWriter, req *http.Request) bool {
		if req.Method != http.MethodPost || refused > 0 {
			return false
		}
		refused++
		w.Header().Set("Content-Type", "application/x-git-upload-pack-result")
		line := "ERR upload-pack: not our ref " + first
		_, _ = w.Write([]byte(pktLine(line)))
		return true
	})
	res := mustFetch(t, fetch.Request{URL: srv.URL, Ref: fetch.Ref{Commit: first}})
	if got := contents(res)["a.yaml"]; got != "first" || refused != 1 {
		t.Errorf("content %q after %d refusals, want the first commit's after 1", got, refused)
	}
}

func TestUnchangedSendsOneRequest(t *testing.T) {
	repo := newRepository(t)
	commit := repo.commit(map[string]string{"a.yaml": "a"})
	repo.git("tag", "--annotate", "--message=one", "v1.0.0")
	srv := serve(t, repo, nil)
	refs := map[string]fetch.Ref{
		"head": {}, "branch": {Branch: "main"}, "annotated tag": {Tag: "v1.0.0"}, "semver": {SemVer: "1"},
	}
	for name, ref := range refs {
		t.Run(name, func(t *testing.T) {
			srv.forget()
			res := mustFetch(t, fetch.Request{URL: srv.URL, Ref: ref, Known: commit})
			if !res.Unchanged || res.Files != nil || res.Commit != commit {
				t.Errorf("result %+v, want unchanged at %s", res, commit)
			}
			if diff := cmp.Diff([]string{"GET refs"}, srv.seen()); diff != "" {
				t.Errorf("requests (-want +got):\n%s", diff)
			}
		})
	}
	t.Run("commit", func(t *testing.T) {
		srv.forget()
		res := mustFetch(t, fetch.Request{URL: srv.URL, Ref: fetch.Ref{Commit: commit}, Known: commit})
		if !res.Unchanged || len(srv.seen()) != 0 {
			t.Errorf("unchanged %v after requests %v, want unchanged and none", res.Unchanged, srv.seen())
		}
	})
}

func TestHistoryRewritten(t *testing.T) {
	repo := newRepository(t)
	repo.commit(map[string]string{"a.yaml": "one"})
	old := repo.commit(map[string]string{"a.yaml": "two"})
	repo.git("tag", "stable")
	srv := serve(t, repo, nil)
	fetcher := &fetch.Fetcher{}

	repo.write("a.yaml", "rewritten")
	repo.git("commit", "--quiet", "--all", "--amend", "--message=rewritten")
	repo.git("tag", "--force", "stable")
	rewritten := repo.git("rev-parse", "HEAD")
	for name, ref := range map[string]fetch.Ref{"branch": {Branch: "main"}, "tag": {Tag: "stable"}} {
		res, err := fetcher.Fetch(t.Context(), fetch.Request{URL: srv.URL, Ref: ref, Known: old})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if res.Commit != rewritten || contents(res)["a.yaml"] != "rewritten" {
			t.Errorf("%s: %s with %v, want the rewritten commit %s", name, res.Commit, contents(res), rewritten)
		}
	}

	repo.git("checkout", "--quiet", "--detach")
	repo.git("branch", "--delete", "--force", "main")
	_, err := fetcher.Fetch(t.Context(), fetch.Request{URL: srv.URL, Ref: fetch.Ref{Branch: "main"}, Known: rewritten})
	wantReason(t, err, fetch.ReasonRefNotFound)
}
