package plan

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/minifleet/minifleet/api/v1alpha1"
)

func TestCommitOf(t *testing.T) {
	hash := strings.Repeat("0a", 20)
	for name, tc := range map[string]struct {
		revision, commit, author, subject string
		want                              *v1alpha1.RunCommit
	}{
		"not from Git":     {},
		"from before":      {revision: "main@0a0a0a0"},
		"usual":            {revision: "main@0a0a0a0", commit: hash, author: "Ada", subject: "Run more", want: &v1alpha1.RunCommit{Hash: hash, Author: "Ada", Subject: "Run more"}},
		"without a text":   {revision: "main@0a0a0a0", commit: hash, want: &v1alpha1.RunCommit{Hash: hash}},
		"no hash":          {revision: "main@0a0a0a0", commit: "main", author: "Ada"},
		"without revision": {commit: hash, author: "Ada"},
		"hostile": {revision: "r", commit: hash, author: "\x1b[31m" + strings.Repeat("a", 300), subject: strings.Repeat("ä", 300),
			want: &v1alpha1.RunCommit{Hash: hash, Author: "\ufffd[31m" + strings.Repeat("a", 74) + "…", Subject: strings.Repeat("ä", 119) + "…"}},
	} {
		f := &v1alpha1.FleetMiniCluster{}
		f.Annotations = map[string]string{
			v1alpha1.AnnotationSourceRevision: tc.revision, v1alpha1.AnnotationSourceCommit: tc.commit,
			v1alpha1.AnnotationSourceAuthor: tc.author, v1alpha1.AnnotationSourceSubject: tc.subject,
		}
		if diff := cmp.Diff(tc.want, CommitOf(f)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
