// Package fetch reads the manifests of one commit from a Git server over smart HTTP or SSH, into memory.
//
// It asks for the references first and sends nothing more when the commit is already known. Otherwise
// it fetches one commit at depth one, without the files over the size limit where the server can leave
// them out, and reads the manifests from the commit's tree. There is no worktree, no file on disk and no
// global state.
package fetch

import (
	"time"

	"github.com/minifleet/minifleet/gitsource"
	"github.com/minifleet/minifleet/gitsource/budget"
	"github.com/minifleet/minifleet/gitsource/object"
	"github.com/minifleet/minifleet/gitsource/overlay"
)

// Ref says which commit to read. At most one field is set; with none it is the remote HEAD, the default
// branch of the repository.
type Ref struct {
	// Branch is a branch name without refs/heads/.
	Branch string
	// Tag is a tag name without refs/tags/; an annotated tag stands for the commit it names.
	Tag string
	// SemVer is a version range such as ">=1.2.0 <2.0.0"; the highest tag in the range is used.
	SemVer string
	// Name is the full name of a reference, for example refs/pull/7/merge.
	Name string
	// Commit is a full SHA-1 of 40 hexadecimal digits.
	Commit string
}

// DefaultTimeout bounds a fetch whose Fetcher names no other.
const DefaultTimeout = 2 * time.Minute

// Request is one fetch.
type Request struct {
	// URL is an https://, http:// or ssh:// URL without a password, or USER@HOST:PATH, which is SSH as well.
	URL string
	Ref Ref
	// Path is the folder to read, relative to the root of the repository; empty is the root. A path
	// that names a manifest reads that one file.
	Path string
	// Paths are several of them, in the place of Path. What lies below two of them is read once.
	Paths []string
	// Ignore says which files are not read, in the syntax of .gitignore, relative to the root of the repository. It comes
	// after what files named .sourceignore say, in the root and in all folders that are read.
	Ignore string
	Auth   *Auth
	// Known is the commit that is applied already; when the ref still points to it, nothing is fetched.
	Known string
	// WithTags has the annotated tags read as well that lead from the ref to the commit.
	WithTags bool
	// KnownTag is the hash of the tag object by which Known was reached, empty where that was no annotated tag; with
	// WithTags, a ref that leads there by another one is fetched.
	KnownTag string
	// Have says that the caller has the content of a file already: that of a path, whose hash in hexadecimal digits is
	// blob. Then it is not read. Nil has none.
	Have func(path, blob string) bool `json:"-"`
	// Budget is what may be spent on this repository; nil is one with the default limits for this fetch alone.
	Budget *budget.Budget
}

// About is what a commit says of itself: text of whoever made it, which has to be sanitized before it is shown.
type About struct {
	// Subject is the first line of the message, Author the name of the author without the address: at most 1 KiB each.
	Subject, Author string
	// Time is that of the author, in UTC; zero where it is not between 1970 and 9999.
	Time time.Time
}

// Signed are objects as the repository stores them, for verification of their signatures.
type Signed struct {
	Commit object.Raw
	// Tags are the annotated tags from the ref to Commit, that of the ref first; only with Request.WithTags.
	Tags []object.Raw
}

// TagHash is the hash of the tag that the ref leads to, empty without any.
func (s Signed) TagHash() string {
	if len(s.Tags) == 0 {
		return ""
	}
	return s.Tags[0].Hash
}

// Bytes is about what the objects take in memory.
func (s Signed) Bytes() int64 {
	n := len(s.Commit.Data)
	for _, tag := range s.Tags {
		n += len(tag.Data)
	}
	return int64(n)
}

// Result is what a commit holds.
type Result struct {
	// Revision is for people: NAME@SHORTSHA, for example main@1a2b3c4, or SHORTSHA alone for a Ref that
	// names a commit.
	Revision string
	// Commit is the full SHA-1.
	Commit string
	// About is what the commit says of itself; empty where Unchanged.
	About About
	// RefName is the full name of the ref that led to the commit, for example refs/heads/main; empty
	// for a Ref that names a commit.
	RefName string
	// Unchanged says that Commit equals Request.Known and that nothing was read: Files is nil because
	// it is not known, never because the commit has none.
	Unchanged bool
	// PathMissing says that Request.Path, or one of Request.Paths, cannot be read in this commit, and PathProblem which and
	// why. Nothing may be pruned for it. A path that is ignored is not missing: it holds nothing.
	PathMissing bool
	PathProblem string
	// Signed are the objects that may be signed; empty where Unchanged.
	Signed Signed
	// Files are the manifests under the paths that can be read, sorted by path, without those that are ignored. None
	// without PathMissing means that the folder is there and holds no manifest.
	Files []gitsource.File
	// Overlays are the paths that hold a kustomization, sorted, each with what building it takes. No file that lies in one
	// is in Files, unless a path of its own names it.
	Overlays []*overlay.Closure
}
