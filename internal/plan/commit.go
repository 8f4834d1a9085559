package plan

import (
	"regexp"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/internal/sanitize"
)

var fullHash = regexp.MustCompile(`^([0-9a-f]{40}|[0-9a-f]{64})$`)

// CommitOf is the commit that last changed a FleetMiniCluster, as its GitSource has noted; nil where that is not known.
// Whoever can edit annotations can write anything there.
func CommitOf(f *v1alpha1.FleetMiniCluster) *v1alpha1.RunCommit {
	hash := f.Annotations[v1alpha1.AnnotationSourceCommit]
	if !fullHash.MatchString(hash) || f.Annotations[v1alpha1.AnnotationSourceRevision] == "" {
		return nil
	}
	return &v1alpha1.RunCommit{
		Hash:    hash,
		Author:  sanitize.Characters(f.Annotations[v1alpha1.AnnotationSourceAuthor], sanitize.MaxAuthor),
		Subject: sanitize.Characters(f.Annotations[v1alpha1.AnnotationSourceSubject], sanitize.MaxSubject),
	}
}
