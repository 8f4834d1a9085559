package fetch

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"math"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/filemode"

	"github.com/minifleet/minifleet/gitsource"
	"github.com/minifleet/minifleet/gitsource/budget"
	"github.com/minifleet/minifleet/gitsource/overlay"
)

// commitFS are the files of a commit: reading them spends the walker's budget. Symbolic links and submodules
// (fs.ModeIrregular) are not followed. Files that the server has left out, since they are too large, have a size beyond
// all limits and cannot be read.
type commitFS struct{ w *walker }

var (
	_ fs.ReadFileFS = commitFS{}
	_ fs.ReadDirFS  = commitFS{}
	_ fs.StatFS     = commitFS{}
	_ fs.ReadLinkFS = commitFS{}
)

// entry finds a name; what is not there is fs.ErrNotExist, and other errors end the reading.
func (c commitFS) entry(op, name string) (treeEntry, error) {
	e := treeEntry{mode: filemode.Dir, hash: c.w.root}
	if !fs.ValidPath(name) {
		return e, &fs.PathError{Op: op, Path: name, Err: fs.ErrInvalid}
	}
	if name == "." {
		return e, nil
	}
	for part := range strings.SplitSeq(name, "/") {
		ok := e.mode == filemode.Dir
		if ok {
			var err error
			if e, ok, err = c.w.entryOf(e.hash, part, name); err != nil {
				return e, err
			}
		}
		if !ok {
			return e, &fs.PathError{Op: op, Path: name, Err: fs.ErrNotExist}
		}
	}
	return e, nil
}

func (c commitFS) Lstat(name string) (fs.FileInfo, error) {
	e, err := c.entry("lstat", name)
	if err != nil {
		return nil, err
	}
	return c.info(e, name), nil
}

// Stat is Lstat.
func (c commitFS) Stat(name string) (fs.FileInfo, error) { return c.Lstat(name) }

// ReadLink reads no link: none is followed.
func (c commitFS) ReadLink(name string) (string, error) {
	return "", &fs.PathError{Op: "readlink", Path: name, Err: errors.ErrUnsupported}
}

func (c commitFS) info(e treeEntry, name string) entryInfo {
	info := entryInfo{name: path.Base(name), mode: modeOf(e.mode)}
	if info.mode.IsRegular() {
		info.size = math.MaxInt64
		if size, ok := c.w.pack.size(e.hash); ok {
			info.size = size
		}
	}
	return info
}

func modeOf(mode filemode.FileMode) fs.FileMode {
	switch mode {
	case filemode.Dir:
		return fs.ModeDir
	case filemode.Symlink:
		return fs.ModeSymlink
	case filemode.Submodule:
		return fs.ModeIrregular
	}
	return 0
}

// ReadFile spends the file as manifests are spent.
func (c commitFS) ReadFile(name string) ([]byte, error) {
	e, err := c.entry("read", name)
	if err != nil {
		return nil, err
	}
	info := c.info(e, name)
	if !info.mode.IsRegular() || info.size == math.MaxInt64 {
		return nil, &fs.PathError{Op: "read", Path: name, Err: fs.ErrInvalid}
	}
	if err := c.w.budget.Spend(budget.Files, 1, name); err != nil {
		return nil, err
	}
	if err := c.w.budget.Spend(budget.ManifestBytes, info.size, name); err != nil {
		return nil, err
	}
	if err := c.w.budget.Hold(info.size, name); err != nil {
		return nil, err
	}
	c.w.pack.at = name
	data, ok, err := c.w.pack.object(e.hash, plumbing.BlobObject)
	if err != nil {
		return nil, err
	}
	if !ok {
		return nil, errBadObject // not reachable: it has a size
	}
	return bytes.Clone(data), nil
}

func (c commitFS) ReadDir(name string) ([]fs.DirEntry, error) {
	e, err := c.entry("readdir", name)
	if err != nil {
		return nil, err
	}
	if e.mode != filemode.Dir {
		return nil, &fs.PathError{Op: "readdir", Path: name, Err: fs.ErrInvalid}
	}
	var out []fs.DirEntry
	err = c.w.each(e.hash, name, nil, func(e treeEntry, name []byte) error {
		out = append(out, fs.FileInfoToDirEntry(c.info(e, string(name))))
		return c.w.budget.Hold(int64(indexBytes+len(name)), string(name))
	})
	slices.SortFunc(out, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	return out, err
}

func (c commitFS) Open(name string) (fs.File, error) {
	e, err := c.entry("open", name)
	if err != nil {
		return nil, err
	}
	f := &entryFile{info: c.info(e, name)}
	switch {
	case e.mode == filemode.Dir:
		f.entries, err = c.ReadDir(name)
	case f.info.mode.IsRegular():
		var data []byte
		data, err = c.ReadFile(name)
		f.Reader = bytes.NewReader(data)
	default:
		err = &fs.PathError{Op: "open", Path: name, Err: fs.ErrInvalid}
	}
	return f, err
}

// entryInfo is what is known of an entry.
type entryInfo struct {
	name string
	mode fs.FileMode
	size int64
}

func (i entryInfo) Name() string       { return i.name }
func (i entryInfo) Size() int64        { return i.size }
func (i entryInfo) Mode() fs.FileMode  { return i.mode | 0o444 }
func (i entryInfo) ModTime() time.Time { return time.Time{} }
func (i entryInfo) IsDir() bool        { return i.mode.IsDir() }
func (i entryInfo) Sys() any           { return nil }

// entryFile is an entry that was opened: a file with a reader, or a folder with entries.
type entryFile struct {
	*bytes.Reader
	info    entryInfo
	entries []fs.DirEntry
}

func (f *entryFile) Stat() (fs.FileInfo, error) { return f.info, nil }
func (f *entryFile) Close() error               { return nil }

func (f *entryFile) Read(p []byte) (int, error) {
	if f.Reader == nil {
		return 0, &fs.PathError{Op: "read", Path: f.info.name, Err: fs.ErrInvalid}
	}
	return f.Reader.Read(p)
}

func (f *entryFile) ReadDir(n int) ([]fs.DirEntry, error) {
	if n <= 0 {
		n = len(f.entries)
	} else if len(f.entries) == 0 {
		return nil, io.EOF
	}
	n = min(n, len(f.entries))
	out := f.entries[:n]
	f.entries = f.entries[n:]
	return out, nil
}

// findOverlays notes which of the paths are folders that hold a kustomization, and returns the others.
func (w *walker) findOverlays(paths []string) (plain []string, err error) {
	w.overlays = map[string]bool{}
	for _, at := range paths {
		e, _, err := w.find(at)
		if err != nil {
			return nil, err
		}
		file := ""
		if e.mode == filemode.Dir {
			if file, err = overlay.Find(commitFS{w}, at); err != nil {
				return nil, err
			}
		}
		if file == "" {
			plain = append(plain, at)
		} else {
			w.overlays[at] = true
		}
	}
	return plain, nil
}

// overlay follows the kustomization of a folder.
func (w *walker) overlay(at string) error {
	c, err := overlay.Follow(commitFS{w}, at, overlay.Limits{FileBytes: w.budget.Limits().MaxFileBytes})
	if err != nil {
		return err
	}
	w.closures = append(w.closures, c)
	return nil
}

// findings are what is told of a file that is read as plain YAML, by its path.
func findings(at string) []gitsource.Finding {
	if overlay.IsKustomization(path.Base(at)) {
		return []gitsource.Finding{overlay.NotBuilt(at)}
	}
	return nil
}
