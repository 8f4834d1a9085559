package main

import (
	"context"
	"embed"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// repositoryName is the name of the Git repository and of the GitSource that follows it.
const repositoryName = "fleet"

//go:embed fleet
var manifests embed.FS

// writeManifests puts the MiniClusters into a directory.
func writeManifests(dir string) error {
	files, err := fs.Sub(manifests, "fleet")
	if err != nil {
		return err
	}
	return os.CopyFS(dir, files)
}

// makeClone makes a clone of the empty repository at url, with the MiniClusters committed but not yet
// pushed. In it, `git commit` and `git push` work whatever Git is set to for the user or the machine.
func makeClone(ctx context.Context, dir, url string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for _, args := range [][]string{
		{"init", "--quiet", "--initial-branch=main"},
		{"remote", "add", "origin", url},
		{"config", "user.name", "MiniFleet demo"},
		{"config", "user.email", "demo@minifleet.invalid"},
		{"config", "commit.gpgsign", "false"},
		{"config", "push.default", "simple"},
		{"config", "http.proxy", ""}, // the repository is on this machine
	} {
		if err := git(ctx, dir, args...); err != nil {
			return err
		}
	}
	if err := writeManifests(dir); err != nil {
		return err
	}
	if err := git(ctx, dir, "add", "."); err != nil {
		return err
	}
	return git(ctx, dir, "commit", "--quiet", "--message=Add the first MiniClusters")
}

func pushClone(ctx context.Context, dir string) error {
	return git(ctx, dir, "push", "--quiet", "--set-upstream", "origin", "main")
}

// git runs git in a directory, without the user's and the machine's configuration.
func git(ctx context.Context, dir string, args ...string) error {
	command := exec.CommandContext(ctx, "git", args...)
	command.Dir = dir
	command.Env = append(withoutGit(os.Environ()),
		"GIT_CONFIG_GLOBAL="+os.DevNull, "GIT_CONFIG_NOSYSTEM=1", "GIT_TERMINAL_PROMPT=0")
	if output, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("git %s: %w: %s", strings.Join(args, " "), err, output)
	}
	return nil
}

// withoutGit drops Git's own variables: in a hook, they would lead git to another repository.
func withoutGit(environment []string) []string {
	var kept []string
	for _, variable := range environment {
		if !strings.HasPrefix(variable, "GIT_") {
			kept = append(kept, variable)
		}
	}
	return kept
}

// buildGitServer builds the program that serves the repository after this one has ended.
func buildGitServer(ctx context.Context, root, path string) error {
	command := exec.CommandContext(ctx, "go", "build", "-o", path, "./"+filepath.Join("hack", "lab", "cmd", "gitserver"))
	command.Dir = root
	if output, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("building the Git server: %w: %s", err, output)
	}
	return nil
}
