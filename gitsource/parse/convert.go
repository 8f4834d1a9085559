package parse

import (
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/minifleet/minifleet/gitsource/budget"
)

const (
	maxDepth = 64
	// maxNodes and maxTextBytes bound an object with all its aliases expanded.
	maxNodes     = 100_000
	maxTextBytes = 4 << 20
	// maxKeyBytes is the longest name of a field, more than Kubernetes lets any be.
	maxKeyBytes = 1000
	// maxObjectProblems is how many problems of one object's values are kept.
	maxObjectProblems = 1000
	// freeFieldBytes of a field's name, with those around it, cost nothing.
	freeFieldBytes = 256
)

// position is where a field stands, and what kind of JSON value it is.
type position struct {
	line  int
	value string // "object", "array", "string", "number", "bool" or "null"
}

// converter turns a YAML node into what encoding/json can write, the way that kubectl does, and
// remembers the line of every field.
type converter struct {
	lines map[string]position
	// order holds the fields as they come in the file.
	order    []string
	nodes    int
	text     int
	spend    func(budget.Kind, int64) error
	problems []Problem // without Path and Object
}

// tooMuch ends a conversion; it is a type of its own so that it cannot be taken for a problem of a field.
type tooMuch struct {
	line    int
	message string
}

func (e *tooMuch) Error() string { return e.message }

func (c *converter) note(field string, node *yaml.Node, value string) {
	if _, ok := c.lines[field]; !ok {
		c.order = append(c.order, field)
	}
	c.lines[field] = position{node.Line, value}
}

func (c *converter) problem(node *yaml.Node, field, message string) {
	c.add(Problem{Line: node.Line, Field: field, Message: message})
}

// add keeps the first problems of an object.
func (c *converter) add(problems ...Problem) {
	c.problems = append(c.problems, problems[:min(len(problems), maxObjectProblems-len(c.problems))]...)
}

// value converts node, which stands at field and depth.
func (c *converter) value(node *yaml.Node, field string, depth int) (any, error) {
	if err := c.pay(node, field); err != nil {
		return nil, err
	}
	if c.nodes++; c.nodes > maxNodes {
		return nil, &tooMuch{node.Line, fmt.Sprintf("has more than %d values with its aliases expanded", maxNodes)}
	}
	if depth > maxDepth {
		return nil, &tooMuch{node.Line, fmt.Sprintf("is nested more than %d deep", maxDepth)}
	}
	switch node.Kind {
	case yaml.AliasNode:
		return c.value(node.Alias, field, depth+1)
	case yaml.MappingNode:
		c.note(field, node, "object")
		return c.mapping(node, field, depth)
	case yaml.SequenceNode:
		c.note(field, node, "array")
		list := make([]any, 0, len(node.Content))
		for i, item := range node.Content {
			v, err := c.value(item, field+"["+strconv.Itoa(i)+"]", depth+1)
			if err != nil {
				return nil, err
			}
			list = append(list, v)
		}
		return list, nil
	case yaml.ScalarNode:
		if c.text += len(node.Value); c.text > maxTextBytes {
			return nil, &tooMuch{node.Line, fmt.Sprintf("has more than %d bytes with its aliases expanded", maxTextBytes)}
		}
		v, err := scalar(node)
		if err != nil {
			c.note(field, node, "string")
			c.problem(node, field, err.Error())
			return nil, nil
		}
		c.note(field, node, jsonType(v))
		return v, nil
	}
	return nil, &tooMuch{node.Line, "is not valid YAML"}
}

// pay spends what a value takes.
func (c *converter) pay(node *yaml.Node, field string) error {
	if err := c.spend(budget.Values, 1); err != nil {
		return err
	}
	text := max(0, len(field)-freeFieldBytes)
	if node.Kind == yaml.ScalarNode {
		text += len(node.Value)
	}
	return c.spend(budget.TextBytes, int64(text))
}

func (c *converter) mapping(node *yaml.Node, field string, depth int) (any, error) {
	out := make(map[string]any, len(node.Content)/2)
	seen := map[string]int{}
	var merged []*yaml.Node
	for i := 0; i+1 < len(node.Content); i += 2 {
		key, value := behindAlias(node.Content[i]), node.Content[i+1]
		if key.Kind != yaml.ScalarNode {
			c.problem(key, field, "has a key that is not text")
			continue
		}
		if len(key.Value) > maxKeyBytes {
			c.problem(key, field, fmt.Sprintf("has a key of more than %d bytes; shorten it", maxKeyBytes))
			continue
		}
		if key.ShortTag() == "!!merge" {
			merged = append(merged, value)
			continue
		}
		name := keyText(key)
		v, err := c.value(value, join(field, name), depth+1)
		if err != nil {
			return nil, err
		}
		if first, twice := seen[name]; twice {
			c.add(Problem{Line: key.Line, Field: join(field, name),
				Message: fmt.Sprintf("is set twice, first on line %d; keep one", first),
				Warning: reflect.DeepEqual(out[name], v)})
			continue
		}
		seen[name] = key.Line
		// The key's line is the field's: a block begins on the line below it.
		at := c.lines[join(field, name)]
		at.line = key.Line
		c.lines[join(field, name)] = at
		out[name] = v
	}
	for _, m := range merged {
		if err := c.merge(out, m, field, depth+1); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// merge adds what "<<" names: a mapping, or a sequence of them. What is there already stays.
func (c *converter) merge(out map[string]any, from *yaml.Node, field string, depth int) error {
	from = behindAlias(from)
	sources := []*yaml.Node{from}
	if from.Kind == yaml.SequenceNode {
		sources = from.Content
	}
	for _, source := range sources {
		source = behindAlias(source)
		if source.Kind != yaml.MappingNode {
			c.problem(source, field, "\"<<\" must name a mapping")
			continue
		}
		// A converter of its own counts on, and leaves the lines of what is set already alone.
		inner := &converter{lines: map[string]position{}, nodes: c.nodes, text: c.text, spend: c.spend}
		v, err := inner.value(source, field, depth)
		if err != nil {
			return err
		}
		c.nodes, c.text = inner.nodes, inner.text
		c.add(inner.problems...)
		added, _ := v.(map[string]any) // it is one, since source is a mapping
		for name, value := range added {
			if _, ok := out[name]; !ok {
				out[name] = value
			}
		}
		for _, name := range inner.order {
			if _, ok := c.lines[name]; !ok {
				c.order = append(c.order, name)
				c.lines[name] = inner.lines[name]
			}
		}
	}
	return nil
}

func join(field, name string) string {
	if field == "" {
		return name
	}
	return field + "." + name
}

// keyText is a key as JSON has it.
func keyText(key *yaml.Node) string {
	if key.ShortTag() == "!!bool" {
		return strings.ToLower(key.Value)
	}
	return key.Value
}

// What YAML 1.1, and so kubectl, reads as booleans when it is not quoted.
var (
	yes = map[string]bool{"y": true, "Y": true, "yes": true, "Yes": true, "YES": true, "on": true, "On": true, "ON": true}
	no  = map[string]bool{"n": true, "N": true, "no": true, "No": true, "NO": true, "off": true, "Off": true, "OFF": true}
)

func scalar(node *yaml.Node) (any, error) {
	switch tag := node.ShortTag(); tag {
	case "!!null":
		return nil, nil
	case "!!str", "!!timestamp":
		if node.Style == 0 && yes[node.Value] {
			return true, nil
		}
		if node.Style == 0 && no[node.Value] {
			return false, nil
		}
		return node.Value, nil
	case "!!bool", "!!int", "!!float", "!!binary":
		var v any
		if err := node.Decode(&v); err != nil {
			return nil, fmt.Errorf("cannot be read as %s", strings.TrimPrefix(tag, "!!"))
		}
		if f, ok := v.(float64); ok && (math.IsNaN(f) || math.IsInf(f, 0)) {
			return nil, fmt.Errorf("%s is not a number that a manifest can hold", node.Value)
		}
		return v, nil
	default:
		return nil, fmt.Errorf("tag %s is not one that a manifest can hold", clip(tag, 40))
	}
}

func jsonType(v any) string {
	switch v.(type) {
	case nil:
		return "null"
	case bool:
		return "bool"
	case string:
		return "string"
	case map[string]any:
		return "object"
	case []any:
		return "array"
	case json.Number, int, int64, uint64, float64:
		return "number"
	}
	return ""
}

func (c *converter) lineOf(field string) int {
	return lineOf(field, func(field string) (int, bool) {
		at, ok := c.lines[field]
		return at.line, ok
	})
}

// LineOf returns the line of a field, given as problems name fields, or of the nearest field around it that
// is there. Without Options.Lines it is the line of the object.
func (o *Object) LineOf(field string) int {
	if o.Lines == nil {
		return o.Line
	}
	return lineOf(field, func(field string) (int, bool) {
		line, ok := o.Lines[field]
		return line, ok
	})
}

func lineOf(field string, find func(string) (int, bool)) int {
	field = keysAsFields(field)
	for {
		if line, ok := find(field); ok {
			return line
		}
		end := strings.LastIndexAny(field, ".[")
		if end < 0 {
			line, _ := find("")
			return line
		}
		if inside, ok := strings.CutSuffix(field[end+1:], "]"); ok && field[end] == '[' {
			// A number may be a key, and not a place in a list.
			if line, ok := find(field[:end] + "." + inside); ok {
				return line
			}
		}
		field = field[:end]
	}
}

// keysAsFields writes map[key] as map.key, as fields are remembered here, and leaves list[0] alone.
func keysAsFields(field string) string {
	var out strings.Builder
	for {
		open := strings.IndexByte(field, '[')
		if open < 0 {
			return out.String() + field
		}
		length := strings.IndexByte(field[open:], ']')
		if length < 0 {
			return out.String() + field
		}
		inside := field[open+1 : open+length]
		out.WriteString(field[:open])
		if _, err := strconv.Atoi(inside); err == nil {
			out.WriteString("[" + inside + "]")
		} else {
			out.WriteString("." + inside)
		}
		field = field[open+length+1:]
	}
}
