package receiver

import (
	"encoding/json"
	"mime"
	"net/http"
	"net/url"
	"strings"

	"github.com/minifleet/minifleet/api/v1alpha1"
)

// kind is what a forge tells of.
type kind int

const (
	// other is what changes no ref.
	other kind = iota
	// ping is asked to see whether anybody answers.
	ping
	// push changes refs.
	push
	// review changes a pull request, and so the refs that the forge keeps for it.
	review
)

// event is what has happened, as far as it is known.
type event struct {
	kind kind
	// refs are the full names of the refs that have changed; nil where they are not known.
	refs []string
	// branch is the default branch; empty where it is not known.
	branch string
}

const (
	heads = "refs/heads/"
	tags  = "refs/tags/"
)

// forge says how one sends events: which headers name them, and which of these names and payloads mean what.
type forge struct {
	headers []string
	kindOf  func(name string) kind
	read    func(name string, payload []byte) event
}

var forges = map[v1alpha1.ReceiverType]forge{
	v1alpha1.ReceiverGitHub:    {[]string{"X-Github-Event"}, kindOnGitHub, readGitHub},
	v1alpha1.ReceiverGitea:     {[]string{"X-Gitea-Event"}, kindOnGitHub, readGitHub},
	v1alpha1.ReceiverForgejo:   {[]string{"X-Forgejo-Event", "X-Gitea-Event"}, kindOnGitHub, readGitHub},
	v1alpha1.ReceiverGitLab:    {[]string{"X-Gitlab-Event"}, kindOnGitLab, readGitLab},
	v1alpha1.ReceiverBitbucket: {[]string{"X-Event-Key"}, kindOnBitbucket, readBitbucket},
}

// eventOf reads what a request tells of that is believed. The payload is nil where it was too long to be kept. What cannot be read
// is a push to refs that are not known.
func eventOf(sender v1alpha1.ReceiverType, header http.Header, payload []byte) event {
	f, ok := forges[sender]
	if !ok {
		return event{kind: push}
	}
	for _, h := range f.headers {
		name := header.Get(h)
		if name == "" {
			continue
		}
		e := event{kind: f.kindOf(name)}
		if e.kind == push && payload != nil {
			return f.read(name, unwrapped(header, payload))
		}
		return e
	}
	return event{kind: push}
}

// unwrapped is the JSON of a payload, which some forges can send in a form.
func unwrapped(header http.Header, payload []byte) []byte {
	media, _, err := mime.ParseMediaType(header.Get("Content-Type"))
	if err != nil || media != "application/x-www-form-urlencoded" {
		return payload
	}
	form, err := url.ParseQuery(string(payload))
	if err != nil || !form.Has("payload") {
		return payload // curl says that it sends a form unless it is told otherwise
	}
	return []byte(form.Get("payload"))
}

func kindOnGitHub(name string) kind {
	switch {
	case name == "push", name == "create", name == "delete":
		return push
	case name == "ping":
		return ping
	case strings.HasPrefix(name, "pull_request"):
		return review
	default:
		return other
	}
}

// readGitHub reads a push, the creation or the deletion of a ref, of GitHub, Gitea or Forgejo.
func readGitHub(name string, payload []byte) event {
	var body struct {
		Ref        string `json:"ref"`
		RefType    string `json:"ref_type"`
		Repository struct {
			DefaultBranch string `json:"default_branch"`
		} `json:"repository"`
	}
	if json.Unmarshal(payload, &body) != nil {
		return event{kind: push}
	}
	e := event{kind: push, branch: body.Repository.DefaultBranch}
	prefix := map[string]string{"branch": heads, "tag": tags}[body.RefType]
	switch {
	case body.Ref == "":
	case name == "push":
		e.refs = fullName(body.Ref)
	case prefix != "":
		// Whether the name is a full one differs, and a branch may be named refs/heads/x.
		e.refs = append(fullName(body.Ref), prefix+body.Ref)
	}
	return e
}

// fullName is the name of one ref; nil if it is none.
func fullName(ref string) []string {
	if !strings.HasPrefix(ref, "refs/") {
		return nil
	}
	return []string{ref}
}

func kindOnGitLab(name string) kind {
	switch name {
	case "Push Hook", "Tag Push Hook", "System Hook":
		return push
	case "Merge Request Hook":
		return review
	default:
		return other
	}
}

// readGitLab reads a push, or what a hook for the whole of a GitLab tells of.
func readGitLab(name string, payload []byte) event {
	var body struct {
		Kind      string `json:"object_kind"`
		EventName string `json:"event_name"`
		Ref       string `json:"ref"`
		Project   struct {
			DefaultBranch string `json:"default_branch"`
		} `json:"project"`
	}
	if json.Unmarshal(payload, &body) != nil {
		return event{kind: push}
	}
	if name == "System Hook" {
		switch {
		case body.EventName == "push", body.EventName == "tag_push":
		case body.EventName == "repository_update":
			return event{kind: push} // several refs at once
		case body.Kind == "merge_request":
			return event{kind: review}
		default:
			return event{kind: other}
		}
	}
	return event{kind: push, refs: fullName(body.Ref), branch: body.Project.DefaultBranch}
}

func kindOnBitbucket(name string) kind {
	switch {
	case name == "repo:push", name == "repo:refs_changed":
		return push
	case name == "diagnostics:ping":
		return ping
	case strings.HasPrefix(name, "pullrequest:"), strings.HasPrefix(name, "pr:"):
		return review
	default:
		return other
	}
}

// bitbucketRef is a ref of Bitbucket Cloud.
type bitbucketRef struct {
	Type string `json:"type"`
	Name string `json:"name"`
}

// bitbucketChange is a change of Bitbucket Data Center.
type bitbucketChange struct {
	Ref struct {
		ID string `json:"id"`
	} `json:"ref"`
}

// readBitbucket reads a push of Bitbucket Cloud or of Data Center.
func readBitbucket(_ string, payload []byte) event {
	var body struct {
		Push struct {
			Changes []struct {
				Old *bitbucketRef `json:"old"`
				New *bitbucketRef `json:"new"`
			} `json:"changes"`
		} `json:"push"`
		Changes    []bitbucketChange `json:"changes"`
		Repository struct {
			MainBranch struct {
				Name string `json:"name"`
			} `json:"mainbranch"`
		} `json:"repository"`
	}
	if json.Unmarshal(payload, &body) != nil {
		return event{kind: push}
	}
	e := event{kind: push, branch: body.Repository.MainBranch.Name}
	for _, change := range body.Push.Changes {
		for _, ref := range []*bitbucketRef{change.Old, change.New} {
			if ref == nil {
				continue
			}
			prefix := map[string]string{"branch": heads, "tag": tags}[ref.Type]
			if prefix == "" || ref.Name == "" {
				return event{kind: push}
			}
			e.refs = append(e.refs, prefix+ref.Name)
		}
	}
	for _, change := range body.Changes {
		ref := fullName(change.Ref.ID)
		if ref == nil {
			return event{kind: push}
		}
		e.refs = append(e.refs, ref...)
	}
	return e
}
