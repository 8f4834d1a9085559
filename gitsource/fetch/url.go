package fetch

import (
	"net"
	"net/url"
	"path"
	"regexp"
	"strconv"
	"strings"

	"github.com/go-git/go-git/v5/plumbing/transport"
)

const wantURL = "; use https://HOST/PATH"

// scpLike matches user@host:path, which ssh accepts in the place of a URL.
var scpLike = regexp.MustCompile(`^[^/:]+@?[^/:]*:[^/]`)

// checkURL holds the policy of which servers are asked: HTTP only, no credentials in the URL, and
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

// parseURL returns a URL with a scheme, or what is wrong.
func parseURL(raw string) (u *url.URL, problem string) {
	u, err := url.Parse(raw)
	switch {
	case raw == "":
		return nil, "the URL is empty" + wantURL
	case err == nil && u.Scheme != "":
		return u, ""
	case scpLike.MatchString(raw):
		return nil, "ssh is not supported" + wantURL
	default:
		return nil, "the URL cannot be parsed" + wantURL
	}
}

// urlProblem is why a URL is not followed, or empty.
func urlProblem(u *url.URL, raw string, auth *Auth) string {
	switch {
	case u.Scheme != "https" && u.Scheme != "http":
		return "URL scheme " + strconv.Quote(clip(u.Scheme, 20)) + " is refused" + wantURL
	case u.User != nil:
		return "the URL holds credentials; put them into the Secret that secretRef names"
	case u.Opaque != "" || u.Hostname() == "":
		return "the URL names no host" + wantURL
	case u.RawQuery != "" || u.ForceQuery || u.Fragment != "":
		return "the URL has a query or a fragment; name only the repository, and put tokens into the Secret that secretRef names"
	case strings.ContainsFunc(raw, func(r rune) bool { return r <= ' ' || r == 0x7f }):
		return "the URL holds white space" + wantURL
	case !validPort(u.Port()):
		return "the URL has an invalid port"
	case u.Scheme == "http" && auth.hasCredentials() && !isLoopback(u.Hostname()):
		return "credentials are not sent over unencrypted http; use https"
	default:
		return ""
	}
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
	default:
		return "80"
	}
}

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
