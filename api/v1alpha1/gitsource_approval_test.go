package v1alpha1

import (
	"strings"
	"testing"
)

func TestApproved(t *testing.T) {
	commit, other := strings.Repeat("0a", 20), strings.Repeat("f", 40)
	for name, tc := range map[string]struct {
		value, used string
		want        bool
		next        string
	}{
		"nothing":                      {next: commit},
		"the commit":                   {value: commit, want: true, next: commit},
		"part of it":                   {value: commit[:39], next: commit},
		"in capitals":                  {value: strings.ToUpper(commit), next: commit},
		"its revision":                 {value: "main@0a0a0a0", next: commit},
		"another commit":               {value: other, next: commit},
		"another that was used":        {value: commit, used: other, want: true, next: commit},
		"used":                         {value: commit, used: commit, next: commit + "#2"},
		"once more":                    {value: commit + "#2", used: commit, want: true, next: commit + "#2"},
		"used twice":                   {value: commit + "#2", used: commit + "#2", next: commit + "#3"},
		"with something else after it": {value: commit + "#x", next: commit},
		"with a number that is long":   {value: commit + "#" + strings.Repeat("9", 30), next: commit},
	} {
		for _, annotation := range []string{AnnotationApprovePrune, AnnotationApproveRuns} {
			s := &GitSource{}
			s.Annotations = map[string]string{annotation: tc.value}
			s.Status.UsedApprovals = &UsedApprovals{Prune: "x", Runs: "x"}
			if annotation == AnnotationApprovePrune {
				s.Status.UsedApprovals.Prune = tc.used
			} else {
				s.Status.UsedApprovals.Runs = tc.used
			}
			if got := s.Approved(annotation, commit); got != tc.want {
				t.Errorf("%s, %s: %t", name, annotation, got)
			}
			if got := s.Approval(annotation, commit); got != tc.next {
				t.Errorf("%s, %s: the next is %q, want %q", name, annotation, got, tc.next)
			}
			s.UseApprovals(commit)
			if s.Approved(annotation, commit) {
				t.Errorf("%s, %s: it approves after it was used", name, annotation)
			}
		}
	}
	if (&GitSource{}).Approved(AnnotationApprovePrune, "") {
		t.Error("no approval is taken for one of a commit that is not known")
	}
}
