package parse

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/minifleet/minifleet/gitsource"
	"github.com/minifleet/minifleet/gitsource/budget"
)

// Parsed are the results of single files, before it is known who has which name. A nil Parsed has none. It is not changed
// once it was made, and its objects are shared by the results that it is used for.
type Parsed struct {
	options fileOptions
	files   map[string]*parsedFile // by path
}

// fileOptions are those that matter to a single file.
type fileOptions struct {
	namespace                        string
	anyNamespace, lines, allProblems bool
}

func (o *Options) file() fileOptions {
	return fileOptions{namespace: o.Namespace, anyNamespace: o.AnyNamespace, lines: o.Lines, allProblems: o.AllProblems}
}

// parsedFile is what a file holds, and what it took to find that.
type parsedFile struct {
	blob    string
	events  []event
	ignored int
	untold  int
	// values, text and memory are what was spent, and held, to find that.
	values, text, memory int64
}

// current is a file of one call of Tree.
type current struct {
	*parsedFile
	// fresh says that it was parsed by this call, and is nobody else's yet.
	fresh bool
	// whole says that no object of it is without its name.
	whole bool
}

// event is a problem, or a document that wants a name.
type event struct {
	problem *Problem
	key     string // of the hub object, empty where the name is not known
	named   Object
	object  *Object // nil where it cannot be used
}

// Has says whether a file of such content was parsed before, so that its content is not needed.
func (p *Parsed) Has(path, blob string) bool {
	return p != nil && blob != "" && p.files[path] != nil && p.files[path].blob == blob
}

// of returns what a file holds if it was parsed before in the same way.
func (p *Parsed) of(in gitsource.File, opts Options) *parsedFile {
	if in.Problem != "" || !p.Has(in.Path, in.Blob) || p.options != opts.file() {
		return nil
	}
	return p.files[in.Path]
}

// remember keeps what may be used again. A file of which an object was not used, since another has its name, is not kept:
// nothing bounds how many there are.
func remember(opts Options, files []gitsource.File, parsed []current) *Parsed {
	kept := make(map[string]*parsedFile, len(files))
	for i, f := range files {
		if f.Blob != "" && f.Problem == "" && parsed[i].whole {
			kept[f.Path] = parsed[i].parsedFile
		}
	}
	if len(kept) == 0 {
		return nil
	}
	return &Parsed{options: opts.file(), files: kept}
}

// spend takes what the file took when it was parsed, so that limits are met alike.
func (p *parsedFile) spend(b *budget.Budget, path string) error {
	if err := b.Spend(budget.Values, p.values, path); err != nil {
		return err
	}
	if err := b.Spend(budget.TextBytes, p.text, path); err != nil {
		return err
	}
	defer b.Free(p.memory)
	return b.Hold(p.memory, path)
}

func (p *parsedFile) dropObjects() {
	for i := range p.events {
		p.events[i].object = nil
	}
}

// add puts a file's objects and problems to those of the files before it.
func (t *tree) add(path string, p *current) {
	p.whole = true
	problems, untold := []Problem(nil), p.untold
	report := func(problem Problem) {
		if len(problems) >= maxFileProblems && !t.opts.AllProblems {
			untold++
			return
		}
		if t.hold(&problem) == nil {
			problems = append(problems, problem)
		}
	}
	for i := range p.events {
		e := &p.events[i]
		if e.problem != nil {
			report(*e.problem)
			continue
		}
		first, free := t.claim(path, e)
		if !free {
			report(taken(path, first, e.named))
			p.whole = p.whole && e.object == nil
			if p.fresh {
				e.object = nil
			}
			continue
		}
		if e.object == nil {
			continue
		}
		if t.exceeded == nil {
			t.exceeded = t.budget.Objects(len(t.result.Objects)+1, path)
		}
		if t.exceeded != nil {
			return
		}
		t.result.Objects = append(t.result.Objects, *e.object)
	}
	slices.SortStableFunc(problems, func(a, b Problem) int { return cmp.Compare(a.Line, b.Line) })
	if untold > 0 {
		problems = append(problems, Problem{Path: path, Message: fmt.Sprintf("and %d more problems in this file", untold)})
	}
	t.result.Problems = append(t.result.Problems, problems...)
	t.result.Ignored += p.ignored
}

func (t *tree) hold(p *Problem) error {
	size := int64(problemBytes + len(p.Path) + len(p.Object) + len(p.Field) + len(p.Message))
	if t.exceeded == nil {
		t.exceeded = t.budget.Hold(size, p.Path)
		t.held += size
	}
	return t.exceeded
}

// claim takes a name, and reports whether it was free, or else who has it.
func (t *tree) claim(path string, e *event) (first Object, free bool) {
	if e.key == "" {
		return Object{}, true
	}
	first, taken := t.owners[e.key]
	if holder := t.reserved[e.key]; holder != "" && holder != path {
		first, taken = Object{Kind: e.named.Kind, Name: e.named.Name, Path: holder}, true
	}
	if !taken {
		t.owners[e.key] = e.named
		return Object{}, true
	}
	if t.opts.Owners[e.key] == path && first.Path != path {
		t.contested[e.key] = path
	}
	return first, false
}

// taken is the problem of a document whose name another one has.
func taken(path string, first, o Object) Problem {
	return Problem{Path: path, Line: o.Line, Object: shown(o.Kind + "/" + o.Name), Field: "metadata.name", Message: shown(fmt.Sprintf(
		"%s declares the %s %s already, and keeps it; rename one of them, or delete this one (%s)",
		place(first), first.Kind, first.Name, place(o)))}
}
