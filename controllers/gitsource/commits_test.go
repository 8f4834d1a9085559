package gitsource

import (
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/gitsource/fetch"
	"github.com/minifleet/minifleet/internal/sanitize"
)

func TestCommitOf(t *testing.T) {
	cases := map[string]struct {
		about fetch.About
		want  v1alpha1.Commit
	}{
		"usual":         {fetch.About{Subject: "Run more", Author: "Ada", Time: noon}, v1alpha1.Commit{Subject: "Run more", Author: "Ada", Time: &metav1.Time{Time: noon}}},
		"no time":       {fetch.About{Subject: "Run more"}, v1alpha1.Commit{Subject: "Run more"}},
		"addresses":     {fetch.About{Subject: "Thank <bob@mail.example.org> and eve@x.org", Author: "ada@example.org"}, v1alpha1.Commit{Subject: "Thank and"}},
		"no addresses":  {fetch.About{Subject: "Use checkout@v4.1 on a@b", Author: "@ada"}, v1alpha1.Commit{Subject: "Use checkout@v4.1 on a@b", Author: "@ada"}},
		"hostile":       {fetch.About{Subject: "\x1b[31mred\u202e\x00", Author: "a\tb\xff"}, v1alpha1.Commit{Subject: "\ufffd[31mred\ufffd\ufffd", Author: "a b\ufffd"}},
		"long":          {fetch.About{Subject: strings.Repeat("s", 121), Author: strings.Repeat("ä", 81)}, v1alpha1.Commit{Subject: strings.Repeat("s", 119) + "…", Author: strings.Repeat("ä", 79) + "…"}},
		"just so long":  {fetch.About{Subject: strings.Repeat("好", 120), Author: strings.Repeat("a", 80)}, v1alpha1.Commit{Subject: strings.Repeat("好", 120), Author: strings.Repeat("a", 80)}},
		"longest bytes": {fetch.About{Subject: strings.Repeat("🚀", 256)}, v1alpha1.Commit{Subject: strings.Repeat("🚀", 119) + "…"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			c.want.Hash, c.want.Revision = "h", "main@h"
			got := commitOf(&tree{commit: "h", revision: "main@h", about: c.about})
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
			if utf8.RuneCountInString(got.Subject) > sanitize.MaxSubject || utf8.RuneCountInString(got.Author) > sanitize.MaxAuthor {
				t.Errorf("longer than allowed: %+v", got)
			}
		})
	}
}

func TestRemember(t *testing.T) {
	var commits []v1alpha1.Commit
	for i := range v1alpha1.MaxCommits + 5 {
		commits = remember(commits, &tree{commit: fmt.Sprint(i), revision: fmt.Sprint("main@", i)}, noon.Add(time.Duration(i)*time.Minute))
	}
	if len(commits) != v1alpha1.MaxCommits || commits[0].Hash != "24" || commits[19].Hash != "5" {
		t.Fatalf("got %v", commits)
	}
	if again := remember(commits, &tree{commit: "24", revision: "main@24"}, noon); cmp.Diff(commits, again) != "" {
		t.Errorf("the same commit changes the list: %s", cmp.Diff(commits, again))
	}
	back := remember(commits, &tree{commit: "10", revision: "main@10"}, noon)
	if len(back) != v1alpha1.MaxCommits || back[0].Hash != "10" || back[1].Hash != "24" {
		t.Errorf("a commit that is applied again: %v", back)
	}
}

func TestRequests(t *testing.T) {
	refused := &fetch.Error{Reason: fetch.ReasonAuthFailed, Message: "refused"}
	cases := map[string]struct {
		token, handled string
		done           progress
		err            error
		want           string
		commits        int
	}{
		"none":                       {done: applies("a")(), commits: 1},
		"applied":                    {token: "1", done: applies("a")(), want: "1", commits: 1},
		"a newer one":                {token: "2", handled: "1", done: applies("a")(), want: "2", commits: 1},
		"taken away":                 {handled: "1", done: applies("a")(), want: "1", commits: 1},
		"the repository refuses":     {token: "1", err: refused, want: "1"},
		"the hub could not be asked": {token: "1", handled: "0", err: fmt.Errorf("timeout"), want: "0"},
		"applied in part":            {token: "1", done: applies("a")(), err: fmt.Errorf("timeout"), want: "1"},
		"hostile":                    {token: "a\x1b" + strings.Repeat("x", 300), done: applies("a")(), want: "a\ufffd" + strings.Repeat("x", 246) + "…", commits: 1},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			source := &v1alpha1.GitSource{}
			source.Annotations = map[string]string{v1alpha1.AnnotationReconcileAt: c.token}
			source.Status.LastHandledReconcileAt = c.handled
			_, c.done.request = new(requests).latest(source)
			setStatus(source, c.done, c.err, noon.Add(time.Minute))
			if got := source.Status.LastHandledReconcileAt; got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
			if len(source.Status.Commits) != c.commits {
				t.Errorf("commits: %v", source.Status.Commits)
			}
		})
	}
}

func TestUnansweredRequest(t *testing.T) {
	source := &v1alpha1.GitSource{}
	if got := unanswered(source, &requests{}); got != "" {
		t.Errorf("got %q", got)
	}
	source.Annotations = map[string]string{v1alpha1.AnnotationReconcileAt: "7"}
	if got := unanswered(source, &requests{}); got != "; the request minifleet.dev/reconcile-at=7 waits until spec.suspend is false" {
		t.Errorf("got %q", got)
	}
	source.Status.LastHandledReconcileAt = "7"
	if got := unanswered(source, &requests{}); got != "" {
		t.Errorf("got %q", got)
	}
}
