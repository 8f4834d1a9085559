package gitsource

import (
	"regexp"
	"slices"
	"unicode/utf8"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/internal/sanitize"
)

// Limits of what is told of a commit, in characters.
const (
	maxSubject = 120
	maxAuthor  = 80
)

// address matches an e-mail address: who may read the status need not know it.
var address = regexp.MustCompile(`<?[\w.%+-]+@[\w-]+(\.[\w-]+)*\.[A-Za-z]{2,}>?`)

// commitOf is what a status says of the commit of a tree.
func commitOf(t *tree) v1alpha1.Commit {
	c := v1alpha1.Commit{
		Hash: t.commit, Revision: t.revision,
		Subject: characters(t.about.Subject, maxSubject), Author: characters(t.about.Author, maxAuthor),
	}
	if !t.about.Time.IsZero() {
		c.Time = &metav1.Time{Time: t.about.Time}
	}
	return c
}

// characters returns text of a commit that is safe to show, without e-mail addresses, and cut to so many characters.
func characters(s string, most int) string {
	s = sanitize.Text(address.ReplaceAllString(s, ""), maxAbout)
	if utf8.RuneCountInString(s) <= most {
		return s
	}
	runes := []rune(s)
	return string(runes[:most-1]) + "…"
}

// maxAbout is in bytes, more than so many characters take.
const maxAbout = utf8.UTFMax * maxSubject

// remember puts the commit of a tree first, and forgets the oldest. One that is applied again is there once.
func remember(commits []v1alpha1.Commit, t *tree) []v1alpha1.Commit {
	rest := slices.DeleteFunc(slices.Clone(commits), func(c v1alpha1.Commit) bool { return c.Hash == t.commit })
	out := append([]v1alpha1.Commit{commitOf(t)}, rest...)
	return out[:min(len(out), v1alpha1.MaxCommits)]
}

// requested is the value of the annotation that asks to read the repository now.
func requested(source *v1alpha1.GitSource) string {
	return sanitize.Text(source.Annotations[v1alpha1.AnnotationReconcileAt], maxToken)
}

// maxToken bounds the value of that annotation in the status, in bytes.
const maxToken = 253
