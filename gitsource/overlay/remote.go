package overlay

import (
	"net/url"
	"path"
	"regexp"
	"strings"
)

var (
	// scheme begins a URL of any kind; git:: forces Git.
	scheme = regexp.MustCompile(`^(?i)(git::|[a-z][a-z0-9+.-]*://)`)
	// login is USER@HOST:PATH and USER@HOST/PATH.
	login = regexp.MustCompile(`^[^/@]+@[^/:]+[:/]`)
	// hostName has a dot, and neither begins nor ends with one.
	hostName = regexp.MustCompile(`^[A-Za-z0-9-]+(\.[A-Za-z0-9-]+)+(:[0-9]+)?$`)
	// scpLike is HOST:PATH.
	scpLike = regexp.MustCompile(`^[A-Za-z0-9-]+(\.[A-Za-z0-9-]+)+:[^/]`)
	// drive begins an absolute path of Windows.
	drive = regexp.MustCompile(`^[A-Za-z]:[\\/]`)
)

// isURL says whether kustomize fetches an entry whatever is in the tree, or would if it knew the scheme.
func isURL(entry string) bool {
	if scheme.MatchString(entry) {
		return true
	}
	u, err := url.Parse(entry)
	return err == nil && (u.Scheme == "http" || u.Scheme == "https")
}

// isRepository says whether kustomize takes an entry that is no file for a Git repository, and looks for no folder. It is
// stricter than kustomize, which wants to find an organization and a name.
func isRepository(entry string) bool {
	lower := strings.ToLower(entry)
	return strings.HasPrefix(lower, "github.com/") || strings.HasPrefix(lower, "github.com:") || login.MatchString(entry)
}

// looksRemote says whether who wrote an entry that is not in the tree may have meant a repository.
func looksRemote(entry string) bool {
	if strings.Contains(entry, "?") || scpLike.MatchString(entry) {
		return true
	}
	parts := strings.Split(entry, "/")
	for _, part := range parts {
		if part == "_git" || part != ".git" && path.Ext(part) == ".git" {
			return true
		}
	}
	const hostAndRepository = 3
	return len(parts) >= hostAndRepository && hostName.MatchString(parts[0])
}

func isAbsolute(entry string) bool {
	return path.IsAbs(entry) || drive.MatchString(entry) || strings.HasPrefix(entry, `\\`)
}
