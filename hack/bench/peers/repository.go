package peers

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// repository is a Git repository on the local server, and a clone of it.
type repository struct {
	url, clone string
}

// repository makes the repository of a turn, with a first commit of some files, given by path.
func (t *turn) repository(ctx context.Context, files map[string]string) (*repository, error) {
	if err := t.git.CreateRepo(t.namespace); err != nil {
		return nil, err
	}
	r := &repository{url: t.git.URL(t.namespace), clone: t.path("clone")}
	if err := os.MkdirAll(r.clone, 0o755); err != nil {
		return nil, err
	}
	for _, args := range [][]string{
		{"init", "--quiet", "--initial-branch=main"},
		{"remote", "add", "origin", r.url},
		{"config", "user.name", "bench"}, {"config", "user.email", "bench@minifleet.invalid"},
		{"config", "gc.auto", "0"}, {"config", "http.proxy", ""},
	} {
		if err := r.git(ctx, args...); err != nil {
			return nil, err
		}
	}
	return r, r.push(ctx, files)
}

// push commits files, given by path, and pushes.
func (r *repository) push(ctx context.Context, files map[string]string) error {
	for path, content := range files {
		path = filepath.Join(r.clone, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			return err
		}
	}
	for _, args := range [][]string{{"add", "-A"}, {"commit", "--quiet", "--message=Measure"}, {"push", "--quiet", "origin", "HEAD:main"}} {
		if err := r.git(ctx, args...); err != nil {
			return err
		}
	}
	return nil
}

// git runs git in the clone, without the user's and the machine's configuration.
func (r *repository) git(ctx context.Context, args ...string) error {
	command := exec.CommandContext(ctx, "git", args...)
	command.Dir = r.clone
	command.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=/nonexistent", "GIT_CONFIG_GLOBAL=" + os.DevNull, "GIT_CONFIG_NOSYSTEM=1"}
	if output, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("git %s: %w: %s", args[0], err, output)
	}
	return nil
}
