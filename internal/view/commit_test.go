package view

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/minifleet/minifleet/api/v1alpha1"
)

// A run tells its commit itself, also when its source has forgotten that, or has another one of the same short hash.
func TestCommitOfRun(t *testing.T) {
	remembered := &Commit{Revision: "main@1a2b3c4", Hash: "h1", Author: "Ada", Subject: "Run more"}
	for name, tc := range map[string]struct {
		run  v1alpha1.Run
		want *Commit
	}{
		"not from Git":               {v1alpha1.Run{}, nil},
		"from before":                {v1alpha1.Run{Revision: "main@1a2b3c4"}, remembered},
		"remembered":                 {v1alpha1.Run{Revision: "main@1a2b3c4", Commit: &v1alpha1.RunCommit{Hash: "h1", Author: "Ada"}}, remembered},
		"another of that name":       {v1alpha1.Run{Revision: "main@1a2b3c4", Commit: &v1alpha1.RunCommit{Hash: "h2", Author: "Eve"}}, &Commit{Revision: "main@1a2b3c4", Hash: "h2", Author: "Eve"}},
		"forgotten":                  {v1alpha1.Run{Revision: "main@9", Commit: &v1alpha1.RunCommit{Hash: "h9", Author: "Bob", Subject: "Old"}}, &Commit{Revision: "main@9", Hash: "h9", Author: "Bob", Subject: "Old"}},
		"forgotten, and from before": {v1alpha1.Run{Revision: "main@9"}, &Commit{Revision: "main@9"}},
	} {
		c := &Context{Commits: map[string]*Commit{"main@1a2b3c4": remembered}}
		if diff := cmp.Diff(tc.want, c.commitOfRun(&tc.run)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
