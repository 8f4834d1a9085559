package fetch

import (
	"bytes"
	"strings"
)

// checkObjectFormat refuses a repository whose objects are not named by SHA-1. The first line of the references says so,
// behind its capabilities.
func checkObjectFormat(first []byte) *Error {
	_, capabilities, _ := bytes.Cut(first, []byte{0})
	for _, c := range strings.Fields(string(capabilities)) {
		if format, ok := strings.CutPrefix(c, "object-format="); ok && format != "sha1" {
			return fail(ReasonFetchFailed, "the repository has objects of "+shownName(clip(format, 20))+
				", and only those of SHA-1 are read; convert it, or use a repository made by git init --object-format=sha1")
		}
	}
	return nil
}

const (
	// maxPointerBytes is what a pointer of Git LFS has less than.
	maxPointerBytes = 1024
	lfsProblem      = "is a pointer of Git LFS, whose content is not fetched; commit the file itself (git lfs untrack, then git add --renormalize)"
)

// isLFSPointer says whether a file only names its content, which is on another server.
func isLFSPointer(data []byte) bool {
	if len(data) >= maxPointerBytes {
		return false
	}
	version, ok := bytes.CutPrefix(data, []byte("version https://"))
	if !ok || !bytes.HasPrefix(version, []byte("git-lfs.github.com/spec/")) && !bytes.HasPrefix(version, []byte("hawser.github.com/spec/")) {
		return false
	}
	return bytes.Contains(data, []byte("\noid ")) && bytes.Contains(data, []byte("\nsize "))
}
