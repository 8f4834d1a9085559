package overlay

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/minifleet/minifleet/gitsource/parse"
)

// use is what kustomize does with an entry.
type use int

const (
	// useResource is a file of objects, or a folder that is built.
	useResource use = iota
	// useComponent is a folder that is built.
	useComponent
	// useFile is a file.
	useFile
	// useSource is a file, or KEY=FILE.
	useSource
	// usePatch is a file, or the patch itself.
	usePatch
	// usePlugin is a file or a folder of configurations, or one itself.
	usePlugin
)

// reference is an entry of a kustomization that names something.
type reference struct {
	field string
	line  int
	entry string
	use   use
}

// shape says where in the value of a field the entries are.
type shape struct {
	use use
	// items says that the value is a list.
	items bool
	// in names fields of the value, or of its items, that hold the entries; none: the value or each item is an entry.
	in map[string]shape
}

// uses says what the fields of a kustomization refer to, by their names in lower case: kustomize minds no case.
var uses = map[string]shape{
	"resources":             {use: useResource, items: true},
	"bases":                 {use: useResource, items: true},
	"components":            {use: useComponent, items: true},
	"crds":                  {use: useFile, items: true},
	"configurations":        {use: useFile, items: true},
	"patchesstrategicmerge": {use: usePatch, items: true},
	"patches":               {items: true, in: filePath},
	"patchesjson6902":       {items: true, in: filePath},
	"replacements":          {items: true, in: filePath},
	"configmapgenerator":    {items: true, in: generated},
	"secretgenerator":       {items: true, in: generated},
	"generators":            {use: usePlugin, items: true},
	"transformers":          {use: usePlugin, items: true},
	"validators":            {use: usePlugin, items: true},
	"openapi":               {in: filePath},
}

var (
	filePath  = map[string]shape{"path": {use: useFile}}
	generated = map[string]shape{
		"files": {use: useSource, items: true}, "envs": {use: useFile, items: true}, "env": {use: useFile},
	}
)

// refusedFields are those that run programs.
var refusedFields = map[string]string{
	"helmcharts":                  helmRefused,
	"helmglobals":                 helmRefused,
	"helmchartinflationgenerator": helmRefused,
}

const helmRefused = "Helm charts are not inflated: render the chart (helm template) and commit what it makes, or build it elsewhere"

// collector walks the nodes of one file, a bounded number of them.
type collector struct {
	most       int
	visited    int
	references []reference
	refused    []Problem
}

var errEntries = errors.New("too many entries")

func (c *collector) visit() error {
	if c.visited++; c.visited > c.most {
		return errEntries
	}
	return nil
}

// fields collects what the fields of a mapping refer to.
func (c *collector) fields(node *yaml.Node, shapes map[string]shape, at string) error {
	return c.each(node, 0, func(key, value *yaml.Node) error {
		name := strings.ToLower(key.Value)
		if message, refused := refusedFields[name]; refused && at == "" && !isNull(value) {
			c.refused = append(c.refused, Problem{Line: key.Line, Field: key.Value, Message: message})
		}
		s, ok := shapes[name]
		if !ok {
			return nil
		}
		return c.value(value, s, join(at, key.Value))
	})
}

func join(at, name string) string {
	if at == "" {
		return name
	}
	return at + "." + name
}

func (c *collector) value(node *yaml.Node, s shape, at string) error {
	if err := c.visit(); err != nil {
		return err
	}
	node = resolve(node)
	if !s.items {
		return c.item(node, s, at)
	}
	if node == nil || node.Kind != yaml.SequenceNode {
		return nil // kustomize says what it wants instead
	}
	for i, item := range node.Content {
		if err := c.visit(); err != nil {
			return err
		}
		if err := c.item(resolve(item), s, fmt.Sprintf("%s[%d]", at, i)); err != nil {
			return err
		}
	}
	return nil
}

func (c *collector) item(node *yaml.Node, s shape, at string) error {
	switch {
	case node == nil || isNull(node):
		return nil
	case s.in != nil:
		return c.fields(node, s.in, at)
	case node.Kind == yaml.ScalarNode:
		c.references = append(c.references, reference{at, node.Line, node.Value, s.use})
	}
	return nil
}

// maxMerges is how deep merge keys (<<) may lie in each other.
const maxMerges = 8

// each calls f for the fields of a mapping, merged ones included.
func (c *collector) each(node *yaml.Node, depth int, f func(key, value *yaml.Node) error) error {
	node = resolve(node)
	if node == nil || node.Kind != yaml.MappingNode || depth > maxMerges {
		return nil
	}
	for i := 0; i+1 < len(node.Content); i += 2 {
		if err := c.visit(); err != nil {
			return err
		}
		key, value := resolve(node.Content[i]), node.Content[i+1]
		if key == nil || key.Kind != yaml.ScalarNode {
			continue
		}
		if key.Value != "<<" {
			if err := f(key, value); err != nil {
				return err
			}
			continue
		}
		for _, from := range merged(value) {
			if err := c.each(from, depth+1, f); err != nil {
				return err
			}
		}
	}
	return nil
}

// merged are the mappings that a merge key names.
func merged(value *yaml.Node) []*yaml.Node {
	value = resolve(value)
	if value != nil && value.Kind == yaml.SequenceNode {
		return value.Content
	}
	return []*yaml.Node{value}
}

// resolve returns what an alias stands for.
func resolve(node *yaml.Node) *yaml.Node {
	if node != nil && node.Kind == yaml.AliasNode {
		return node.Alias
	}
	return node
}

func isNull(node *yaml.Node) bool {
	node = resolve(node)
	return node == nil || node.Kind == yaml.ScalarNode && node.ShortTag() == "!!null"
}

// maxValues is how many values a kustomization or a configuration may have, so that reading one takes less memory than a
// source has without a reservation.
const maxValues = 20_000

// documents parses YAML that comes from a repository. The panics of the parser are errors.
func documents(data []byte, most int) (docs []*yaml.Node, err error) {
	defer func() {
		if cause := recover(); cause != nil {
			docs, err = nil, errors.New("cannot be parsed as YAML")
		}
	}()
	if problem := parse.Unreadable(data); problem != "" {
		return nil, errors.New(problem)
	}
	if parse.MostValues(data) > maxValues {
		return nil, fmt.Errorf("has more than %d values; split it", maxValues)
	}
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	for len(docs) < most {
		var doc yaml.Node
		err := decoder.Decode(&doc)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("is not valid YAML: %s", strings.TrimPrefix(err.Error(), "yaml: "))
		}
		if doc.Kind == yaml.DocumentNode && len(doc.Content) == 1 {
			docs = append(docs, doc.Content[0])
		}
	}
	return docs, nil
}
