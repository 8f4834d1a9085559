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
	"github.com/minifleet/minifleet/gitsource/budget"
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
	// Before is Result.Parsed of an earlier commit: files that are the same are not parsed again. Nil parses all.
	Before *Parsed
}

// Object is one object of a repository. Exactly one of the three pointers is set, as Kind says. It is as
// Git has it: nothing is defaulted, and labels and annotations are untouched.
type Object struct {
	Kind, Name string
	// Path of the file, and the position in it, counted from 0 over all documents and list items.
	Path  string
	Index int
	// Line in the file on which the object begins, from 1; 0 where the file is what kustomize made.
	Line int
	// Origin is the file that kustomize has the object from, where Path is its overlay and that is known.
	Origin string

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
	// Parsed is what may be used again for the next commit.
	Parsed *Parsed
}

const (
	// maxFileBytes bounds one file.
	maxFileBytes = 2 << 20
	// maxFileProblems is how many problems of one file are told.
	maxFileProblems = 30
	// maxFileValues bounds what a file may take in memory while it is read, before its aliases are expanded.
	maxFileValues = 200_000
	// valueBytes is about what a value of a file takes while it is read, and problemBytes what a problem does without texts.
	valueBytes, problemBytes = 300, 240
	// maxMessage is the most characters of a message.
	maxMessage = 500
)

// Tree parses the files of one commit, however large they are. The result does not depend on the order of files.
func Tree(files []gitsource.File, opts Options) Result {
	result, _ := Within(nil, files, opts) // without a budget there is nothing to exceed
	return result
}

// Within is Tree with a budget, of which it ends with the error.
func Within(b *budget.Budget, files []gitsource.File, opts Options) (Result, error) {
	files = slices.Clone(files)
	slices.SortStableFunc(files, func(a, b gitsource.File) int { return cmp.Compare(a.Path, b.Path) })
	parsed := make([]current, len(files))
	t := parseAll(b, files, opts, nil, parsed)
	if contested := t.contested; len(contested) > 0 && t.exceeded == nil {
		// Whoever has the name already is known only now that all files have been read.
		b.Free(t.held)
		t = parseAll(b, files, opts, contested, parsed)
	}
	if t.exceeded != nil {
		return Result{}, t.exceeded
	}
	t.result.Parsed = remember(opts, files, parsed)
	return t.result, nil
}

// parseAll parses the files that are not in parsed, and puts all of them together.
func parseAll(b *budget.Budget, files []gitsource.File, opts Options, reserved map[string]string, parsed []current) *tree {
	t := &tree{budget: b, opts: opts, owners: make(map[string]Object, len(files)), reserved: reserved, contested: map[string]string{}}
	for i := range files {
		switch p := &parsed[i]; {
		case p.parsedFile == nil:
			*p = t.parse(files[i], b)
		case p.fresh && !p.whole:
			// What it takes was spent the first time.
			if t.exceeded = b.Spend(budget.Values, 0, files[i].Path); t.exceeded == nil {
				*p = t.parse(files[i], nil)
			}
		}
		if t.exceeded == nil {
			t.add(files[i].Path, &parsed[i])
		}
		if t.exceeded != nil {
			break
		}
	}
	return t
}

// tree is one call of Tree.
type tree struct {
	budget *budget.Budget
	// exceeded ends everything: the budget is spent.
	exceeded error
	// held is the memory of the problems.
	held int64

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
	budget *budget.Budget
	path   string
	index  int
	// built says that the file is what kustomize made; origins are the files that its documents come from, the first of them
	// that of the document that is being parsed.
	built   bool
	origins []string
	// told counts the problems in out.
	told int
	out  *parsedFile
}

// spend takes from the budget, and remembers that there is none left.
func (f *file) spend(kind budget.Kind, n int64) error {
	if kind == budget.Values {
		f.out.values += n
	} else {
		f.out.text += n
	}
	if f.exceeded == nil {
		f.exceeded = f.budget.Spend(kind, n, f.path)
	}
	return f.exceeded
}

// parse parses one file, unless that was done before.
func (t *tree) parse(in gitsource.File, b *budget.Budget) current {
	if before := t.opts.Before.of(in, t.opts); before != nil {
		t.exceeded = before.spend(b, in.Path)
		return current{parsedFile: before}
	}
	f := &file{tree: t, budget: b, path: in.Path, out: &parsedFile{blob: in.Blob}}
	func() {
		// YAML is somebody else's text and the parser is large; a panic in it must not end the hub.
		defer func() {
			if cause := recover(); cause != nil {
				f.report(Problem{Message: "cannot be parsed as YAML"})
				f.out.dropObjects()
			}
		}()
		f.parse(in)
	}()
	return current{parsedFile: f.out, fresh: true}
}

func (f *file) report(p Problem) {
	if f.told >= maxFileProblems && !f.opts.AllProblems {
		f.out.untold++
		return
	}
	f.told++
	if f.built && p.Object != "" {
		p.Line = 0
		if from := f.origin(); from != "" {
			p.Message = clip(p.Message, maxMessage*3/4) + " (it comes from " + clip(from, maxMessage/5) + ")"
		}
	}
	p.Path, p.Object, p.Field, p.Message = f.path, shown(p.Object), shown(p.Field), shown(p.Message)
	f.out.events = append(f.out.events, event{problem: &p})
}

// origin is the file that the document comes from which is being parsed; "" where that is not known.
func (f *file) origin() string {
	if len(f.origins) == 0 {
		return ""
	}
	return f.origins[0]
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
	for _, n := range in.Findings {
		f.report(Problem{Line: n.Line, Field: n.Field, Message: n.Message, Warning: n.Warning})
	}
	f.built, f.origins = in.Origins != nil, in.Origins
	data := in.Data
	switch {
	case in.Problem != "":
		f.report(Problem{Message: in.Problem})
		return
	case data == nil && in.Blob != "": // not reachable: what Before has is not read, and nothing else
		f.report(Problem{Message: "was not read"})
		return
	case len(data) > maxFileBytes:
		f.report(Problem{Message: fmt.Sprintf("is larger than %d bytes; split it", maxFileBytes)})
		return
	case strings.EqualFold(path.Ext(in.Path), ".json") && json.Valid(data):
		// YAML knows no tabs between tokens, and JSON none within them.
		data = bytes.ReplaceAll(data, []byte{'\t'}, []byte{' '})
	}
	if problem := unreadable(data); problem != "" {
		f.report(Problem{Message: problem})
		return
	}
	f.out.memory = int64(valueBytes * mostValues(data))
	if f.exceeded = f.budget.Hold(f.out.memory, f.path); f.exceeded != nil {
		return
	}
	defer f.budget.Free(f.out.memory)
	f.documents(data)
}

// tagDirective lets a few bytes stand for many, without being an alias, and takes the parser time that grows with the
// square of their number.
var tagDirective = regexp.MustCompile(`(?m)^(\x{feff})*%TAG`)

// unreadable says why a file is not given to the parser of YAML, which cannot be interrupted; empty if it is.
func unreadable(data []byte) string {
	switch {
	case bytes.Contains(data, []byte("%TAG")) && tagDirective.Match(lineEnds.ReplaceAll(data, []byte{'\n'})):
		return "has a %TAG directive, which no manifest needs; remove it"
	case mostValues(data) > maxFileValues:
		return fmt.Sprintf("has more than %d values; split it", maxFileValues)
	}
	return ""
}

// lineEnds are those of YAML, besides \n.
var lineEnds = regexp.MustCompile(`[\r\x{85}\x{2028}\x{2029}]`)

// mostValues is about how many values a file has at most: each comes behind an indicator, in which texts are poor.
func mostValues(data []byte) int {
	n := 1
	for i, c := range data {
		switch c {
		case '[', '{', ',':
			n++
		case '-', ':', '?':
			if i+1 == len(data) || bytes.IndexByte([]byte(" \t\r\n\"'"), data[i+1]) >= 0 || i > 0 && (data[i-1] == '"' || data[i-1] == '\'') {
				n++
			}
		}
	}
	return n
}

func (f *file) documents(data []byte) {
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	for f.spend(budget.Values, 1) == nil {
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
		f.origins = f.origins[min(1, len(f.origins)):]
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
	if f.spend(budget.Values, int64(1+len(node.Content)/2)) != nil {
		return
	}
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
		f.out.ignored++
	default:
		o := Object{Kind: kind, Name: head.name, Path: f.path, Index: index, Line: node.Line, Origin: f.origin()}
		if f.built {
			o.Line = 0
		}
		f.object(node, head, o)
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
		f.out.ignored++
		return
	}
	for _, item := range items.Content {
		if f.exceeded != nil {
			return
		}
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

// claim asks for the name of an object on the hub, which decides whether the object is used once all files before are
// known. A MiniCluster becomes a FleetMiniCluster of the same name, so that the two share their names.
func (f *file) claim(head header, named Object) {
	key := ""
	if named.Kind != "" && named.Name != "" {
		kind := named.Kind
		if kind == KindMiniCluster {
			kind = KindFleetMiniCluster
		}
		if key = kind + "/" + named.Name; f.opts.AnyNamespace {
			key = head.namespace + "/" + key
		}
	}
	f.out.events = append(f.out.events, event{key: key, named: named})
}
