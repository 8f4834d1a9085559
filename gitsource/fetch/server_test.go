package fetch_test

import (
	"bytes"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/cgi"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

// repository is a Git repository with a worktree, made by the git program.
type repository struct {
	tb  testing.TB
	dir string
}

func newRepository(tb testing.TB) *repository {
	tb.Helper()
	r := &repository{tb: tb, dir: tb.TempDir()}
	r.git("init", "--quiet", "--initial-branch=main")
	return r
}

func (r *repository) git(args ...string) string {
	r.tb.Helper()
	return r.gitInput("", args...)
}

func (r *repository) gitInput(input string, args ...string) string {
	r.tb.Helper()
	cmd := exec.Command("git", args...)
	cmd.Dir, cmd.Env = r.dir, gitEnv()
	cmd.Stdin = strings.NewReader(input)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		r.tb.Fatalf("git %s: %v: %s", strings.Join(args, " "), err, stderr.String())
	}
	return strings.TrimSpace(string(out))
}

func gitEnv() []string {
	return append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1",
		"GIT_AUTHOR_NAME=Ada", "GIT_AUTHOR_EMAIL=ada@example.org", "GIT_AUTHOR_DATE=2026-01-01T00:00:00Z",
		"GIT_COMMITTER_NAME=Ada", "GIT_COMMITTER_EMAIL=ada@example.org", "GIT_COMMITTER_DATE=2026-01-01T00:00:00Z")
}

func (r *repository) write(path, content string) {
	r.tb.Helper()
	full := filepath.Join(r.dir, path)
	if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
		r.tb.Fatal(err)
	}
	if err := os.WriteFile(full, []byte(content), 0o644); err != nil {
		r.tb.Fatal(err)
	}
}

// commit writes files, commits everything and returns the commit's hash.
func (r *repository) commit(files map[string]string) string {
	r.tb.Helper()
	for path, content := range files {
		r.write(path, content)
	}
	r.git("add", "--all")
	r.git("commit", "--quiet", "--allow-empty", "--message=change")
	return r.git("rev-parse", "HEAD")
}

// server serves one repository over smart HTTP with git's own http-backend, and counts requests.
type server struct {
	*httptest.Server
	URL string

	mu       sync.Mutex
	requests []string // METHOD and the last part of the path
	auth     []string // every Authorization header seen
	before   func(http.ResponseWriter, *http.Request) bool
}

// serve starts a server. before, when not nil, may answer a request itself and return true.
func serve(tb testing.TB, r *repository, before func(http.ResponseWriter, *http.Request) bool) *server {
	tb.Helper()
	s := newServer(tb, r, before)
	s.Start()
	s.URL = s.Server.URL + "/.git"
	tb.Cleanup(s.Close)
	return s
}

func newServer(tb testing.TB, r *repository, before func(http.ResponseWriter, *http.Request) bool) *server {
	tb.Helper()
	execPath, err := exec.Command("git", "--exec-path").Output()
	if err != nil {
		tb.Fatalf("git is needed for this test: %v", err)
	}
	backend := &cgi.Handler{
		Path: filepath.Join(strings.TrimSpace(string(execPath)), "git-http-backend"),
		Env: []string{"GIT_PROJECT_ROOT=" + r.dir, "GIT_HTTP_EXPORT_ALL=1",
			"GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1"},
		Stderr: io.Discard, // what git says of requests that are meant to fail
	}
	s := &server{before: before}
	s.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		s.mu.Lock()
		s.requests = append(s.requests, req.Method+" "+req.URL.Path[strings.LastIndex(req.URL.Path, "/")+1:])
		if header := req.Header.Get("Authorization"); header != "" {
			s.auth = append(s.auth, header)
		}
		s.mu.Unlock()
		if s.before != nil && s.before(w, req) {
			return
		}
		backend.ServeHTTP(w, req)
	}))
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	return s
}

func (s *server) seen() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.requests)
}

func (s *server) seenAuth() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.auth)
}

func (s *server) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests, s.auth = nil, nil
}

// pktLine frames text as the Git protocol does: four hexadecimal digits of length, themselves counted.
func pktLine(text string) string { return fmt.Sprintf("%04x%s", len(text)+4, text) }
