// Package overlay finds what kustomize needs to build a folder of a repository: the closure of its kustomization. It is
// pure: what comes in is a tree of files (io/fs) and a folder of it; out come the files that the build reads, or what is
// wrong, by file, line, field and entry. Package build builds a closure in a process of its own.
//
//	remote.go         how entries are spelled that kustomize would fetch
//	kustomization.go  one kustomization -> what it refers to
//	plugin.go         one generator, transformer or validator -> what it refers to
//	closure.go        a folder -> the closure of its kustomization
//
// What is refused here never reaches kustomize. What slips through finds neither files nor a network there.
package overlay

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/minifleet/minifleet/gitsource"
)

// Names are those of kustomization files, in the order in which kustomize looks for them.
func Names() []string { return []string{"kustomization.yaml", "kustomization.yml", "Kustomization"} }

// IsKustomization says whether a file of this name makes its folder one that can be built.
func IsKustomization(name string) bool { return slices.Contains(Names(), name) }

// Limits bound a closure. A field of zero takes the default.
type Limits struct {
	// Files is the most files. Default 1,000.
	Files int
	// Bytes is the most that they have together. Default 8 MiB.
	Bytes int64
	// FileBytes is the most that one has. Default 1 MiB.
	FileBytes int64
	// Depth is the most kustomizations that include each other in a row. Default 32.
	Depth int
	// Builds is how often kustomizations are built, where each counts as often as it is included. Default 500.
	Builds int
	// Entries is how many entries one kustomization may have, aliases expanded. Default 5,000.
	Entries int
}

const (
	defaultFiles     = 1_000
	defaultBytes     = 8 << 20
	defaultFileBytes = 1 << 20
	defaultDepth     = 32
	defaultBuilds    = 500
	defaultEntries   = 5_000
)

// WithDefaults returns the limits with defaults in the place of zeros.
func (l Limits) WithDefaults() Limits {
	for _, f := range []struct {
		field *int
		value int
	}{{&l.Files, defaultFiles}, {&l.Depth, defaultDepth}, {&l.Builds, defaultBuilds}, {&l.Entries, defaultEntries}} {
		if *f.field <= 0 {
			*f.field = f.value
		}
	}
	if l.Bytes <= 0 {
		l.Bytes = defaultBytes
	}
	if l.FileBytes <= 0 {
		l.FileBytes = defaultFileBytes
	}
	return l
}

// Closure is what it takes to build one folder.
type Closure struct {
	// Dir is the folder, relative to the root of the repository; empty is the root itself.
	Dir string
	// File is the kustomization file of Dir, relative to the root. It stands for the overlay.
	File string
	// Files are the files that the build reads, by their path from the root. Nil where Problems are set.
	Files map[string][]byte
	// Problems say why it is not built. Whatever the overlay declared before must then be kept.
	Problems []Problem
}

// Problem is something that is wrong with a kustomization, or refused.
type Problem struct {
	// File is where it stands, relative to the root, and Line its line there from 1; 0 where it is not known.
	File string
	Line int
	// Field is the entry, for example resources[2].
	Field string
	// Message says what is wrong and how to correct it.
	Message string
}

// Key identifies what a build makes: closures with equal keys make the same.
func (c *Closure) Key() [sha256.Size]byte {
	h := sha256.New()
	add := func(data []byte) {
		h.Write(binary.BigEndian.AppendUint64(nil, uint64(len(data))))
		h.Write(data)
	}
	add([]byte(c.Dir))
	for _, name := range slices.Sorted(maps.Keys(c.Files)) {
		add([]byte(name))
		add(c.Files[name])
	}
	return [sha256.Size]byte(h.Sum(nil))
}

// Bytes is how much the files have together.
func (c *Closure) Bytes() int64 {
	var n int64
	for _, data := range c.Files {
		n += int64(len(data))
	}
	return n
}

// Refused is what parse makes problems of, where there are any.
func (c *Closure) Refused() gitsource.File {
	out := gitsource.File{Path: c.File}
	for _, p := range c.Problems {
		out.Findings = append(out.Findings, p.finding(c.File))
	}
	return out
}

// finding tells a problem of the overlay whose file is given: that is the file that hub objects are known by. A
// problem of another file names that in its message.
func (p Problem) finding(overlay string) gitsource.Finding {
	if p.File == overlay || p.File == "" {
		return gitsource.Finding{Line: p.Line, Field: p.Field, Message: p.Message}
	}
	place := p.File
	if p.Line > 0 {
		place += ":" + strconv.Itoa(p.Line)
	}
	return gitsource.Finding{Message: strings.Join(slices.DeleteFunc([]string{place, p.Field, p.Message},
		func(s string) bool { return s == "" }), ": ")}
}

// NotBuilt is the warning for a kustomization in a folder below one that is read as plain YAML.
func NotBuilt(file string) gitsource.Finding {
	return gitsource.Finding{Warning: true, Message: "folder " + quote(path.Dir(file)) +
		" holds a kustomization and is not built, since it lies below a path that is read as plain YAML; name the folder in spec.paths if it is to be built"}
}

// Find returns the kustomization file directly in a folder, "" without one. The folder is relative to the root of the
// tree, "" for the root.
func Find(tree fs.FS, dir string) (file string, err error) {
	for _, name := range Names() {
		at := path.Join(dir, name)
		info, err := fs.Lstat(tree, at)
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			return "", err
		case !info.IsDir():
			return at, nil
		}
	}
	return "", nil
}

const maxQuoted = 200

// quote shows an entry of a repository.
func quote(s string) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	if runes := []rune(s); len(runes) > maxQuoted {
		s = string(runes[:maxQuoted]) + "…"
	}
	return strconv.Quote(s)
}
