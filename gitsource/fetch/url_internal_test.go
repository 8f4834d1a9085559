package fetch

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/minifleet/minifleet/internal/scripttest"
)

func TestPathsOfSSH(t *testing.T) {
	for raw, want := range map[string]struct{ host, user, path string }{
		"ssh://git@git.example.org/team/x.git":        {"git.example.org:22", "git", "/team/x.git"},
		"ssh://git.example.org/x":                     {"git.example.org:22", "git", "/x"},
		"ssh://ada@git.example.org:2222/x":            {"git.example.org:2222", "ada", "/x"},
		"ssh://git@git.example.org/~ada/x":            {"git.example.org:22", "git", "~ada/x"},
		"ssh://git@git.example.org/a%20b":             {"git.example.org:22", "git", "/a b"},
		"ssh://git@[2001:db8::1]:2222/x":              {"2001:db8::1:2222", "git", "/x"},
		"SSH://git@git.example.org/x":                 {"git.example.org:22", "git", "/x"},
		"git@git.example.org:team/x.git":              {"git.example.org:22", "git", "team/x.git"},
		"git@git.example.org:/srv/x.git":              {"git.example.org:22", "git", "/srv/x.git"},
		"git@git.example.org:~ada/x":                  {"git.example.org:22", "git", "~ada/x"},
		"git@git.example.org:22/x":                    {"git.example.org:22", "git", "22/x"},
		"git@[2001:db8::1]:x":                         {"2001:db8::1:22", "git", "x"},
		"org-1234@git.example.org:v3/a%20b/c?d#e.git": {"git.example.org:22", "org-1234", "v3/a%20b/c?d#e.git"},
	} {
		t.Run(raw, func(t *testing.T) {
			u, err := checkURL(raw, nil)
			if err != nil {
				t.Fatal(err)
			}
			if got := u.Hostname() + ":" + port(u); u.Scheme != schemeSSH || got != want.host || userOf(u) != want.user || uploadPath(raw, u) != want.path {
				t.Errorf("scheme %s host %s user %s path %s, want %v", u.Scheme, got, userOf(u), uploadPath(raw, u), want)
			}
		})
	}
}

// hostilePaths are what a server's shell must take for one argument.
var hostilePaths = []string{
	"/x", "/a b", "/a'b", "/'", "/''", `/a\'b`, "/$(id)", "/`id`", "/;id", "/x' ; id '", "/!id", "/a\"b", "/*", "/~", "/x\\", "~ada/x", "/--help", "/é",
}

func TestCommandOfSSH(t *testing.T) {
	for _, path := range hostilePaths {
		if got := argumentOf(t, uploadCommand(path)); got != path {
			t.Errorf("a shell reads %q of %s, want %q", got, uploadCommand(path), path)
		}
	}
}

// argumentOf has a shell run a command, with a git-upload-pack that prints its arguments.
func argumentOf(t *testing.T, command string) string {
	t.Helper()
	dir := t.TempDir()
	scripttest.Write(t, filepath.Join(dir, "git-upload-pack"), "#!/bin/sh\nprintf %s \"$*\"\n")
	cmd := exec.Command("sh", "-c", command)
	cmd.Env = []string{"PATH=" + dir + ":" + os.Getenv("PATH")}
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v", command, err)
	}
	return string(out)
}

// FuzzURL checks that what is accepted leads to one host, with one command, whatever is in the path.
func FuzzURL(f *testing.F) {
	for _, path := range hostilePaths {
		f.Add("git@git.example.org:" + path)
		f.Add("ssh://git@git.example.org" + path)
	}
	f.Add("https://git.example.org/x")
	f.Add("ssh://git@[::1%25eth0]:22/x")
	f.Fuzz(func(t *testing.T, raw string) {
		KeyscanCommand(raw)
		u, err := checkURL(raw, nil)
		if err != nil {
			return
		}
		if u.Hostname() == "" || strings.ContainsFunc(u.Host, isBlank) {
			t.Errorf("host %q is accepted", u.Host)
		}
		if _, password := u.User.Password(); password {
			t.Error("a password is accepted")
		}
		if u.Scheme != schemeSSH {
			return
		}
		path := uploadPath(raw, u)
		if path == "" || path[0] == '-' || strings.ContainsAny(path, "\x00\r\n") || userOf(u) == "" || userOf(u)[0] == '-' {
			t.Errorf("user %q and path %q are accepted", userOf(u), path)
		}
		if got, ok := unquoted(uploadCommand(path)); !ok || got != path {
			t.Errorf("%s is not git-upload-pack with %q alone", uploadCommand(path), path)
		}
	})
}

// unquoted reads git-upload-pack and one argument as a shell does that knows single quotes and backslashes.
func unquoted(command string) (argument string, ok bool) {
	rest, ok := strings.CutPrefix(command, "git-upload-pack ")
	var out strings.Builder
	quoted := false
	for i := 0; i < len(rest); i++ {
		switch c := rest[i]; {
		case c == '\'':
			quoted = !quoted
		case !quoted && c == '\\' && i+1 < len(rest):
			i++
			out.WriteByte(rest[i])
		case !quoted:
			return "", false
		default:
			out.WriteByte(c)
		}
	}
	return out.String(), ok && !quoted
}
