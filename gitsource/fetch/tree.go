package fetch

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/filemode"

	"github.com/minifleet/minifleet/gitsource"
	"github.com/minifleet/minifleet/gitsource/budget"
	"github.com/minifleet/minifleet/gitsource/overlay"
)

const (
	// maxTreeDepth bounds how deep folders may lie in each other. A tree can hold another one many times, so depth alone
	// does not bound the walk: the number of entries does.
	maxTreeDepth = 64
	// maxPathBytes is the longest path, which is that of Linux. No link can name more.
	maxPathBytes = 4096
	// fileBytes is about what a file takes besides its path and its content, and indexBytes what a name in an index does.
	fileBytes, indexBytes = 280, 120
)

var errBadObject = errors.New("an object of the commit cannot be read")

// treeEntry is one line of a tree object.
type treeEntry struct {
	mode filemode.FileMode
	hash plumbing.Hash
}

// nextEntry reads the first line of a tree object: "MODE NAME\0" and 20 bytes of hash. The name is a part of data.
func nextEntry(data []byte) (e treeEntry, name, rest []byte, err error) {
	head, rest, ok := bytes.Cut(data, []byte{0})
	if !ok || len(rest) < len(plumbing.ZeroHash) {
		return e, nil, nil, errBadObject
	}
	modeText, name, ok := bytes.Cut(head, []byte(" "))
	if !ok || len(name) == 0 || string(name) == "." || string(name) == ".." || bytes.IndexByte(name, '/') >= 0 {
		return e, nil, nil, errBadObject
	}
	if e.mode, err = parseMode(modeText); err != nil {
		return e, nil, nil, err
	}
	copy(e.hash[:], rest)
	return e, name, rest[len(e.hash):], nil
}

// parseMode reads an octal number, as filemode.New does.
func parseMode(text []byte) (filemode.FileMode, error) {
	const most = 10 // digits of 32 bits, and none too many
	var mode filemode.FileMode
	if len(text) == 0 || len(text) > most {
		return 0, errBadObject
	}
	for _, c := range text {
		if c < '0' || c > '7' {
			return 0, errBadObject
		}
		mode = mode<<3 | filemode.FileMode(c-'0')
	}
	return mode, nil
}

// walker collects the manifests of one commit.
type walker struct {
	pack   *pack
	root   plumbing.Hash
	budget *budget.Budget
	files  []gitsource.File
	// contents are those of blobs that are in files already: one that lies at many paths is read once.
	contents map[plumbing.Hash][]byte
	// indexes are the entries of folders, by name, where one of them was wanted.
	indexes map[plumbing.Hash]map[string]treeEntry
	// have says which contents are not needed, nil that all are.
	have func(path, blob string) bool
	// overlays are the paths that are built, and not read as plain YAML, also where another path leads to them; closures is
	// what building them takes.
	overlays map[string]bool
	closures []*overlay.Closure
	ignoring
}

func newWalker(p *pack, root plumbing.Hash, b *budget.Budget) *walker {
	return &walker{pack: p, root: root, budget: b, contents: map[plumbing.Hash][]byte{}, indexes: map[plumbing.Hash]map[string]treeEntry{}}
}

// collectAll reads what lies at clean paths, of which none is twice. It returns which cannot be read and why, or "".
func (w *walker) collectAll(paths []string) (problem string, err error) {
	var problems, there []string
	for _, at := range paths {
		problem, err := w.readable(at)
		if err != nil {
			return "", err
		}
		if problem != "" {
			problems = append(problems, problem)
			continue
		}
		there = append(there, at)
	}
	plain, err := w.findOverlays(there)
	if err != nil {
		return "", err
	}
	for _, at := range slices.Concat(slices.Sorted(maps.Keys(w.overlays)), outermost(plain)) {
		if err := w.collect(at); err != nil {
			return "", err
		}
	}
	if more := len(problems) - maxPathProblems; more > 0 {
		problems = append(problems[:maxPathProblems], fmt.Sprintf("and %d more", more))
	}
	return strings.Join(problems, "; "), nil
}

// maxPathProblems is how many of several paths that cannot be read are named.
const maxPathProblems = 5

// outermost are the paths that do not lie below another one.
func outermost(paths []string) []string {
	var out []string
	for _, at := range slices.Sorted(slices.Values(paths)) {
		if !slices.ContainsFunc(out, func(above string) bool { return above == "" || strings.HasPrefix(at, above+"/") }) {
			out = append(out, at)
		}
	}
	return out
}

// readable says why what lies at at, "" for the root, cannot be read, or "".
func (w *walker) readable(at string) (problem string, err error) {
	e, problem, err := w.find(at)
	if err == nil && problem == "" && e.mode != filemode.Dir && !isManifest(at) {
		problem = "path " + quotePath(at) + " is a file, and not a .yaml, .yml or .json file"
	}
	return problem, err
}

// collect reads what lies at at, which is readable.
func (w *walker) collect(at string) error {
	w.ignoring.files = w.ignoring.files[:0]
	e := treeEntry{mode: filemode.Dir, hash: w.root}
	for end := 0; end < len(at); {
		above := strings.TrimSuffix(at[:end], "/")
		if err := w.enterByIndex(e.hash, above); err != nil {
			return err
		}
		name, _, _ := strings.Cut(at[end:], "/")
		end += len(name)
		var err error
		if e, _, err = w.entryOf(e.hash, name, at); err != nil {
			return err
		}
		if ignored, err := w.ignores(at[:end], e.mode == filemode.Dir); err != nil || ignored {
			return err
		}
		end++
	}
	switch {
	case w.overlays[at]:
		return w.overlay(at)
	case e.mode == filemode.Dir:
		return w.folder(e.hash, at, 0)
	}
	return w.blob(e, at)
}

// find resolves a path without following symbolic links or submodules.
func (w *walker) find(at string) (e treeEntry, problem string, err error) {
	e = treeEntry{mode: filemode.Dir, hash: w.root}
	if at == "" {
		return e, "", nil
	}
	parts := strings.Split(at, "/")
	for i, part := range parts {
		found, ok, err := w.entryOf(e.hash, part, at)
		if err != nil {
			return e, "", err
		}
		here := quotePath(strings.Join(parts[:i+1], "/"))
		if !ok {
			return e, "path " + here + " is not in the commit", nil
		}
		switch e = found; {
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

// entryOf finds a name in a folder, which is read once, however many names are wanted of it.
func (w *walker) entryOf(folder plumbing.Hash, name, at string) (e treeEntry, ok bool, err error) {
	if err := w.budget.Spend(budget.TreeEntries, 1, at); err != nil {
		return e, false, err
	}
	index, known := w.indexes[folder]
	if !known {
		index = map[string]treeEntry{}
		err := w.each(folder, at, nil, func(e treeEntry, name []byte) error {
			index[string(name)] = e
			return w.budget.Hold(int64(indexBytes+len(name)), at)
		})
		if err != nil {
			return e, false, err
		}
		w.indexes[folder] = index
	}
	e, ok = index[name]
	return e, ok, nil
}

// each calls f for the entries of a folder, each of which is spent. The name is valid until f returns. first is called
// with the folder's data before, unless it is nil.
func (w *walker) each(folder plumbing.Hash, at string, first func(data []byte) error, f func(e treeEntry, name []byte) error) error {
	w.pack.at = at
	data, ok, err := w.pack.object(folder, plumbing.TreeObject)
	if err != nil {
		return err
	}
	if !ok && folder != emptyTree {
		return fail(ReasonLimitExceeded, fmt.Sprintf(
			"the folder at %s cannot be read: it is a list of more than %d MiB, or the server did not send it; split it", quotePath(at), maxObjectBytes>>20))
	}
	if err := w.budget.Hold(int64(len(data)), at); err != nil {
		return err
	}
	defer w.budget.Free(int64(len(data)))
	if first != nil {
		if err := first(data); err != nil {
			return err
		}
	}
	for len(data) > 0 {
		e, name, rest, err := nextEntry(data)
		if err != nil {
			return err
		}
		if err := w.budget.Spend(budget.TreeEntries, 1, at); err != nil {
			return err
		}
		if err := f(e, name); err != nil {
			return err
		}
		data = rest
	}
	return nil
}

func (w *walker) folder(hash plumbing.Hash, at string, depth int) error {
	if depth > maxTreeDepth {
		return fail(ReasonLimitExceeded, fmt.Sprintf("folders lie more than %d deep at %s; move the manifests up", maxTreeDepth, quotePath(at)))
	}
	around := len(w.ignoring.files)
	defer func() { w.ignoring.files = w.ignoring.files[:around] }()
	return w.each(hash, at, func(data []byte) error { return w.enter(data, at) },
		func(e treeEntry, name []byte) error { return w.entry(e, name, at, depth) })
}

// matters says whether there is anything to do for an entry of a folder.
func matters(e treeEntry, name []byte) bool {
	return e.mode == filemode.Dir || e.mode == filemode.Submodule || e.mode == filemode.Symlink ||
		isManifest(string(name[max(0, len(name)-8):])) || overlay.IsKustomization(string(name))
}

// entry collects one entry of the folder at in.
func (w *walker) entry(e treeEntry, name []byte, in string, depth int) error {
	if !matters(e, name) {
		return nil
	}
	if len(in)+1+len(name) > maxPathBytes {
		return fail(ReasonLimitExceeded, fmt.Sprintf("a path below %s is longer than %d bytes; shorten it", quotePath(in), maxPathBytes))
	}
	at := path.Join(in, string(name))
	if ignored, err := w.ignores(at, e.mode == filemode.Dir || e.mode == filemode.Submodule); err != nil || ignored {
		return err
	}
	switch e.mode {
	case filemode.Dir:
		if w.overlays[at] {
			return nil
		}
		return w.folder(e.hash, at, depth+1)
	case filemode.Submodule:
		return w.add(gitsource.File{Path: at,
			Problem: "is a submodule, which is not fetched; make a GitSource for its repository"})
	case filemode.Symlink:
		hides, err := w.hidesManifests(e, at)
		if err != nil || !hides {
			return err
		}
		return w.add(gitsource.File{Path: at,
			Problem: "is a symbolic link, which is not followed; commit the file itself"})
	}
	if !isManifest(at) { // a kustomization without an extension, in which nothing else is looked for
		return w.add(gitsource.File{Path: at, Findings: findings(at)})
	}
	return w.blob(e, at)
}

// hidesManifests reports whether somebody may expect manifests behind a link: by its name, or because
// it leads to a folder or another link of this commit.
func (w *walker) hidesManifests(e treeEntry, at string) (bool, error) {
	if isManifest(at) {
		return true, nil
	}
	if size, ok := w.pack.size(e.hash); !ok || size > maxPathBytes {
		return !ok, nil // one that is too long leads nowhere
	}
	w.pack.at = at
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
	most := w.budget.Limits().MaxFileBytes
	size, ok := w.pack.size(e.hash)
	if !ok || size > most {
		// A blob that is missing was omitted by the server's filter or is too large to index.
		return w.add(gitsource.File{Path: at, Problem: "is larger than the limit of " +
			strconv.FormatInt(most, 10) + " bytes for a file; split it"})
	}
	if err := w.budget.Spend(budget.ManifestBytes, size, at); err != nil {
		return err
	}
	id := e.hash.String()
	if w.have != nil && w.have(at, id) {
		return w.add(gitsource.File{Path: at, Blob: id, Findings: findings(at)})
	}
	data, known := w.contents[e.hash]
	if !known {
		w.pack.at = at
		read, ok, err := w.pack.object(e.hash, plumbing.BlobObject)
		if err != nil {
			return err
		}
		if !ok {
			return errBadObject // not reachable: it has a size
		}
		if err := w.budget.Hold(int64(len(read)), at); err != nil {
			return err
		}
		data = bytes.Clone(read)
		w.contents[e.hash] = data
	}
	if isLFSPointer(data) {
		return w.add(gitsource.File{Path: at, Problem: lfsProblem})
	}
	return w.add(gitsource.File{Path: at, Data: data, Blob: id, Findings: findings(at)})
}

func (w *walker) add(f gitsource.File) error {
	if err := w.budget.Spend(budget.Files, 1, f.Path); err != nil {
		return err
	}
	if err := w.budget.Hold(int64(fileBytes+len(f.Path)), f.Path); err != nil {
		return err
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
