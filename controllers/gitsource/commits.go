package gitsource

import (
	"regexp"
	"slices"
	"time"

	"github.com/fluxcd/pkg/runtime/conditions"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/internal/changes"
	"github.com/minifleet/minifleet/internal/sanitize"
)

// address matches an e-mail address: who may read the status need not know it.
var address = regexp.MustCompile(`<?[\w.%+-]+@[\w-]+(\.[\w-]+)*\.[A-Za-z]{2,}>?`)

// commitOf is what a status says of the commit of a tree.
func commitOf(t *tree) v1alpha1.Commit {
	c := v1alpha1.Commit{
		Hash: t.commit, Revision: t.revision,
		Subject: characters(t.about.Subject, sanitize.MaxSubject), Author: characters(t.about.Author, sanitize.MaxAuthor),
		Verification: verificationOf(t.verified),
	}
	if !t.about.Time.IsZero() {
		c.Time = &metav1.Time{Time: t.about.Time}
	}
	return c
}

// characters returns text of a commit that is safe to show, without e-mail addresses, and cut to so many characters.
func characters(s string, most int) string {
	return sanitize.Characters(address.ReplaceAllString(s, ""), most)
}

// remember puts the commit of a tree first, with what it has changed now, and forgets the oldest. One that is applied
// again is there once; if it was the last one, what it has changed is added to what it had.
func remember(commits []v1alpha1.Commit, t *tree, now time.Time) []v1alpha1.Commit {
	latest := commitOf(t)
	latest.AppliedTime = &metav1.Time{Time: now.Truncate(time.Second)}
	var before *v1alpha1.Changes
	if len(commits) > 0 && commits[0].Hash == t.commit {
		latest.AppliedTime, before = commits[0].AppliedTime, commits[0].Changes
	}
	latest.Changes = addChanges(before, t.changed)
	rest := slices.DeleteFunc(slices.Clone(commits), func(c v1alpha1.Commit) bool { return c.Hash == t.commit })
	out := append([]v1alpha1.Commit{latest}, rest...)
	return out[:min(len(out), v1alpha1.MaxCommits)]
}

// addChanges adds more, as +KEY, ~KEY and -KEY, to what a commit has changed; nil where that is nothing.
func addChanges(before *v1alpha1.Changes, more []string) *v1alpha1.Changes {
	if len(more) == 0 {
		return before
	}
	out := before.DeepCopy()
	if out == nil {
		out = &v1alpha1.Changes{}
	}
	for _, change := range more {
		switch change[0] {
		case '+':
			out.Created++
		case '-':
			out.Deleted++
		default:
			out.Updated++
		}
	}
	out.Objects = within(append(out.Objects, more...), v1alpha1.MaxChanges, maxChangesBytes)
	return out
}

// noteChanges remembers what one attempt to apply a tree has changed on the hub because Git says so now, until a status
// tells it. What was put back on the hub, since somebody had edited or deleted it, the commit has not changed.
func noteChanges(source *v1alpha1.GitSource, done progress) {
	t := done.tree
	repairs := source.Status.Commit == t.commit && conditions.IsReady(source)
	changed, deleted := setOf(done.applied.changed), setOf(done.pruned.deleted)
	for i := range done.plan.Changes {
		c := &done.plan.Changes[i]
		switch {
		case c.Object == nil && deleted[c.Key]:
			t.changed = append(t.changed, "-"+c.Key)
		case c.Object == nil || !changed[c.Key]:
		case c.Have == nil && !repairs:
			t.changed = append(t.changed, "+"+c.Key)
		case c.Have != nil && changedInGit(c):
			t.changed = append(t.changed, "~"+c.Key)
		}
	}
}

func setOf(keys []string) map[string]bool {
	out := make(map[string]bool, len(keys))
	for _, key := range keys {
		out[key] = true
	}
	return out
}

// changedInGit says whether an object is declared otherwise than when it was applied last, or in another file.
func changedInGit(c *changes.Change) bool {
	was, is := c.Have.GetAnnotations(), c.Want.GetAnnotations()
	return was[v1alpha1.AnnotationSourceDigest] != is[v1alpha1.AnnotationSourceDigest] ||
		was[v1alpha1.AnnotationSourcePath] != is[v1alpha1.AnnotationSourcePath]
}
