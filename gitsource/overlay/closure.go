package overlay

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// maxProblems is how many problems of one overlay are told.
const maxProblems = 10

// Follow finds the closure of the kustomization in a folder of a tree, "" for its root. The tree tells symbolic links and
// submodules (fs.ModeIrregular) by the mode of Lstat, and follows neither; its other errors than fs.ErrNotExist end the
// search. What is wrong with the kustomization is no error, but in Closure.Problems.
func Follow(tree fs.FS, dir string, limits Limits) (*Closure, error) {
	dir = path.Clean(dir)
	if dir == "." {
		dir = ""
	}
	file, err := Find(tree, dir)
	if err != nil {
		return nil, err
	}
	if file == "" {
		return nil, fmt.Errorf("folder %s holds no kustomization: %w", quote(dir), fs.ErrNotExist)
	}
	f := &follower{
		tree: tree, limits: limits.WithDefaults(), files: map[string][]byte{}, kinds: map[string]fs.FileMode{}, builds: map[string]int{},
	}
	if _, err := f.kustomization(place{file: file}, dir, nil); err != nil && !errors.Is(err, errStop) {
		return nil, err
	}
	c := &Closure{Dir: dir, File: file, Problems: f.problems}
	if len(c.Problems) == 0 {
		c.Files = f.files
	}
	return c, nil
}

// errStop ends the search after a problem beside which others do not matter.
var errStop = errors.New("stopped")

// follower is one call of Follow.
type follower struct {
	tree     fs.FS
	limits   Limits
	files    map[string][]byte
	bytes    int64
	problems []Problem
	// kinds are the modes of what was asked for, with absent for what is not there.
	kinds map[string]fs.FileMode
	// open are the folders that are being followed, each of which includes the next.
	open []string
	// builds says how often building a folder builds kustomizations, for folders that were followed.
	builds map[string]int
}

// place is where an entry stands.
type place struct {
	file  string
	line  int
	field string
}

// configured is what a folder of configurations is followed for: their own references count from the folder of the
// kustomization that uses them.
type configured struct{ root string }

func (f *follower) report(at place, message string) error {
	f.problems = append(f.problems, Problem{File: at.file, Line: at.line, Field: at.field, Message: message})
	if len(f.problems) >= maxProblems {
		return errStop
	}
	return nil
}

// stop reports what ends the search.
func (f *follower) stop(at place, message string) error {
	if err := f.report(at, message); err != nil {
		return err
	}
	return errStop
}

// kustomization follows that of a folder, to which at refers. It returns how many kustomizations are built for it.
func (f *follower) kustomization(at place, dir string, as *configured) (builds int, err error) {
	for i, above := range f.open {
		if within(above, dir) {
			return 0, f.report(at, fmt.Sprintf("folder %s is included by itself or by a folder in it (%s): a kustomization cannot include its own folder or one above it; remove the entry",
				shownDir(dir), chain(f.open[i:], dir)))
		}
	}
	if len(f.open) >= f.limits.Depth {
		return 0, f.stop(at, fmt.Sprintf("kustomizations include each other more than %d deep; flatten them", f.limits.Depth))
	}
	key := dir
	if as != nil {
		key += "\x00" + as.root
	}
	if n, known := f.builds[key]; known {
		return n, nil
	}
	f.open = append(f.open, dir)
	defer func() { f.open = f.open[:len(f.open)-1] }()
	file, err := f.only(at, dir)
	if file == "" || err != nil {
		return 0, err
	}
	references, err := f.read(at, file)
	if err != nil {
		return 0, err
	}
	builds = 1
	for _, r := range references {
		n, err := f.reference(place{file, r.line, r.field}, dir, r, as)
		if err != nil {
			return 0, err
		}
		if builds += n; builds > f.limits.Builds {
			return 0, f.stop(place{file, r.line, r.field}, fmt.Sprintf("kustomizations are built more than %d times, each as often as it is included; include each base once", f.limits.Builds))
		}
	}
	f.builds[key] = builds
	return builds, nil
}

// only finds the one kustomization file of a folder, "" after a problem.
func (f *follower) only(at place, dir string) (string, error) {
	var found []string
	for _, name := range Names() {
		file := path.Join(dir, name)
		kind, _, err := f.kind(file)
		if err != nil {
			return "", err
		}
		if kind != absent && !kind.IsDir() {
			found = append(found, file)
		}
	}
	switch len(found) {
	case 0:
		return "", f.report(at, fmt.Sprintf("folder %s holds no kustomization.yaml: add one, or name the files of the folder", shownDir(dir)))
	case 1:
		return found[0], nil
	}
	return "", f.report(at, fmt.Sprintf("folder %s holds several kustomizations (%s), and kustomize wants one; remove the others", shownDir(dir), strings.Join(found, ", ")))
}

// read reads a kustomization, and returns what it refers to.
func (f *follower) read(at place, file string) ([]reference, error) {
	if ok, err := f.add(at, file); !ok || err != nil {
		return nil, err
	}
	docs, err := documents(f.files[file], 1)
	if err != nil {
		return nil, f.report(place{file: file}, err.Error())
	}
	c := &collector{most: f.limits.Entries}
	if len(docs) > 0 {
		err = c.fields(docs[0], uses, "")
	}
	return f.collected(c, place{file: file}, err)
}

// collected are the references of a collector, once its problems are reported.
func (f *follower) collected(c *collector, at place, err error) ([]reference, error) {
	if err != nil {
		return nil, f.stop(at, fmt.Sprintf("has more than %d entries, aliases expanded; split it", f.limits.Entries))
	}
	for _, p := range c.refused {
		line := p.Line
		if at.field != "" { // a configuration within a kustomization
			line, p.Field = at.line, at.field+": "+p.Field
		}
		if err := f.report(place{at.file, line, p.Field}, p.Message); err != nil {
			return nil, err
		}
	}
	return c.references, nil
}

// reference follows one entry of a kustomization or configuration in dir, and returns how many kustomizations are built
// for it.
func (f *follower) reference(at place, dir string, r reference, as *configured) (builds int, err error) {
	entry := r.entry
	switch r.use {
	case useSource:
		if _, file, found := strings.Cut(entry, "="); found && !strings.Contains(file, "=") {
			entry = file
		}
	case usePatch:
		if inline(entry) {
			return 0, nil
		}
	case usePlugin:
		if inline(entry) {
			return 0, f.plugins(at, dir, []byte(entry))
		}
		as = &configured{dir}
	}
	name, problem := locate(dir, entry)
	if problem != "" {
		return 0, f.report(at, problem)
	}
	return f.named(at, name, entry, r.use, as)
}

// locate returns the path in the repository that an entry of a kustomization in dir names, or why it names none.
func locate(dir, entry string) (name, problem string) {
	switch {
	case entry == "":
		return "", "is empty: name a file or a folder, or remove the entry"
	case isURL(entry):
		return "", remoteRefused(entry)
	case isAbsolute(entry):
		return "", fmt.Sprintf("%s is an absolute path: name what is in the repository, relative to the kustomization", quote(entry))
	}
	name = path.Join(dir, entry)
	if name == ".." || strings.HasPrefix(name, "../") {
		return "", fmt.Sprintf("%s lies outside of the repository: commit it into the repository, and name it there", quote(entry))
	}
	return name, ""
}

func remoteRefused(entry string) string {
	return fmt.Sprintf("%s is remote, and nothing is fetched while an overlay is built: commit it into this repository, and name it there", quote(entry))
}

// named follows what an entry names: name is its path in the repository.
func (f *follower) named(at place, name, entry string, as use, config *configured) (builds int, err error) {
	kind, problem, err := f.kind(name)
	if err != nil {
		return 0, err
	}
	if problem == "" {
		problem = unusable(kind, name, entry, as)
	}
	if problem != "" {
		return 0, f.report(at, problem)
	}
	if kind.IsDir() {
		if name == "." {
			name = ""
		}
		return f.kustomization(at, name, config)
	}
	ok, err := f.add(at, name)
	if !ok || err != nil || config == nil || as != usePlugin && as != useResource {
		return 0, err
	}
	return 0, f.plugins(place{file: name}, config.root, f.files[name])
}

// unusable says why what an entry names cannot be used as it should be, "" if it can.
func unusable(kind fs.FileMode, name, entry string, as use) string {
	folders := as == useResource || as == useComponent || as == usePlugin
	switch {
	case folders && !kind.IsRegular() && isRepository(entry):
		return remoteRefused(entry)
	case kind == absent && (looksRemote(entry) || isRepository(entry)):
		return fmt.Sprintf("%s is not in the repository, and what is remote is not fetched while an overlay is built: commit it into this repository, and name it there", quote(entry))
	case kind == absent:
		return fmt.Sprintf("%s is not in the repository (%s): commit it, or correct the entry", quote(entry), quote(name))
	case kind.IsDir() && !folders:
		return fmt.Sprintf("%s is a folder, and a file is wanted here", quote(entry))
	case !kind.IsDir() && as == useComponent:
		return fmt.Sprintf("%s is a file, and a component is the folder of a kustomization", quote(entry))
	}
	return ""
}

// plugins follows the configurations of generators, transformers and validators, whose references count from dir.
func (f *follower) plugins(at place, dir string, data []byte) error {
	docs, err := documents(data, maxPluginDocuments)
	if err != nil {
		return f.report(at, err.Error())
	}
	c := &collector{most: f.limits.Entries}
	for _, doc := range docs {
		if doc.Kind != yaml.MappingNode {
			continue
		}
		if err = c.plugin(doc, 0); err != nil {
			break
		}
	}
	references, err := f.collected(c, at, err)
	if err != nil {
		return err
	}
	for _, r := range references {
		where := place{at.file, r.line, r.field}
		if at.field != "" {
			where.line, where.field = at.line, at.field+": "+r.field
		}
		if _, err := f.reference(where, dir, r, nil); err != nil {
			return err
		}
	}
	return nil
}

// absent is the kind of what is not there.
const absent fs.FileMode = fs.ModeType

// kind returns the mode of what lies at a path, absent where nothing does, and the problem of a link or a submodule on the
// way to it.
func (f *follower) kind(name string) (mode fs.FileMode, problem string, err error) {
	if name == "." || name == "" {
		return fs.ModeDir, "", nil
	}
	for i := 0; i <= len(name); i++ {
		if i < len(name) && name[i] != '/' {
			continue
		}
		part := name[:i]
		if mode, err = f.mode(part); err != nil {
			return mode, "", err
		}
		switch {
		case mode == absent:
			return absent, "", nil
		case mode&fs.ModeSymlink != 0:
			return mode, fmt.Sprintf("%s is a symbolic link, which is not followed; commit the file or the folder itself", quote(part)), nil
		case mode&fs.ModeIrregular != 0:
			return mode, fmt.Sprintf("%s is a submodule, which is not fetched; commit what is needed of it into this repository", quote(part)), nil
		case !mode.IsDir() && !mode.IsRegular():
			return mode, fmt.Sprintf("%s is neither a file nor a folder", quote(part)), nil
		case !mode.IsDir() && i < len(name):
			return absent, "", nil
		}
	}
	return mode, "", nil
}

// mode is that of Lstat, asked for once.
func (f *follower) mode(name string) (fs.FileMode, error) {
	if mode, known := f.kinds[name]; known {
		return mode, nil
	}
	if !fs.ValidPath(name) {
		return absent, nil
	}
	info, err := fs.Lstat(f.tree, name)
	mode := absent
	switch {
	case err == nil:
		mode = info.Mode().Type()
	case !errors.Is(err, fs.ErrNotExist):
		return absent, err
	}
	f.kinds[name] = mode
	return mode, nil
}

// add reads a file into the closure. It is not ok after a problem.
func (f *follower) add(at place, name string) (ok bool, err error) {
	if _, known := f.files[name]; known {
		return true, nil
	}
	kind, problem, err := f.kind(name)
	if err != nil {
		return false, err
	}
	if kind != absent && problem != "" {
		return false, f.report(at, problem)
	}
	info, err := fs.Lstat(f.tree, name)
	if err != nil {
		return false, err
	}
	if info.Size() > f.limits.FileBytes {
		return false, f.report(at, fmt.Sprintf("%s is larger than the limit of %d bytes for a file; split it", quote(name), f.limits.FileBytes))
	}
	if len(f.files) >= f.limits.Files {
		return false, f.stop(at, fmt.Sprintf("the overlay takes more than %d files; build it in parts, each named in spec.paths", f.limits.Files))
	}
	if f.bytes+info.Size() > f.limits.Bytes {
		return false, f.stop(at, fmt.Sprintf("the files of the overlay are larger than %d bytes together; build it in parts, each named in spec.paths", f.limits.Bytes))
	}
	data, err := fs.ReadFile(f.tree, name)
	if err != nil {
		return false, err
	}
	if isPointer(data) {
		return false, f.report(at, fmt.Sprintf("%s only names its content, which Git LFS keeps on another server and which is not fetched; commit the file itself", quote(name)))
	}
	f.files[name] = data
	f.bytes += int64(len(data))
	return true, nil
}

// isPointer says whether a file is one of Git LFS.
func isPointer(data []byte) bool {
	const most = 1024
	return len(data) < most && bytes.HasPrefix(data, []byte("version https://git-lfs.github.com/spec/"))
}

// within says whether a folder is another one or lies in it.
func within(dir, above string) bool {
	return above == "" || dir == above || strings.HasPrefix(dir, above+"/")
}

func shownDir(dir string) string {
	if dir == "" {
		return "of the root"
	}
	return quote(dir)
}

// chain shows how folders include each other.
func chain(open []string, last string) string {
	names := append(slices.Clone(open), last)
	for i, name := range names {
		if name == "" {
			name = "."
		}
		names[i] = name
	}
	return strings.Join(names, " → ")
}
