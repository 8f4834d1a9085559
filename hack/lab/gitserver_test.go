package lab_test

import (
	"crypto/rand"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/minifleet/minifleet/hack/lab"
)

func gitServer(t *testing.T) *lab.GitServer {
	t.Helper()
	server, err := lab.NewGitServer(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Stop(); err != nil {
			t.Error(err)
		}
	})
	if err := server.CreateRepo("fleet"); err != nil {
		t.Fatal(err)
	}
	return server
}

func git(dir string, args ...string) (string, error) {
	command := exec.Command("git", args...)
	command.Dir = dir
	command.Env = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=/nonexistent", "GIT_CONFIG_GLOBAL=" + os.DevNull, "GIT_TERMINAL_PROMPT=0",
		"GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@example.org", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@example.org",
	}
	output, err := command.CombinedOutput()
	return strings.TrimSpace(string(output)), err
}

func mustGit(t *testing.T, dir string, args ...string) string {
	t.Helper()
	output, err := git(dir, args...)
	if err != nil {
		t.Fatalf("git %s: %v: %s", strings.Join(args, " "), err, output)
	}
	return output
}

// push makes a clone, commits one file of the given size and pushes it; it returns the commit.
func push(t *testing.T, server *lab.GitServer, size int) string {
	t.Helper()
	clone := filepath.Join(t.TempDir(), "fleet")
	mustGit(t, ".", "clone", "--quiet", server.URL("fleet"), clone)
	content := make([]byte, size)
	if _, err := rand.Read(content); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(clone, "file"), content, 0o600); err != nil {
		t.Fatal(err)
	}
	mustGit(t, clone, "add", "file")
	mustGit(t, clone, "commit", "--quiet", "-m", "Add a file")
	mustGit(t, clone, "push", "--quiet", "origin", "HEAD:main")
	return mustGit(t, clone, "rev-parse", "HEAD")
}

func TestGitPushAndClone(t *testing.T) {
	t.Parallel()
	sizes := map[string]int{"small": 10, "larger than git sends in one piece": 3 << 20}
	for name, size := range sizes {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := gitServer(t)
			want := push(t, server, size)
			clone := filepath.Join(t.TempDir(), "clone")
			mustGit(t, ".", "clone", "--quiet", server.URL("fleet"), clone)
			if got := mustGit(t, clone, "rev-parse", "HEAD"); got != want {
				t.Errorf("cloned %s, want %s", got, want)
			}
		})
	}
}

func TestGitRequestsTellListingFromFetching(t *testing.T) {
	t.Parallel()
	server := gitServer(t)
	push(t, server, 10)
	refs := lab.GitRequest{Repository: "fleet", Service: "refs", Authorized: true}
	fetch := lab.GitRequest{Repository: "fleet", Service: "fetch", Authorized: true}
	cases := map[string]struct {
		args []string
		want []lab.GitRequest
	}{
		"ls-remote, protocol 0": {args: []string{"-c", "protocol.version=0", "ls-remote", server.URL("fleet")}, want: []lab.GitRequest{refs}},
		"ls-remote, protocol 2": {args: []string{"-c", "protocol.version=2", "ls-remote", server.URL("fleet")}, want: []lab.GitRequest{refs, refs}},
		"clone, protocol 0":     {args: []string{"-c", "protocol.version=0", "clone", "--bare", server.URL("fleet"), t.TempDir()}, want: []lab.GitRequest{refs, fetch}},
		"clone, protocol 2":     {args: []string{"-c", "protocol.version=2", "clone", "--bare", server.URL("fleet"), t.TempDir()}, want: []lab.GitRequest{refs, refs, fetch}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) { // not parallel: the requests are counted on one server
			server.ResetRequests()
			mustGit(t, ".", tc.args...)
			if diff := cmp.Diff(tc.want, server.Requests()); diff != "" {
				t.Errorf("requests (-want +got):\n%s", diff)
			}
		})
	}
}

func TestGitLogin(t *testing.T) {
	t.Parallel()
	server := gitServer(t)
	server.RequireLogin("jane", "secret", "t0ken")
	address := server.URL("fleet")
	withPassword := func(password string) string {
		return strings.Replace(address, "http://", "http://jane:"+password+"@", 1)
	}
	cases := map[string]struct {
		args    []string
		allowed bool
	}{
		"nobody":         {args: []string{"ls-remote", address}},
		"wrong password": {args: []string{"ls-remote", withPassword("guess")}},
		"password":       {args: []string{"ls-remote", withPassword("secret")}, allowed: true},
		"wrong token":    {args: []string{"-c", "http.extraHeader=Authorization: Bearer guess", "ls-remote", address}},
		"token":          {args: []string{"-c", "http.extraHeader=Authorization: Bearer t0ken", "ls-remote", address}, allowed: true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			output, err := git(".", tc.args...)
			if allowed := err == nil; allowed != tc.allowed {
				t.Errorf("allowed: %v, want %v: %s", allowed, tc.allowed, output)
			}
		})
	}
}

func TestGitServerStopsAndStarts(t *testing.T) {
	t.Parallel()
	server := gitServer(t)
	push(t, server, 10)
	if err := server.Stop(); err != nil {
		t.Fatal(err)
	}
	if output, err := git(".", "ls-remote", server.URL("fleet")); err == nil {
		t.Errorf("the stopped server answered %s", output)
	}
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	mustGit(t, ".", "ls-remote", server.URL("fleet"))
}
