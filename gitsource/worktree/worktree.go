// Package worktree makes a commit, in memory, of the files of a folder: the one that `git add --all` and `git commit` would
// make. Nothing is changed in the folder or in its repository.
package worktree

import (
	"bytes"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/filemode"
	"github.com/go-git/go-git/v5/plumbing/storer"
	"github.com/go-git/go-git/v5/storage/memory"

	"github.com/minifleet/minifleet/gitsource/ignore"
)

// Options say what is known of the folder beside its files.
type Options struct {
	// Tracked are the paths in the index of the repository, with the hash of each that is a submodule. What is tracked is
	// in the commit even where .gitignore says otherwise.
	Tracked map[string]plumbing.Hash
	// MaxFileBytes is the largest file whose content is read; larger ones are in the commit without their content.
	MaxFileBytes int64
	// MaxFiles is how many files there may be.
	MaxFiles int
}

// Commit makes the commit.
func Commit(folder fs.FS, o Options) (storer.EncodedObjectStorer, plumbing.Hash, error) {
	w := &writer{fs: folder, o: o, objects: memory.NewStorage(), tracked: map[string]bool{}}
	for name := range o.Tracked {
		for at := path.Dir(name); at != "." && !w.tracked[at]; at = path.Dir(at) {
			w.tracked[at] = true
		}
	}
	tree, err := w.folder(".", nil, false)
	if err != nil {
		return nil, plumbing.ZeroHash, err
	}
	text := fmt.Sprintf("tree %s\nauthor - <> 0 +0000\ncommitter - <> 0 +0000\n\nThe working tree\n", tree)
	hash, err := w.store(plumbing.CommitObject, []byte(text))
	return w.objects, hash, err
}

type writer struct {
	fs      fs.FS
	o       Options
	objects *memory.Storage
	tracked map[string]bool // folders with something tracked in them
	files   int
}

// entry is a line of a tree.
type entry struct {
	name string
	mode filemode.FileMode
	hash plumbing.Hash
}

// sortKey is what Git sorts the entries of a tree by.
func (e entry) sortKey() string {
	if e.mode == filemode.Dir {
		return e.name + "/"
	}
	return e.name
}

// folder stores a tree. Rules are those of the .gitignore files above. Of a folder that is ignored, only what is tracked.
func (w *writer) folder(at string, rules []ignore.File, ignored bool) (plumbing.Hash, error) {
	list, err := fs.ReadDir(w.fs, at)
	if err != nil {
		return plumbing.ZeroHash, err
	}
	rules = append(slices.Clip(rules), w.rules(at)...)
	var entries []entry
	for _, e := range list {
		name := path.Join(at, e.Name())
		out := ignored || w.ignored(rules, name, e.IsDir())
		if e.Name() == ".git" || out && !w.isTracked(name) {
			continue
		}
		made, err := w.entry(name, e, rules, out)
		if err != nil {
			return plumbing.ZeroHash, err
		}
		if made.mode != filemode.Empty {
			entries = append(entries, made)
		}
	}
	return w.tree(entries)
}

func (w *writer) ignored(rules []ignore.File, name string, folder bool) bool {
	decision, err := ignore.Decide(rules, name, folder, func(int64) error { return nil }) // the rules are of whoever asks
	return err == nil && decision == ignore.Ignored
}

// isTracked says whether a file, or something in a folder, is in the index.
func (w *writer) isTracked(name string) bool {
	_, is := w.o.Tracked[name]
	return is || w.tracked[name]
}

// entry is that of one name; of mode Empty where Git would keep none.
func (w *writer) entry(name string, e fs.DirEntry, rules []ignore.File, ignored bool) (entry, error) {
	out := entry{name: e.Name(), mode: filemode.Empty}
	switch mode := e.Type(); {
	case mode.IsDir() && w.submodule(name):
		// What is registered has the hash that is registered; an embedded repository would have that of its HEAD.
		out.mode, out.hash = filemode.Submodule, w.o.Tracked[name]
		if out.hash.IsZero() {
			out.hash = plumbing.ComputeHash(plumbing.CommitObject, []byte(name))
		}
	case mode.IsDir():
		hash, err := w.folder(name, rules, ignored)
		if err != nil || hash == emptyTree {
			return out, err
		}
		out.mode, out.hash = filemode.Dir, hash
	case mode&fs.ModeSymlink != 0:
		to, err := fs.ReadLink(w.fs, name)
		if err != nil {
			return out, err
		}
		out.mode = filemode.Symlink
		out.hash, err = w.store(plumbing.BlobObject, []byte(filepath.ToSlash(to)))
		return out, err
	case mode.IsRegular():
		hash, err := w.file(name, e)
		if err != nil {
			return out, err
		}
		out.mode, out.hash = filemode.Regular, hash
	}
	return out, nil
}

// submodule says whether a folder is a repository of its own.
func (w *writer) submodule(name string) bool {
	if hash, is := w.o.Tracked[name]; is && !hash.IsZero() {
		return true
	}
	_, err := fs.Stat(w.fs, path.Join(name, ".git"))
	return err == nil
}

func (w *writer) file(name string, e fs.DirEntry) (plumbing.Hash, error) {
	if w.files++; w.files > w.o.MaxFiles {
		return plumbing.ZeroHash, fmt.Errorf("there are more than %d files, which no repository for manifests has: is the folder right?", w.o.MaxFiles)
	}
	info, err := e.Info()
	if err != nil {
		return plumbing.ZeroHash, err
	}
	if info.Size() > w.o.MaxFileBytes {
		return w.store(plumbing.BlobObject, make([]byte, w.o.MaxFileBytes+1)) // it stands for all that are too large
	}
	data, err := fs.ReadFile(w.fs, name)
	if err != nil {
		return plumbing.ZeroHash, err
	}
	return w.store(plumbing.BlobObject, data)
}

var emptyTree = plumbing.ComputeHash(plumbing.TreeObject, nil)

func (w *writer) tree(entries []entry) (plumbing.Hash, error) {
	slices.SortFunc(entries, func(a, b entry) int { return strings.Compare(a.sortKey(), b.sortKey()) })
	var b bytes.Buffer
	for _, e := range entries {
		fmt.Fprintf(&b, "%o %s\x00", uint32(e.mode), e.name)
		b.Write(e.hash[:])
	}
	return w.store(plumbing.TreeObject, b.Bytes())
}

func (w *writer) store(kind plumbing.ObjectType, data []byte) (plumbing.Hash, error) {
	o := w.objects.NewEncodedObject()
	o.SetType(kind)
	out, err := o.Writer()
	if err != nil {
		return plumbing.ZeroHash, err
	}
	if _, err := out.Write(data); err != nil {
		return plumbing.ZeroHash, err
	}
	return w.objects.SetEncodedObject(o)
}

// rules are those of the .gitignore file of a folder, and at the root those of .git/info/exclude before them.
func (w *writer) rules(at string) []ignore.File {
	names, folder := []string{path.Join(at, ".gitignore")}, at
	if at == "." {
		names, folder = []string{".git/info/exclude", ".gitignore"}, ""
	}
	var out []ignore.File
	for _, name := range names {
		if data, err := fs.ReadFile(w.fs, name); err == nil { // else there is none, or it is no file
			out = append(out, ignore.File{Folder: folder, Rules: ignore.Parse(data)})
		}
	}
	return out
}
