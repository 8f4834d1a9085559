// Package parse turns manifests into MiniFleet objects and per-file problems. It is pure: no client, no
// clock, no file system. Files come in; out go objects with their defaults, sorted, and problems that name file, line
// and field.
//
// Every document of every file is read. MiniClusters, FleetMiniClusters and Placements are decoded
// strictly, as the API server of the hub or of an upstream operator would; whatever else a repository
// holds is left alone. What is wrong with one document keeps no other from being used.
package parse

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"

	fluxv1alpha2 "github.com/minifleet/minifleet/api/flux/v1alpha2"
	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/gitsource"
)

// Kinds that are picked out of a repository.
const (
	KindMiniCluster      = "MiniCluster"
	KindFleetMiniCluster = "FleetMiniCluster"
	KindPlacement        = "Placement"
)

// Options of Tree.
type Options struct {
	// Namespace is the namespace of the GitSource, in which everything lands. A document that names
	// another one is a problem. Empty accepts only documents that name none.
	Namespace string
	// AnyNamespace accepts documents of every namespace, for files that do not come from a GitSource.
	AnyNamespace bool
	// Owners maps hub objects (KIND/NAME, where a MiniCluster is a FleetMiniCluster) to the files that
	// declare them already. A file keeps its names when another one comes to use them, wherever that stands
	// in the order of paths.
	Owners map[string]string
	// Lines keeps the lines of all fields for Object.LineOf.
	Lines bool
	// AllProblems tells every problem of a file, however many there are.
	AllProblems bool
}

// Object is one object of a repository. Exactly one of the three pointers is set, as Kind says. It is as
// Git has it: nothing is defaulted, and labels and annotations are untouched.
type Object struct {
	Kind, Name string
	// Path of the file, and the position in it, counted from 0 over all documents and list items.
	Path  string
	Index int
	// Line in the file on which the object begins, from 1.
	Line int

	// Lines of the fields, by path; nil unless Options.Lines asks for them.
	Lines map[string]int

	// DeclaresSuspend says that a FleetMiniCluster sets spec.suspend, be it to false.
	DeclaresSuspend bool

	MiniCluster      *fluxv1alpha2.MiniCluster
	FleetMiniCluster *v1alpha1.FleetMiniCluster
	Placement        *v1alpha1.Placement
}

// Problem is something that is wrong. Unless it is a Warning, the object could not be used, and what its
// file declared before is to be kept.
type Problem struct {
	Path string
	// Line in the file, from 1; 0 where it is not known.
	Line int
	// Object is KIND/NAME, where it is known.
	Object string
	// Field of the object, where it is known.
	Field string
	// Message says what is wrong and how to correct it.
	Message string
	// Warning says that the object is used nevertheless.
	Warning bool
}

// Result is what a repository holds.
type Result struct {
	// Objects are in the order of their paths, and of their place in the file.
	Objects []Object
	// Problems are in the order of their paths and lines.
	Problems []Problem
	// Ignored counts the documents that are none of the three kinds.
	Ignored int
}

const (
	// maxFileBytes bounds one file; YAML takes about a hundred times its size in memory.
	maxFileBytes = 2 << 20
	// maxFileProblems is how many problems of one file are told.
	maxFileProblems = 30
	// maxMessage is the most characters of a message.
	maxMessage = 500
)

// Tree parses the files of one commit. The result does not depend on the order of files.
func Tree(files []gitsource.File, opts Options) Result {
	files = slices.Clone(files)
	slices.SortStableFunc(files, func(a, b gitsource.File) int { return cmp.Compare(a.Path, b.Path) })
	t := parseAll(files, opts, nil)
	if contested := t.contested; len(contested) > 0 {
		// Whoever has the name already is known only now that all files have been read.
		t = parseAll(files, opts, contested)
	}
	return t.result
}

func parseAll(files []gitsource.File, opts Options, reserved map[string]string) *tree {
	t := &tree{opts: opts, owners: map[string]Object{}, reserved: reserved, contested: map[string]string{}}
	for _, f := range files {
		t.file(f)
	}
	return t
}

// tree is one call of Tree.
type tree struct {
	opts   Options
	result Result
	// owners maps a hub object to the first document that names it, whether that is right or wrong: a
	// mistake in the first must not hand its name to the second.
	owners map[string]Object
	// reserved maps names that several files use to the file that keeps them.
	reserved map[string]string
	// contested collects names that go to another file than the one that has them.
	contested map[string]string
}

// file is the file that is being parsed.
type file struct {
	*tree
	path     string
	index    int
	problems []Problem
	untold   int
}

func (t *tree) file(in gitsource.File) {
	f := &file{tree: t, path: in.Path}
	objects := len(t.result.Objects)
	func() {
		// YAML is somebody else's text and the parser is large; a panic in it must not end the hub.
		defer func() {
			if cause := recover(); cause != nil {
				f.report(Problem{Message: "cannot be parsed as YAML"})
				t.result.Objects = t.result.Objects[:objects]
			}
		}()
		f.parse(in)
	}()
	slices.SortStableFunc(f.problems, func(a, b Problem) int { return cmp.Compare(a.Line, b.Line) })
	if f.untold > 0 {
		f.problems = append(f.problems, Problem{Path: f.path,
			Message: fmt.Sprintf("and %d more problems in this file", f.untold)})
	}
	t.result.Problems = append(t.result.Problems, f.problems...)
}

func (f *file) report(p Problem) {
	if len(f.problems) >= maxFileProblems && !f.opts.AllProblems {
		f.untold++
		return
	}
	p.Path, p.Object, p.Field, p.Message = f.path, shown(p.Object), shown(p.Field), shown(p.Message)
	f.problems = append(f.problems, p)
}

// shown is text of a repository that is fit to be shown: short, on one line, and with nothing in it that
// could steer a terminal.
func shown(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case unicode.IsSpace(r):
			return ' '
		case !unicode.IsPrint(r):
			return '\uFFFD'
		default:
			return r
		}
	}, clip(s, maxMessage))
}

func clip(s string, n int) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	if runes := []rune(s); len(runes) > n {
		return string(runes[:n]) + "…"
	}
	return s
}

func (f *file) parse(in gitsource.File) {
	data := in.Data
	switch {
	case in.Problem != "":
		f.report(Problem{Message: in.Problem})
		return
	case len(data) > maxFileBytes:
		f.report(Problem{Message: fmt.Sprintf("is larger than %d bytes; split it", maxFileBytes)})
		return
	case strings.EqualFold(path.Ext(in.Path), ".json") && json.Valid(data):
		// YAML knows no tabs between tokens, and JSON none within them.
		data = bytes.ReplaceAll(data, []byte{'\t'}, []byte{' '})
	}
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	for {
		var doc yaml.Node
		err := decoder.Decode(&doc)
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			f.report(syntaxProblem(err, data))
			return
		}
		if doc.Kind == yaml.DocumentNode && len(doc.Content) == 1 && doc.Content[0].ShortTag() != "!!null" {
			f.document(doc.Content[0], 0)
		}
	}
}

// yamlLine is where the decoder of YAML tells the line of a syntax error: its errors have no field for that. What counts as
// an error does not depend on it.
var yamlLine = regexp.MustCompile(`^yaml: line (\d+): `)

func syntaxProblem(err error, data []byte) Problem {
	text, line := err.Error(), 0
	if m := yamlLine.FindStringSubmatch(text); m != nil {
		line, _ = strconv.Atoi(m[1]) // digits, by the pattern; 0 when there are too many
		text = text[len(m[0]):]
	} else if !utf8.Valid(data) {
		line = 1 + bytes.Count(data[:validPrefix(data)], []byte{'\n'})
	}
	message := "is not valid YAML: " + strings.TrimPrefix(text, "yaml: ")
	if bytes.Contains(data, []byte("{{")) {
		message += "; a template must be rendered before it is committed, or lie outside of the path"
	}
	return Problem{Line: line, Message: message}
}

// validPrefix returns how many bytes of data are UTF-8.
func validPrefix(data []byte) int {
	at := 0
	for at < len(data) {
		r, size := utf8.DecodeRune(data[at:])
		if r == utf8.RuneError && size <= 1 {
			break
		}
		at += size
	}
	return at
}

// maxListDepth is how deep lists of objects may lie in each other.
const maxListDepth = 4

// document reads one document or list item.
func (f *file) document(node *yaml.Node, depth int) {
	node = behindAlias(node)
	head := readHeader(node)
	if head.isList() {
		f.list(node, depth)
		return
	}
	index := f.index
	f.index++
	switch kind, problem := head.pick(); {
	case problem != "":
		f.report(Problem{Line: node.Line, Object: head.object(), Field: "apiVersion", Message: problem})
		f.claim(head, Object{Kind: kind, Name: head.name, Path: f.path, Line: node.Line})
	case kind == "":
		f.result.Ignored++
	default:
		f.object(node, head, Object{Kind: kind, Name: head.name, Path: f.path, Index: index, Line: node.Line})
	}
}

// list expands a list of objects, as kubectl writes them. Other lists, and what is in them, are ignored.
func (f *file) list(node *yaml.Node, depth int) {
	items := behindAlias(child(node, "items"))
	if depth >= maxListDepth {
		f.report(Problem{Line: node.Line, Message: "lists lie too deep in each other; write the objects as documents"})
		return
	}
	if items == nil || items.Kind != yaml.SequenceNode {
		f.result.Ignored++
		return
	}
	for _, item := range items.Content {
		if item.Kind == yaml.AliasNode {
			f.report(Problem{Line: item.Line, Message: "an item of a list is an alias; write the object itself"})
			continue
		}
		f.document(item, depth+1)
	}
}

func place(o Object) string {
	if o.Line == 0 {
		return o.Path
	}
	return fmt.Sprintf("%s:%d", o.Path, o.Line)
}

// claim takes the name of an object on the hub, and reports whether it was free. A MiniCluster becomes a
// FleetMiniCluster of the same name, so that the two share their names.
func (f *file) claim(head header, o Object) bool {
	if o.Kind == "" || o.Name == "" {
		return true
	}
	key := o.Kind + "/" + o.Name
	if o.Kind == KindMiniCluster {
		key = KindFleetMiniCluster + "/" + o.Name
	}
	if f.opts.AnyNamespace {
		key = head.namespace + "/" + key
	}
	first, taken := f.owners[key]
	if holder := f.reserved[key]; holder != "" && holder != f.path {
		first, taken = Object{Kind: o.Kind, Name: o.Name, Path: holder}, true
	}
	if !taken {
		f.owners[key] = o
		return true
	}
	if f.opts.Owners[key] == f.path && first.Path != f.path {
		f.contested[key] = f.path
	}
	f.report(Problem{Line: o.Line, Object: o.Kind + "/" + o.Name, Field: "metadata.name", Message: fmt.Sprintf(
		"%s declares the %s %s already, and keeps it; rename one of them, or delete this one (%s)",
		place(first), first.Kind, first.Name, place(o))})
	return false
}
