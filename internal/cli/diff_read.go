package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/go-git/go-git/v5"
	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/filemode"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/controllers/gitsource"
	"github.com/minifleet/minifleet/gitsource/budget"
	"github.com/minifleet/minifleet/gitsource/fetch"
	"github.com/minifleet/minifleet/gitsource/overlay/build"
	"github.com/minifleet/minifleet/gitsource/worktree"
	"github.com/minifleet/minifleet/internal/cli/review"
	"github.com/minifleet/minifleet/internal/sanitize"
)

// commitFlags say what is compared with the hub.
type commitFlags struct{ folder, revision, repository, ref string }

// maxWorkingFiles is how many files a working tree may have: more than any repository that a GitSource reads.
const maxWorkingFiles = 200_000

// commitRead is what was read.
type commitRead struct {
	fetched  *fetch.Result
	revision review.Revision
	notes    []string
}

// read reads what is to be compared, by the rules of a source, and builds its overlays.
func (f *commitFlags) read(ctx context.Context, env *environment, hub *hubClient, source *v1alpha1.GitSource) (*commitRead, error) {
	out, err := f.fetch(ctx, env, hub, source)
	if err != nil || len(out.fetched.Overlays) == 0 {
		return out, err
	}
	command, err := buildCommand()
	if err != nil {
		return nil, err
	}
	files, again, err := (&build.Builder{Command: command}).Files(ctx, nil, out.fetched.Overlays)
	if again {
		out.notes = append(out.notes, "an overlay could not be built in time: another attempt may have another result")
	}
	out.fetched.Files = append(out.fetched.Files, files...)
	return out, err
}

// fetch reads what is to be compared, with overlays that are not built.
func (f *commitFlags) fetch(ctx context.Context, env *environment, hub *hubClient, source *v1alpha1.GitSource) (*commitRead, error) {
	request := fetch.Request{
		URL: source.Spec.URL, Path: source.Spec.Path, Paths: source.Spec.Paths, Ignore: source.Spec.Ignore,
		Budget: budget.New(ctx, budget.Limits{}, nil),
	}
	switch {
	case f.ref != "":
		return f.readRef(ctx, env, hub, source, request)
	case f.revision != "":
		return f.readRevision(ctx, request)
	default:
		return f.readWorkingTree(ctx, request)
	}
}

// readRef fetches from the server of the source, as the hub would.
func (f *commitFlags) readRef(ctx context.Context, env *environment, hub *hubClient, source *v1alpha1.GitSource, request fetch.Request) (*commitRead, error) {
	out := &commitRead{}
	var err error
	if request.Auth, err = gitAuth(ctx, env, hub, source, out); err != nil {
		return nil, err
	}
	request.Ref = fetch.Ref{Name: f.ref}
	fetcher := fetch.Fetcher{Timeout: max(source.Spec.Timeout.Duration, time.Minute)}
	defer fetcher.CloseIdleConnections()
	if out.fetched, err = fetcher.Fetch(ctx, request); err != nil {
		return nil, err
	}
	out.about(review.AtRef, f.ref)
	return out, nil
}

// gitAuth are the credentials for the server of a source: those of its Secrets where these may be read, with the user,
// password or token of the environment in the place of theirs.
func gitAuth(ctx context.Context, env *environment, hub *hubClient, source *v1alpha1.GitSource, out *commitRead) (*fetch.Auth, error) {
	own := fetch.Auth{Username: env.getenv("MINIFLEET_GIT_USERNAME"), Password: env.getenv("MINIFLEET_GIT_PASSWORD"), BearerToken: env.getenv("MINIFLEET_GIT_TOKEN")}
	given := own.Username != "" || own.Password != "" || own.BearerToken != ""
	auth, err := gitsource.Credentials(source, func(field, name, wanted string) (map[string][]byte, error) {
		var secret corev1.Secret
		err := hub.client.Get(ctx, hub.key(name), &secret)
		if apierrors.IsNotFound(err) {
			return nil, fmt.Errorf("%s: there is no Secret %s/%s: %s", field, hub.namespace, name, wanted)
		}
		return secret.Data, err
	})
	switch {
	case apierrors.IsForbidden(err):
		auth = nil
		if !given {
			out.notes = append(out.notes, "the repository was read without credentials: you may not read the Secrets of the GitSource, and MINIFLEET_GIT_USERNAME and MINIFLEET_GIT_PASSWORD, or MINIFLEET_GIT_TOKEN, are not set")
		}
	case err != nil && !given:
		return nil, err
	}
	if !given {
		return auth, nil
	}
	if err := checkGitHost(source.Spec.URL, env.getenv(gitHostVariable)); err != nil {
		return nil, err
	}
	if auth == nil {
		auth = &fetch.Auth{}
	}
	auth.Username, auth.Password, auth.BearerToken = own.Username, own.Password, own.BearerToken
	return auth, nil
}

// gitHostVariable names the server that the credentials of the environment are for.
const gitHostVariable = "MINIFLEET_GIT_HOST"

// checkGitHost refuses to send credentials of the environment to another server than theirs: spec.url is for others to edit.
func checkGitHost(rawURL, host string) error {
	u, err := url.Parse(rawURL)
	switch {
	case err != nil || u.Scheme != "https":
		return invalid{errors.New("MINIFLEET_GIT_USERNAME, MINIFLEET_GIT_PASSWORD and MINIFLEET_GIT_TOKEN are for https:// alone, which the GitSource's spec.url is not: unset them")}
	case host == "":
		return invalid{fmt.Errorf("%s says which server MINIFLEET_GIT_USERNAME, MINIFLEET_GIT_PASSWORD and MINIFLEET_GIT_TOKEN are for: set it to HOST or HOST:PORT; the GitSource reads from %q", gitHostVariable, sanitize.Text(u.Host, sanitize.MaxNote))}
	case !strings.EqualFold(u.Host, host):
		return invalid{fmt.Errorf("the GitSource reads from %q, and the credentials of the environment are for %s=%q: they are not sent there", sanitize.Text(u.Host, sanitize.MaxNote), gitHostVariable, host)}
	}
	return nil
}

// readRevision reads a commit of a clone.
func (f *commitFlags) readRevision(ctx context.Context, request fetch.Request) (*commitRead, error) {
	clone, err := openClone(cmp.Or(f.repository, "."))
	if err != nil {
		return nil, err
	}
	hash, err := clone.ResolveRevision(plumbing.Revision(f.revision))
	if err != nil {
		return nil, invalid{fmt.Errorf("--revision: the repository has no commit %q: fetch it first (git fetch), or see -C", sanitize.Text(f.revision, sanitize.MaxNote))}
	}
	out := &commitRead{}
	if out.fetched, err = fetch.Local(ctx, clone.Storer, *hash, f.revision, request); err != nil {
		return nil, err
	}
	out.about(review.AtRevision, f.revision)
	return out, nil
}

func openClone(at string) (*git.Repository, error) {
	clone, err := git.PlainOpenWithOptions(at, &git.PlainOpenOptions{DetectDotGit: true, EnableDotGitCommonDir: true})
	if errors.Is(err, git.ErrRepositoryNotExists) {
		return nil, invalid{fmt.Errorf("%s is in no Git repository: name the root of one with -f, or with -C and --revision", at)}
	}
	return clone, err
}

// readWorkingTree reads the files of a folder as if they were committed.
func (f *commitFlags) readWorkingTree(ctx context.Context, request fetch.Request) (*commitRead, error) {
	root, tracked, err := f.workingTree()
	if err != nil {
		return nil, err
	}
	objects, hash, err := worktree.Commit(os.DirFS(root), worktree.Options{
		Tracked: tracked, MaxFileBytes: request.Budget.Limits().MaxFileBytes, MaxFiles: maxWorkingFiles,
	})
	if err != nil {
		return nil, fmt.Errorf("-f: %w", err)
	}
	out := &commitRead{}
	if out.fetched, err = fetch.Local(ctx, objects, hash, "", request); err != nil {
		return nil, err
	}
	if out.fetched.PathMissing {
		out.fetched.PathProblem += " (-f names the root of the repository, " + root + ", and not spec.path in it)"
	}
	out.revision = review.Revision{Kind: review.WorkingTree, Name: root}
	return out, nil
}

// workingTree is the folder to read, and what Git knows of it, if it does.
func (f *commitFlags) workingTree() (root string, tracked map[string]plumbing.Hash, err error) {
	root = f.folder
	if root == "" {
		clone, err := openClone(".")
		if err != nil {
			return "", nil, err
		}
		tree, err := clone.Worktree()
		if err != nil {
			return "", nil, invalid{fmt.Errorf("this repository has no working tree (%w): use --revision", err)}
		}
		root = tree.Filesystem.Root()
	}
	if info, err := os.Stat(root); err != nil || !info.IsDir() {
		return "", nil, invalid{fmt.Errorf("-f: %s is no folder: name the root of the repository's working tree", root)}
	}
	if _, err := os.Lstat(filepath.Join(root, ".git")); errors.Is(err, fs.ErrNotExist) {
		return root, nil, nil
	}
	clone, err := git.PlainOpenWithOptions(root, &git.PlainOpenOptions{EnableDotGitCommonDir: true})
	if err != nil {
		return "", nil, fmt.Errorf("-f: %w", err)
	}
	index, err := clone.Storer.Index()
	if err != nil {
		return "", nil, fmt.Errorf("-f: reading the index of the repository: %w", err)
	}
	tracked = map[string]plumbing.Hash{}
	for _, e := range index.Entries {
		tracked[e.Name] = plumbing.ZeroHash
		if e.Mode == filemode.Submodule {
			tracked[e.Name] = e.Hash
		}
	}
	return root, tracked, nil
}

// about notes what a commit says of itself.
func (c *commitRead) about(kind, name string) {
	c.revision = review.Revision{Kind: kind, Name: name, Commit: c.fetched.Commit, Author: c.fetched.About.Author, Subject: c.fetched.About.Subject}
}
