package fetch

import (
	"net"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/go-git/go-git/v5/plumbing/transport"
)

const (
	schemeSSH = "ssh"
	// sshUser is who one is at an SSH server whose URL names nobody, as for Flux CD.
	sshUser = "git"
	wantURL = "; use https://HOST/PATH, ssh://USER@HOST/PATH or USER@HOST:PATH"
)

var urlSchemes = []string{"https", "http", schemeSSH}

// scpLike matches USER@HOST:PATH, which ssh accepts in the place of a URL.
var scpLike = regexp.MustCompile(`^([^/:@\s]+)@(\[[0-9A-Fa-f:.]+\]|[^/:@\s\[\]]+):(.+)$`)

// checkURL holds the policy of which servers are asked: HTTP and SSH only, no password in the URL, and
// credentials over an unencrypted connection only to the same machine. Its messages never repeat the
// URL, since that may hold a password.
func checkURL(raw string, auth *Auth) (*url.URL, error) {
	u, problem := parseURL(raw)
	if problem == "" {
		problem = urlProblem(u, raw, auth)
	}
	if problem != "" {
		return nil, fail(ReasonURLRefused, problem)
	}
	return u, nil
}

// parseURL returns a URL with a scheme, or what is wrong. What is scp-like becomes the URL of the same repository.
func parseURL(raw string) (u *url.URL, problem string) {
	u, err := url.Parse(raw)
	switch {
	case raw == "":
		return nil, "the URL is empty" + wantURL
	case err == nil && u.Scheme != "":
		return u, ""
	case scpLike.MatchString(raw):
		return parseSCP(scpLike.FindStringSubmatch(raw))
	case strings.HasPrefix(strings.ToLower(raw), "ssh://"):
		return nil, "the URL cannot be parsed, for example because it has a colon before the path: write ssh://USER@HOST/PATH, or USER@HOST:PATH without ssh://"
	default:
		return nil, "the URL cannot be parsed" + wantURL
	}
}

func parseSCP(parts []string) (u *url.URL, problem string) {
	user, host, path := parts[1], parts[2], parts[3]
	u, err := url.Parse("ssh://" + host)
	if err != nil || u.Host != host {
		return nil, "the URL cannot be parsed" + wantURL
	}
	u.User, u.Path = url.User(user), "/"+strings.TrimPrefix(path, "/")
	return u, ""
}

// KeyscanCommand is the command that prints the host keys of the server of a URL; ok is false for a URL that is not of SSH. A
// URL that cannot be read has none that is of use.
func KeyscanCommand(raw string) (command string, ok bool) {
	u, problem := parseURL(raw)
	switch {
	case strings.HasPrefix(strings.ToLower(raw), "ssh:") && problem != "":
		return "ssh-keyscan HOST", true
	case problem != "" || u.Scheme != schemeSSH:
		return "", false
	case u.Port() != "" && u.Port() != "22":
		return "ssh-keyscan -p " + u.Port() + " " + u.Hostname(), true
	}
	return "ssh-keyscan " + u.Hostname(), true
}

// uploadPath is the path that git-upload-pack is given: relative to the home of the user where an scp-like URL has no
// slash, or ~USER with what follows.
func uploadPath(raw string, u *url.URL) string {
	if _, err := url.Parse(raw); err != nil {
		if parts := scpLike.FindStringSubmatch(raw); parts != nil {
			return parts[3]
		}
	}
	if strings.HasPrefix(u.Path, "/~") {
		return u.Path[1:]
	}
	return u.Path
}

// urlProblem is why a URL is not followed, or empty.
func urlProblem(u *url.URL, raw string, auth *Auth) string {
	switch {
	case !slices.Contains(urlSchemes, u.Scheme):
		return "URL scheme " + strconv.Quote(clip(u.Scheme, 20)) + " is refused" + wantURL
	case hasPassword(u):
		return "the URL holds credentials; put them into the Secret that secretRef names"
	case u.Opaque != "" || u.Hostname() == "":
		return "the URL names no host" + wantURL
	case u.RawQuery != "" || u.ForceQuery || u.Fragment != "":
		return "the URL has a query or a fragment; name only the repository, and put tokens into the Secret that secretRef names"
	case strings.ContainsFunc(raw, isBlank):
		return "the URL holds white space" + wantURL
	case !validPort(u.Port()):
		return "the URL has an invalid port"
	case u.Scheme == schemeSSH:
		return sshProblem(u, uploadPath(raw, u))
	case u.Scheme == "http":
		return plainProblem(u, auth)
	default:
		return ""
	}
}

// plainProblem is why a URL of unencrypted HTTP is not followed with credentials, or empty.
func plainProblem(u *url.URL, auth *Auth) string {
	switch {
	case auth.hasClientCert():
		return "a client certificate is not shown over unencrypted http; use https"
	case auth.hasCredentials() && (!isLoopback(u.Hostname()) || auth.proxy() != nil):
		return "credentials are not sent over unencrypted http; use https"
	default:
		return ""
	}
}

func isBlank(r rune) bool { return r <= ' ' || r == 0x7f }

// hasPassword says whether a URL holds what belongs into a Secret. A user is no secret where SSH has one.
func hasPassword(u *url.URL) bool {
	_, password := u.User.Password()
	return password || u.User != nil && u.Scheme != schemeSSH
}

// sshProblem is why a URL of SSH is not followed, or empty. path is what git-upload-pack would be given.
func sshProblem(u *url.URL, path string) string {
	steers := func(r rune) bool { return r < ' ' || r == 0x7f }
	user := u.User.Username()
	switch {
	case strings.HasPrefix(u.Hostname(), "-"):
		return "the URL names no host" + wantURL
	case u.User != nil && user == "", strings.HasPrefix(user, "-"), strings.ContainsFunc(user, isBlank):
		return "the user in the URL is not a name" + wantURL
	case strings.Trim(path, "/") == "":
		return "the URL names no repository" + wantURL
	case strings.ContainsFunc(path, steers):
		return "the path of the URL holds a control character"
	case strings.HasPrefix(path, "-"):
		return "the path of the URL begins with -, which a server may take for an option; write ./ before it"
	}
	return ""
}

// validPort accepts no port as well.
func validPort(port string) bool {
	n, err := strconv.Atoi(port)
	return port == "" || err == nil && n >= 1 && n <= 65535
}

func clip(s string, n int) string {
	if len(s) > n {
		return s[:n]
	}
	return s
}

func isLoopback(host string) bool {
	if strings.EqualFold(host, "localhost") {
		return true
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}

// endpoint is u as go-git's transport wants it. The path stays escaped, because go-git writes it into
// the request line as it is.
func endpoint(u *url.URL) *transport.Endpoint {
	host := u.Hostname()
	if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	port, _ := strconv.Atoi(u.Port()) // checkURL has seen that it is a number, or none
	return &transport.Endpoint{Protocol: u.Scheme, Host: host, Port: port,
		Path: strings.TrimRight(u.EscapedPath(), "/")}
}

// sameOrigin reports whether a redirect stays with the server that the user named: the same host and
// port, where http may become https on the well-known ports.
func sameOrigin(from, to *url.URL) bool {
	if !strings.EqualFold(from.Hostname(), to.Hostname()) || to.User != nil {
		return false
	}
	if from.Scheme == to.Scheme {
		return port(from) == port(to)
	}
	return from.Scheme == "http" && to.Scheme == "https" && port(from) == "80" && port(to) == "443"
}

func port(u *url.URL) string {
	switch p := u.Port(); {
	case p != "":
		return p
	case u.Scheme == "https":
		return "443"
	case u.Scheme == schemeSSH:
		return "22"
	case u.Scheme == schemeSOCKS:
		return "1080"
	default:
		return "80"
	}
}

// cleanPaths returns the paths of a request, each once.
func cleanPaths(req Request) ([]string, error) {
	if len(req.Paths) > 0 && req.Path != "" {
		return nil, fail(ReasonInvalidRequest, "path and paths are both set; keep one")
	}
	if len(req.Paths) > maxPaths {
		return nil, fail(ReasonInvalidRequest, "there are more than "+strconv.Itoa(maxPaths)+" paths; name a folder that holds several")
	}
	var out []string
	for _, p := range append(slices.Clone(req.Paths), req.Path)[:max(1, len(req.Paths))] {
		clean, err := cleanPath(p)
		if err != nil {
			return nil, err
		}
		if !slices.Contains(out, clean) {
			out = append(out, clean)
		}
	}
	return out, nil
}

// maxPaths is how many paths of a repository may be named.
const maxPaths = 100

// cleanPath returns the path of a folder in the tree, "" for the root.
func cleanPath(p string) (string, error) {
	for _, part := range strings.Split(p, "/") {
		if part == ".." {
			return "", fail(ReasonInvalidRequest, "the path must not contain \"..\"; name it from the root of the repository")
		}
	}
	if strings.ContainsAny(p, "\\\x00") {
		return "", fail(ReasonInvalidRequest, "the path holds a character that is not allowed; separate folders with /")
	}
	return strings.TrimPrefix(path.Clean("/"+p), "/"), nil
}
