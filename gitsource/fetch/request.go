// Package fetch reads the manifests of one commit from a Git server over smart HTTP, into memory.
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
	// Commit is a full SHA-1 of 40 hexadecimal digits.
	Commit string
}

// Auth holds credentials and trust. It never prints its secrets: see String, GoString, MarshalJSON.
type Auth struct {
	Username, Password string
	// BearerToken is sent as "Authorization: Bearer"; it excludes Username and Password.
	BearerToken string
	// CABundle holds PEM certificates that are trusted in addition to the system's.
	CABundle []byte
}

const redacted = "[redacted]"

// String says which kinds of credentials are there, and none of their values.
func (a Auth) String() string {
	switch {
	case a.BearerToken != "":
		return "bearer token " + redacted
	case a.hasCredentials():
		return "username and password " + redacted
	default:
		return "no credentials"
	}
}

// GoString is String, so that %#v prints no secret either.
func (a Auth) GoString() string { return "fetch.Auth{" + a.String() + "}" }

// MarshalJSON writes String as a JSON string.
func (a Auth) MarshalJSON() ([]byte, error) { return []byte(`"` + a.String() + `"`), nil }

// MarshalText is String, for encoders and loggers that prefer text.
func (a Auth) MarshalText() ([]byte, error) { return []byte(a.String()), nil }

// bundle is the CA bundle, nil without any.
func (a *Auth) bundle() []byte {
	if a == nil {
		return nil
	}
	return a.CABundle
}

func (a *Auth) hasCredentials() bool {
	return a != nil && (a.Username != "" || a.Password != "" || a.BearerToken != "")
}

// DefaultTimeout bounds a fetch whose Fetcher names no other.
const DefaultTimeout = 2 * time.Minute

// Request is one fetch.
type Request struct {
	// URL is an https:// or http:// URL without credentials.
	URL string
	Ref Ref
	// Path is the folder to read, relative to the root of the repository; empty is the root. A path
	// that names a manifest reads that one file.
	Path string
	Auth *Auth
	// Known is the commit that is applied already; when the ref still points to it, nothing is fetched.
	Known string
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
	// PathMissing says that Request.Path cannot be read in this commit, and PathProblem why. Nothing may
	// be pruned for it.
	PathMissing bool
	PathProblem string
	// Files are the manifests under Path, sorted by path. None without PathMissing means that the folder
	// is there and holds no manifest.
	Files []gitsource.File
}
