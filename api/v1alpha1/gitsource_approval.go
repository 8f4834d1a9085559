package v1alpha1

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// approval is the full hash of a commit, with a number where it was approved before.
var approval = regexp.MustCompile(`^([0-9a-f]{40}|[0-9a-f]{64})(#[1-9][0-9]{0,8})?$`)

// IsApproval says whether a text can approve a commit. Part of a hash cannot: whoever can push can make another commit
// that begins so.
func IsApproval(s string) bool { return approval.MatchString(s) }

// Approved says whether AnnotationApprovePrune or AnnotationApproveRuns approves a commit, by its full hash. An approval
// that has been used approves nothing any more: the same commit may mean something else by now.
func (s *GitSource) Approved(annotation, commit string) bool {
	value := s.Annotations[annotation]
	hash, _, _ := strings.Cut(value, "#")
	return IsApproval(value) && hash == commit && value != s.usedApproval(annotation)
}

// Approval is the value with which one of these annotations approves a commit now: its full hash, followed by #2, #3 and
// so on where that has been used.
func (s *GitSource) Approval(annotation, commit string) string {
	used, number, _ := strings.Cut(s.usedApproval(annotation), "#")
	if used != commit {
		return commit
	}
	n, err := strconv.Atoi(number)
	if err != nil {
		n = 1
	}
	return fmt.Sprintf("%s#%d", commit, n+1)
}

// UseApprovals notes that what approves a commit has been used.
func (s *GitSource) UseApprovals(commit string) {
	used := UsedApprovals{}
	if s.Status.UsedApprovals != nil {
		used = *s.Status.UsedApprovals
	}
	if s.Approved(AnnotationApprovePrune, commit) {
		used.Prune = s.Annotations[AnnotationApprovePrune]
	}
	if s.Approved(AnnotationApproveRuns, commit) {
		used.Runs = s.Annotations[AnnotationApproveRuns]
	}
	if used != (UsedApprovals{}) {
		s.Status.UsedApprovals = &used
	}
}

func (s *GitSource) usedApproval(annotation string) string {
	used := s.Status.UsedApprovals
	switch {
	case used == nil:
		return ""
	case annotation == AnnotationApproveRuns:
		return used.Runs
	default:
		return used.Prune
	}
}
