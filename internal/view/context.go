package view

import (
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/internal/sanitize"
)

// Limits in bytes of text of others.
const (
	maxWhy     = 300  // a sentence in a list
	maxText    = 1000 // a message or a command
	maxName    = 253  // what the API server accepts as a name
	maxSubject = 120  // the first line of a commit
)

// Context is what is known besides an object itself.
type Context struct {
	// Stale are the members that cannot be reached, by name.
	Stale map[string]Stale
	// Commits are those that the object's source remembers, by revision.
	Commits map[string]*Commit
	// Sees is what the reader may see of other namespaces.
	Sees Sees
}

// text makes text of others safe for the reader.
func (c *Context) text(s string, most int) string {
	return HideOthers(sanitize.Text(s, most), c.Sees)
}

// StaleOf says whether a member cannot be reached, and since when nothing was heard of it.
func StaleOf(m *v1alpha1.MemberCluster) (Stale, bool) {
	ready := meta.FindStatusCondition(m.Status.Conditions, v1alpha1.ConditionReady)
	if ready != nil && ready.Status == metav1.ConditionTrue {
		return Stale{}, false
	}
	s := Stale{Member: m.Name, Message: "has not been reached yet"}
	if ready != nil {
		s.Message = sanitize.Text(ready.Message, maxText)
	}
	switch heard := m.Status.LastHeardTime; {
	case heard != nil:
		s.Since = &heard.Time
	case ready != nil:
		s.Since = &ready.LastTransitionTime.Time
	default:
		s.Since = &m.CreationTimestamp.Time
	}
	return s, true
}

// CommitsOf are the commits that a source remembers, by revision.
func CommitsOf(s *v1alpha1.GitSource) map[string]*Commit {
	out := make(map[string]*Commit, len(s.Status.Commits))
	for i := range s.Status.Commits {
		c := commitOf(&s.Status.Commits[i])
		if out[c.Revision] == nil {
			out[c.Revision] = &c
		}
	}
	return out
}

func commitOf(c *v1alpha1.Commit) Commit {
	out := Commit{
		Revision: sanitize.Text(c.Revision, maxWhy), Hash: sanitize.Text(c.Hash, 64),
		Subject: sanitize.Text(c.Subject, maxSubject), Author: sanitize.Text(c.Author, maxSubject),
	}
	if c.Time != nil {
		out.Time = &c.Time.Time
	}
	return out
}

// commit is what is known of a revision; nil for none.
func (c *Context) commit(revision string) *Commit {
	if revision == "" {
		return nil
	}
	revision = sanitize.Text(revision, maxWhy)
	if known := c.Commits[revision]; known != nil {
		return known
	}
	return &Commit{Revision: revision}
}

// commitOfRun is what a run itself knows of its commit, and the time from its source, if that remembers it.
func (c *Context) commitOfRun(r *v1alpha1.Run) *Commit {
	known := c.commit(r.Revision)
	if r.Commit == nil || known == nil || known.Hash == r.Commit.Hash {
		return known
	}
	return &Commit{
		Revision: known.Revision, Hash: sanitize.Text(r.Commit.Hash, 64),
		Subject: sanitize.Text(r.Commit.Subject, maxSubject), Author: sanitize.Text(r.Commit.Author, maxSubject),
	}
}

func conditionsOf(list []metav1.Condition, c *Context) []Condition {
	out := make([]Condition, 0, len(list))
	for i := range list {
		out = append(out, Condition{
			Type: list[i].Type, Status: string(list[i].Status), Reason: list[i].Reason,
			Message: c.text(list[i].Message, sanitize.MaxMessage), Since: list[i].LastTransitionTime.Time,
		})
	}
	return out
}

// Redacted is a copy of a FleetMiniCluster whose status names none of those of other namespaces that the reader may not
// see.
func Redacted(f *v1alpha1.FleetMiniCluster, sees Sees) *v1alpha1.FleetMiniCluster {
	f = f.DeepCopy()
	hide := func(texts ...*string) {
		for _, text := range texts {
			*text = HideOthers(*text, sees)
		}
	}
	for i := range f.Status.Conditions {
		hide(&f.Status.Conditions[i].Message)
	}
	for i := range f.Status.Clusters {
		hide(&f.Status.Clusters[i].Message)
	}
	for i := range f.Status.Runs {
		hide(&f.Status.Runs[i].Message)
	}
	if p := f.Status.Placement; p != nil {
		for i := range p.Rejected {
			hide(&p.Rejected[i].Reason)
		}
		for i := range p.Waiting {
			hide(&p.Waiting[i].Reason)
		}
	}
	return f
}
