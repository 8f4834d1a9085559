package receiver

import (
	"net/http"
	"net/url"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/minifleet/minifleet/api/v1alpha1"
)

func TestEvents(t *testing.T) {
	main, version := []string{"refs/heads/main"}, []string{"refs/tags/v1.2.0"}
	cases := map[string]struct {
		sender       v1alpha1.ReceiverType
		header, name string
		payload      string
		want         event
	}{
		"GitHub: push":                    {v1alpha1.ReceiverGitHub, "X-GitHub-Event", "push", gitHubPush, event{push, main, "main"}},
		"GitHub: push of a tag":           {v1alpha1.ReceiverGitHub, "X-GitHub-Event", "push", gitHubTag, event{push, version, "main"}},
		"GitHub: create":                  {v1alpha1.ReceiverGitHub, "X-GitHub-Event", "create", gitHubCreate, event{push, version, "main"}},
		"GitHub: delete":                  {v1alpha1.ReceiverGitHub, "X-GitHub-Event", "delete", gitHubDelete, event{push, []string{"refs/heads/trial"}, "main"}},
		"GitHub: ping":                    {v1alpha1.ReceiverGitHub, "X-GitHub-Event", "ping", gitHubPing, event{kind: ping}},
		"GitHub: pull request":            {v1alpha1.ReceiverGitHub, "X-GitHub-Event", "pull_request", gitHubReview, event{kind: review}},
		"GitHub: a star":                  {v1alpha1.ReceiverGitHub, "X-GitHub-Event", "watch", `{"action":"started"}`, event{kind: other}},
		"GitHub: no event":                {v1alpha1.ReceiverGitHub, "X-Other", "push", gitHubPush, event{kind: push}},
		"GitHub: no JSON":                 {v1alpha1.ReceiverGitHub, "X-GitHub-Event", "push", "ref=refs/heads/main", event{kind: push}},
		"GitHub: no ref":                  {v1alpha1.ReceiverGitHub, "X-GitHub-Event", "push", `{}`, event{kind: push}},
		"GitHub: a short ref":             {v1alpha1.ReceiverGitHub, "X-GitHub-Event", "push", `{"ref":"main"}`, event{kind: push}},
		"GitHub: a ref that is a number":  {v1alpha1.ReceiverGitHub, "X-GitHub-Event", "push", `{"ref":7}`, event{kind: push}},
		"GitHub: a branch named as a ref": {v1alpha1.ReceiverGitHub, "X-GitHub-Event", "create", `{"ref":"refs/heads/x","ref_type":"branch"}`, event{push, []string{"refs/heads/x", "refs/heads/refs/heads/x"}, ""}},

		"GitLab: push":                  {v1alpha1.ReceiverGitLab, "X-Gitlab-Event", "Push Hook", gitLabPush, event{push, main, "main"}},
		"GitLab: push of a tag":         {v1alpha1.ReceiverGitLab, "X-Gitlab-Event", "Tag Push Hook", gitLabTag, event{push, version, "main"}},
		"GitLab: merge request":         {v1alpha1.ReceiverGitLab, "X-Gitlab-Event", "Merge Request Hook", gitLabMerge, event{kind: review}},
		"GitLab: issue":                 {v1alpha1.ReceiverGitLab, "X-Gitlab-Event", "Issue Hook", `{}`, event{kind: other}},
		"GitLab: push, of all projects": {v1alpha1.ReceiverGitLab, "X-Gitlab-Event", "System Hook", gitLabSystemPush, event{push, main, "main"}},
		"GitLab: several refs":          {v1alpha1.ReceiverGitLab, "X-Gitlab-Event", "System Hook", gitLabUpdate, event{kind: push}},
		"GitLab: merge request, of all": {v1alpha1.ReceiverGitLab, "X-Gitlab-Event", "System Hook", gitLabMerge, event{kind: review}},
		"GitLab: a new person":          {v1alpha1.ReceiverGitLab, "X-Gitlab-Event", "System Hook", gitLabUser, event{kind: other}},

		"Gitea: push":                    {v1alpha1.ReceiverGitea, "X-Gitea-Event", "push", giteaPush, event{push, main, "main"}},
		"Gitea: create":                  {v1alpha1.ReceiverGitea, "X-Gitea-Event", "create", giteaCreate, event{push, version, "main"}},
		"Gitea: pull request":            {v1alpha1.ReceiverGitea, "X-Gitea-Event", "pull_request_sync", `{}`, event{kind: review}},
		"Forgejo: push":                  {v1alpha1.ReceiverForgejo, "X-Forgejo-Event", "push", giteaPush, event{push, main, "main"}},
		"Forgejo: push, as Gitea has it": {v1alpha1.ReceiverForgejo, "X-Gitea-Event", "push", giteaPush, event{push, main, "main"}},
		"Forgejo: release":               {v1alpha1.ReceiverForgejo, "X-Forgejo-Event", "release", `{}`, event{kind: other}},

		"Bitbucket: push":                {v1alpha1.ReceiverBitbucket, "X-Event-Key", "repo:push", bitbucketPush, event{push, []string{"refs/heads/main", "refs/heads/main"}, "main"}},
		"Bitbucket: push of a tag":       {v1alpha1.ReceiverBitbucket, "X-Event-Key", "repo:push", bitbucketTag, event{push, version, ""}},
		"Bitbucket: a branch is deleted": {v1alpha1.ReceiverBitbucket, "X-Event-Key", "repo:push", bitbucketDelete, event{push, []string{"refs/heads/trial"}, ""}},
		"Bitbucket: no branch, no tag":   {v1alpha1.ReceiverBitbucket, "X-Event-Key", "repo:push", bitbucketHg, event{kind: push}},
		"Bitbucket: Data Center":         {v1alpha1.ReceiverBitbucket, "X-Event-Key", "repo:refs_changed", bitbucketChanged, event{push, main, ""}},
		"Bitbucket: ping":                {v1alpha1.ReceiverBitbucket, "X-Event-Key", "diagnostics:ping", `{"test":true}`, event{kind: ping}},
		"Bitbucket: pull request":        {v1alpha1.ReceiverBitbucket, "X-Event-Key", "pullrequest:created", `{}`, event{kind: review}},
		"Bitbucket: fork":                {v1alpha1.ReceiverBitbucket, "X-Event-Key", "repo:fork", `{}`, event{kind: other}},

		"generic": {v1alpha1.ReceiverGeneric, "X-GitHub-Event", "watch", gitHubPush, event{kind: push}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			header := http.Header{}
			header.Set(c.header, c.name)
			header.Set("Content-Type", "application/json")
			got := eventOf(c.sender, header, []byte(c.payload))
			if diff := cmp.Diff(c.want, got, cmp.AllowUnexported(event{})); diff != "" {
				t.Errorf("as JSON: -want +got:\n%s", diff)
			}
			header.Set("Content-Type", "application/x-www-form-urlencoded; charset=utf-8")
			got = eventOf(c.sender, header, []byte(url.Values{"payload": {c.payload}}.Encode()))
			if diff := cmp.Diff(c.want, got, cmp.AllowUnexported(event{})); diff != "" {
				t.Errorf("as a form: -want +got:\n%s", diff)
			}
		})
	}
}

// What is too long to be kept, or cut off, is a push to some ref.
func TestEventsThatCannotBeRead(t *testing.T) {
	header := http.Header{}
	header.Set("X-GitHub-Event", "push")
	for name, payload := range map[string][]byte{
		"too long": nil, "empty": {}, "cut off": []byte(gitHubPush[:200]), "deep": []byte(`{"ref":` + repeat("[", 20_000)), "a list": []byte("[]"), "null": []byte("null"),
	} {
		if got := eventOf(v1alpha1.ReceiverGitHub, header, payload); got.kind != push || got.refs != nil {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

func TestFormsThatCannotBeRead(t *testing.T) {
	header := http.Header{}
	header.Set("X-GitHub-Event", "push")
	header.Set("Content-Type", "application/x-www-form-urlencoded")
	for _, payload := range []string{"", "payload", "payload=", "payload=%zz", "other=" + url.QueryEscape(gitHubPush)} {
		if got := eventOf(v1alpha1.ReceiverGitHub, header, []byte(payload)); got.kind != push || got.refs != nil {
			t.Errorf("%.20s: %+v", payload, got)
		}
	}
}

func TestJSONThatIsCalledAForm(t *testing.T) {
	header := http.Header{}
	header.Set("X-GitHub-Event", "push")
	header.Set("Content-Type", "application/x-www-form-urlencoded")
	if got := eventOf(v1alpha1.ReceiverGitHub, header, []byte(gitHubPush)); len(got.refs) != 1 || got.refs[0] != "refs/heads/main" {
		t.Errorf("%+v", got)
	}
}

func TestConcerns(t *testing.T) {
	pushed := func(branch string, refs ...string) event { return event{push, refs, branch} }
	cases := map[string]struct {
		event event
		ref   v1alpha1.GitRef
		want  bool
	}{
		"the branch":                               {pushed("", "refs/heads/main"), v1alpha1.GitRef{Branch: "main"}, true},
		"the branch, by its full name":             {pushed("", "refs/heads/main"), v1alpha1.GitRef{Branch: "refs/heads/main"}, true},
		"another branch":                           {pushed("main", "refs/heads/trial"), v1alpha1.GitRef{Branch: "main"}, false},
		"a branch that only begins so":             {pushed("", "refs/heads/main2"), v1alpha1.GitRef{Branch: "main"}, false},
		"a tag with the name of the branch":        {pushed("", "refs/tags/main"), v1alpha1.GitRef{Branch: "main"}, false},
		"several, one of them the branch":          {pushed("", "refs/heads/trial", "refs/heads/main"), v1alpha1.GitRef{Branch: "main"}, true},
		"unknown refs":                             {pushed("main"), v1alpha1.GitRef{Branch: "main"}, true},
		"the default branch":                       {pushed("main", "refs/heads/main"), v1alpha1.GitRef{}, true},
		"not the default branch":                   {pushed("main", "refs/heads/trial"), v1alpha1.GitRef{}, false},
		"a branch where the default is not known":  {pushed("", "refs/heads/trial"), v1alpha1.GitRef{}, true},
		"a tag where the default is not known":     {pushed("", "refs/tags/v1"), v1alpha1.GitRef{}, false},
		"the tag":                                  {pushed("", "refs/tags/v1"), v1alpha1.GitRef{Tag: "v1"}, true},
		"the tag, by its full name":                {pushed("", "refs/tags/v1"), v1alpha1.GitRef{Tag: "refs/tags/v1"}, true},
		"another tag":                              {pushed("", "refs/tags/v2"), v1alpha1.GitRef{Tag: "v1"}, false},
		"a branch with the name of the tag":        {pushed("", "refs/heads/v1"), v1alpha1.GitRef{Tag: "v1"}, false},
		"a tag, for versions":                      {pushed("", "refs/tags/v2"), v1alpha1.GitRef{SemVer: "1.x"}, true},
		"a branch, for versions":                   {pushed("", "refs/heads/main"), v1alpha1.GitRef{SemVer: "1.x"}, false},
		"the ref":                                  {pushed("", "refs/heads/main"), v1alpha1.GitRef{Name: "refs/heads/main"}, true},
		"another ref":                              {pushed("", "refs/heads/trial"), v1alpha1.GitRef{Name: "refs/heads/main"}, false},
		"the branch that a pull request goes into": {pushed("", "refs/heads/main"), v1alpha1.GitRef{Name: "refs/pull/7/merge"}, true},
		"a commit":                                 {pushed("", "refs/heads/trial"), v1alpha1.GitRef{Commit: "0"}, true},
		"a pull request":                           {event{kind: review}, v1alpha1.GitRef{Branch: "main"}, false},
		"a pull request, for its own ref":          {event{kind: review}, v1alpha1.GitRef{Name: "refs/pull/7/head"}, true},
		"a pull request, for a branch by its name": {event{kind: review}, v1alpha1.GitRef{Name: "refs/heads/main"}, false},
		"something else":                           {event{kind: other}, v1alpha1.GitRef{}, false},
		"a ping":                                   {event{kind: ping}, v1alpha1.GitRef{}, false},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if got := concerns(c.event, c.ref); got != c.want {
				t.Errorf("got %v", got)
			}
		})
	}
}

// FuzzPayload has what nobody can be sure of trigger a reconciliation, and nothing panic.
func FuzzPayload(f *testing.F) {
	for _, seed := range []struct{ sender, name, payload string }{
		{"github", "push", gitHubTag}, {"gitea", "create", giteaCreate}, {"gitlab", "Tag Push Hook", gitLabTag}, {"gitlab", "System Hook", gitLabUpdate},
		{"bitbucket", "repo:push", bitbucketTag}, {"bitbucket", "repo:refs_changed", bitbucketChanged}, {"generic-hmac", "", "x"},
	} {
		f.Add(seed.sender, seed.name, "application/json", []byte(seed.payload))
		f.Add(seed.sender, seed.name, "application/x-www-form-urlencoded", []byte("payload="+url.QueryEscape(seed.payload)))
	}
	f.Fuzz(func(t *testing.T, sender, name, media string, payload []byte) {
		header := http.Header{}
		header.Set("Content-Type", media)
		for _, h := range []string{"X-GitHub-Event", "X-Gitea-Event", "X-Forgejo-Event", "X-Gitlab-Event", "X-Event-Key"} {
			header.Set(h, name)
		}
		e := eventOf(v1alpha1.ReceiverType(sender), header, payload)
		for _, ref := range e.refs {
			if len(ref) < len("refs/") || ref[:len("refs/")] != "refs/" {
				t.Errorf("%q is no full name of a ref", ref)
			}
		}
		if e.kind == push && e.refs == nil && !concerns(e, v1alpha1.GitRef{Branch: "main"}) {
			t.Error("an unknown push is ignored")
		}
	})
}
