package fetch

import (
	"bytes"
	"fmt"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/filemode"

	"github.com/minifleet/minifleet/gitsource/budget"
	"github.com/minifleet/minifleet/gitsource/ignore"
)

const (
	// ignoreName is that of files with ignore rules.
	ignoreName = ".sourceignore"
	// maxIgnoreBytes is the largest of them.
	maxIgnoreBytes = 64 << 10
)

// ignoring is what a walker knows of ignore rules.
type ignoring struct {
	// files are those of the folders that lead to what is read at the moment, the root's first.
	files []ignore.File
	// last come after all of them.
	last ignore.File
	// byBlob are the rules of files that were read.
	byBlob map[plumbing.Hash][]ignore.Rule
}

// ignoreLast has rules come after those of files.
func (w *walker) ignoreLast(text string) error {
	rules, err := w.rules([]byte(text), "")
	w.last = ignore.File{Rules: rules}
	return err
}

func (w *walker) rules(text []byte, at string) ([]ignore.Rule, error) {
	if err := w.budget.Spend(budget.Comparisons, int64(len(text)), at); err != nil {
		return nil, err
	}
	rules := ignore.Parse(text)
	return rules, w.budget.Hold(ignore.Size(rules), at)
}

// ignores says whether a path is not to be read, and nothing below it.
func (w *walker) ignores(at string, isFolder bool) (bool, error) {
	spend := func(steps int64) error { return w.budget.Spend(budget.Comparisons, steps, at) }
	decision, err := ignore.Decide([]ignore.File{w.last}, at, isFolder, spend)
	if decision == ignore.Undecided && err == nil {
		decision, err = ignore.Decide(w.ignoring.files, at, isFolder, spend)
	}
	return decision == ignore.Ignored, err
}

// enter adds the rules of a folder that is about to be read.
func (w *walker) enter(data []byte, at string) error {
	if !bytes.Contains(data, []byte(" "+ignoreName+"\x00")) {
		return nil
	}
	for len(data) > 0 {
		e, name, rest, err := nextEntry(data)
		if err != nil {
			return err
		}
		if string(name) == ignoreName {
			return w.addRules(e, at)
		}
		data = rest
	}
	return nil
}

// enterByIndex does so for a folder on the way to a path.
func (w *walker) enterByIndex(folder plumbing.Hash, at string) error {
	e, ok, err := w.entryOf(folder, ignoreName, at)
	if err != nil || !ok {
		return err
	}
	return w.addRules(e, at)
}

// addRules reads an ignore file. Without one that is there, what it hides would come to light; so that is an error.
func (w *walker) addRules(e treeEntry, folder string) error {
	at := ignoreName
	if folder != "" {
		at = folder + "/" + ignoreName
	}
	rules, known := w.byBlob[e.hash]
	if !known {
		switch e.mode {
		case filemode.Dir: // of that name, and no file
			return nil
		case filemode.Symlink, filemode.Submodule:
			return fail(ReasonFetchFailed, quotePath(at)+" is a link, which is not followed, so that it is not known what to ignore; commit the file itself")
		}
		size, ok := w.pack.size(e.hash)
		if !ok || size > maxIgnoreBytes {
			return fail(ReasonLimitExceeded, fmt.Sprintf("%s is larger than %d bytes, so that it is not known what to ignore; make it shorter", quotePath(at), maxIgnoreBytes))
		}
		w.pack.at = at
		text, _, err := w.pack.object(e.hash, plumbing.BlobObject)
		if err != nil {
			return err
		}
		if rules, err = w.rules(text, at); err != nil {
			return err
		}
		if w.byBlob == nil {
			w.byBlob = map[plumbing.Hash][]ignore.Rule{}
		}
		w.byBlob[e.hash] = rules
	}
	w.ignoring.files = append(w.ignoring.files, ignore.File{Folder: folder, Rules: rules})
	return nil
}
