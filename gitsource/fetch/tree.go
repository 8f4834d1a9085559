package fetch

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/filemode"

	"github.com/minifleet/minifleet/gitsource"
)

// maxTreeDepth bounds how deep folders may lie in each other. A tree can hold another one many times, so
// depth alone does not bound the walk: the number of entries does.
const (
	maxTreeDepth   = 64
	maxTreeEntries = 1_000_000
)

var errBadObject = errors.New("an object of the commit cannot be read")

// treeEntry is one line of a tree object.
type treeEntry struct {
	name string
	mode filemode.FileMode
	hash plumbing.Hash
}

// parseTree reads a tree object: "MODE NAME\0" and 20 bytes of hash, over and over.
func parseTree(data []byte) ([]treeEntry, error) {
	var entries []treeEntry
	for len(data) > 0 {
		head, rest, ok := bytes.Cut(data, []byte{0})
		if !ok || len(rest) < len(plumbing.ZeroHash) {
			return nil, errBadObject
		}
		modeText, name, ok := strings.Cut(string(head), " ")
		if !ok || name == "" || name == "." || name == ".." || strings.Contains(name, "/") {
			return nil, errBadObject
		}
		mode, err := filemode.New(modeText)
		if err != nil {
			return nil, errBadObject
		}
		e := treeEntry{name: name, mode: mode}
		copy(e.hash[:], rest)
		entries, data = append(entries, e), rest[len(e.hash):]
	}
	return entries, nil
}

// walker collects the manifests of one commit.
type walker struct {
	ctx     context.Context
	pack    *pack
	root    plumbing.Hash
	limits  Limits
	files   []gitsource.File
	bytes   int64
	entries int
}

// collect reads what lies at at, "" for the root. It returns why at cannot be read, or "".
func (w *walker) collect(at string) (problem string, err error) {
	e, problem, err := w.find(at)
	if err != nil || problem != "" {
		return problem, err
	}
	if e.mode == filemode.Dir {
		return "", w.folder(e.hash, at, 0)
	}
	if !isManifest(at) {
		return "path " + quotePath(at) + " is a file, and not a .yaml, .yml or .json file", nil
	}
	return "", w.blob(e, at)
}

// find resolves a path without following symbolic links or submodules.
func (w *walker) find(at string) (e treeEntry, problem string, err error) {
	e = treeEntry{mode: filemode.Dir, hash: w.root}
	if at == "" {
		return e, "", nil
	}
	parts := strings.Split(at, "/")
	for i, part := range parts {
		entries, err := w.tree(e.hash)
		if err != nil {
			return e, "", err
		}
		here := quotePath(strings.Join(parts[:i+1], "/"))
		index := slices.IndexFunc(entries, func(e treeEntry) bool { return e.name == part })
		if index < 0 {
			return e, "path " + here + " is not in the commit", nil
		}
		switch e = entries[index]; {
		case e.mode == filemode.Symlink:
			return e, "path " + here + " is a symbolic link, which is not followed; name the folder itself", nil
		case e.mode == filemode.Submodule:
			return e, "path " + here + " is a submodule, which is not fetched; make a GitSource for its repository", nil
		case e.mode != filemode.Dir && i < len(parts)-1:
			return e, "path " + here + " is a file, not a folder", nil
		}
	}
	return e, "", nil
}

func (w *walker) tree(hash plumbing.Hash) ([]treeEntry, error) {
	data, ok, err := w.pack.object(hash, plumbing.TreeObject)
	if err != nil {
		return nil, err
	}
	if !ok {
		// The hash of the empty tree need not be sent.
		if hash == plumbing.ComputeHash(plumbing.TreeObject, nil) {
			return nil, nil
		}
		return nil, errBadObject
	}
	return parseTree(data)
}

func (w *walker) folder(hash plumbing.Hash, at string, depth int) error {
	if failure := contextError(w.ctx); failure != nil {
		return failure
	}
	if depth > maxTreeDepth {
		return fail(ReasonLimitExceeded, fmt.Sprintf("folders lie more than %d deep at %s", maxTreeDepth, quotePath(at)))
	}
	entries, err := w.tree(hash)
	if err != nil {
		return err
	}
	if w.entries += len(entries); w.entries > maxTreeEntries {
		return fail(ReasonLimitExceeded, fmt.Sprintf(
			"the path holds more than %d files; name a smaller folder in path", maxTreeEntries))
	}
	for _, e := range entries {
		if err := w.entry(e, path.Join(at, e.name), depth); err != nil {
			return err
		}
	}
	return nil
}

func (w *walker) entry(e treeEntry, at string, depth int) error {
	switch {
	case e.mode == filemode.Dir:
		return w.folder(e.hash, at, depth+1)
	case e.mode == filemode.Submodule:
		return w.add(gitsource.File{Path: at,
			Problem: "is a submodule, which is not fetched; make a GitSource for its repository"})
	case e.mode == filemode.Symlink:
		hides, err := w.hidesManifests(e, at)
		if err != nil || !hides {
			return err
		}
		return w.add(gitsource.File{Path: at,
			Problem: "is a symbolic link, which is not followed; commit the file itself"})
	case isManifest(at):
		return w.blob(e, at)
	}
	return nil
}

// hidesManifests reports whether somebody may expect manifests behind a link: by its name, or because
// it leads to a folder or another link of this commit.
func (w *walker) hidesManifests(e treeEntry, at string) (bool, error) {
	if isManifest(at) {
		return true, nil
	}
	data, ok, err := w.pack.object(e.hash, plumbing.BlobObject)
	if err != nil || !ok {
		return !ok, err
	}
	to := path.Join(path.Dir(at), string(data))
	if strings.HasPrefix(string(data), "/") || to == ".." || strings.HasPrefix(to, "../") {
		return false, nil // outside of the repository there is nothing of this commit
	}
	if to == "." {
		return true, nil
	}
	found, problem, err := w.find(to)
	return problem == "" && found.mode == filemode.Dir || found.mode == filemode.Symlink, err
}

func (w *walker) blob(e treeEntry, at string) error {
	data, ok, err := w.pack.object(e.hash, plumbing.BlobObject)
	if err != nil {
		return err
	}
	if !ok || int64(len(data)) > w.limits.MaxFileBytes {
		// A blob that is missing was omitted by the server's filter or is too large to index.
		return w.add(gitsource.File{Path: at, Problem: "is larger than the limit of " +
			strconv.FormatInt(w.limits.MaxFileBytes, 10) + " bytes for a file; split it"})
	}
	if w.bytes += int64(len(data)); w.bytes > w.limits.MaxTotalBytes {
		return fail(ReasonLimitExceeded, fmt.Sprintf(
			"the manifests are larger than %d bytes together; name a smaller folder in path", w.limits.MaxTotalBytes))
	}
	return w.add(gitsource.File{Path: at, Data: bytes.Clone(data)})
}

func (w *walker) add(f gitsource.File) error {
	if len(w.files) >= w.limits.MaxFiles {
		return fail(ReasonLimitExceeded, fmt.Sprintf(
			"the path holds more than %d manifests; name a smaller folder in path", w.limits.MaxFiles))
	}
	w.files = append(w.files, f)
	return nil
}

func isManifest(name string) bool {
	switch strings.ToLower(path.Ext(name)) {
	case ".yaml", ".yml", ".json":
		return true
	}
	return false
}

func quotePath(p string) string { return strconv.Quote(clip(p, 200)) }
