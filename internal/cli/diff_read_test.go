package cli

import (
	"strings"
	"testing"
)

// Credentials of the environment go to the server that they are for, whatever a GitSource says.
func TestGitHostOfTheEnvironment(t *testing.T) {
	for name, c := range map[string]struct{ url, host, want string }{
		"its server":          {"https://git.example.org/a.git", "git.example.org", ""},
		"in capitals":         {"https://git.example.org/a.git", "Git.Example.org", ""},
		"its port":            {"https://git.example.org:8443/a", "git.example.org:8443", ""},
		"another server":      {"https://evil.example.org/a", "git.example.org", "they are not sent there"},
		"another port":        {"https://git.example.org:8443/a", "git.example.org", "they are not sent there"},
		"no server is named":  {"https://git.example.org/a", "", "set it to HOST"},
		"unencrypted":         {"http://git.example.org/a", "git.example.org", "https:// alone"},
		"over SSH":            {"ssh://git@git.example.org/a", "git.example.org", "https:// alone"},
		"what is not a URL":   {"https://git.example.org:x/a", "git.example.org", "https:// alone"},
		"a server as a user ": {"https://git.example.org@evil.example.org/a", "git.example.org", "they are not sent there"},
	} {
		t.Run(name, func(t *testing.T) {
			err := checkGitHost(c.url, c.host)
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}
