// Package tree merges variants of an object into one, in which what only some variants have is marked with their names, and
// prints that as a Helm template. It is pure.
package tree

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"
)

// Node is a value of a YAML document: a *Map, a *List, or a Scalar. Raw and Expression are for templates.
type Node any

// Map is a mapping, in the order in which it is printed.
type Map struct{ Fields []Field }

// Field is a key and its value. With a Raw value it has no key.
type Field struct {
	Key   string
	Value Node
	// Only names the variants that have the field; empty for all.
	Only []string
}

// List is a sequence.
type List struct{ Items []Item }

// Item is a value of a sequence.
type Item struct {
	Value Node
	Only  []string
}

// Scalar is anything that fits on a line, or a text of several.
type Scalar struct{ Value any }

// Expression is printed as it is in place of a scalar: an action of a template.
type Expression string

// Raw is lines of a template in place of a field or an item, without the indent of where they stand. @ in a line is the
// number of spaces of that indent, and @+ of what is one level below.
type Raw string

// Merge merges what all variants have, base, with what each variant makes of it. A variant may add fields and items, and
// nothing else: path, in the error, says where it does.
func Merge(base any, variants map[string]any) (Node, error) {
	return merge("", base, variants)
}

func merge(path string, base any, variants map[string]any) (Node, error) {
	switch b := base.(type) {
	case map[string]any:
		return mergeMaps(path, b, variants)
	case []any:
		return mergeLists(path, b, variants)
	default:
		for name, v := range variants {
			if !reflect.DeepEqual(base, v) {
				return nil, fmt.Errorf("component %s changes %s from %v to %v: a template can only add to what all have", name, path, base, v)
			}
		}
		return Scalar{base}, nil
	}
}

func mergeMaps(path string, base map[string]any, variants map[string]any) (Node, error) {
	keys := maps.Clone(base)
	for name, v := range variants {
		m, ok := v.(map[string]any)
		if !ok {
			return nil, fmt.Errorf("component %s makes something else of %s", name, path)
		}
		for key, value := range m {
			if _, known := keys[key]; !known {
				keys[key] = empty(value)
			}
		}
	}
	out := &Map{}
	for _, key := range order(keys) {
		with := map[string]any{}
		for name, v := range variants {
			if value, has := v.(map[string]any)[key]; has {
				with[name] = value
			}
		}
		_, always := base[key]
		if always && len(with) < len(variants) {
			return nil, fmt.Errorf("a component removes %s.%s, which a template cannot", path, key)
		}
		value, err := merge(path+"."+key, keys[key], with)
		if err != nil {
			return nil, err
		}
		field := Field{Key: key, Value: value}
		if !always {
			field.Only = slices.Sorted(maps.Keys(with))
		}
		out.Fields = append(out.Fields, field)
	}
	return out, nil
}

// empty is what variants add to where base has nothing.
func empty(of any) any {
	switch of.(type) {
	case map[string]any:
		return map[string]any{}
	case []any:
		return []any{}
	default:
		return of
	}
}

// mergeLists keeps the items of base, and after them has those that variants add. Items with names are merged by these.
func mergeLists(path string, base []any, variants map[string]any) (Node, error) {
	var names []string
	items := map[string]any{} // of base
	with := map[string]map[string]any{}
	add := func(variant string, list []any) {
		seen := map[string]int{}
		for _, item := range list {
			name := identity(item)
			if seen[name]++; seen[name] > 1 {
				name += fmt.Sprintf("#%d", seen[name])
			}
			if !slices.Contains(names, name) {
				names = append(names, name)
				with[name] = map[string]any{}
			}
			if variant == "" {
				items[name] = item
			} else {
				with[name][variant] = item
			}
		}
	}
	add("", base)
	for _, variant := range slices.Sorted(maps.Keys(variants)) {
		list, ok := variants[variant].([]any)
		if !ok {
			return nil, fmt.Errorf("component %s makes something else of %s", variant, path)
		}
		add(variant, list)
	}
	var errs []error
	out := &List{}
	for _, name := range names {
		before, always := items[name]
		if always && len(with[name]) < len(variants) {
			errs = append(errs, fmt.Errorf("a component removes or changes %s of %s, which a template cannot", name, path))
			continue
		}
		item := Item{}
		if !always {
			item.Only = slices.Sorted(maps.Keys(with[name]))
			before = with[name][item.Only[0]]
		}
		var err error
		item.Value, err = merge(path+"["+name+"]", before, with[name])
		errs = append(errs, err)
		out.Items = append(out.Items, item)
	}
	return out, errors.Join(errs...)
}

// identity is by what items of a list are the same in two variants: where a volume is mounted, a name, or else all of it.
func identity(item any) string {
	text := fmt.Sprint(item)
	if m, ok := item.(map[string]any); ok {
		for _, key := range []string{"name", "mountPath"} {
			if s, ok := m[key].(string); ok && s != "" {
				text = s
			}
		}
	}
	return text
}

// Literal is the tree of a plain value.
func Literal(value any) Node {
	switch v := value.(type) {
	case map[string]any:
		out := &Map{}
		for _, key := range order(v) {
			out.Fields = append(out.Fields, Field{Key: key, Value: Literal(v[key])})
		}
		return out
	case []any:
		out := &List{}
		for _, item := range v {
			out.Items = append(out.Items, Item{Value: Literal(item)})
		}
		return out
	default:
		return Scalar{v}
	}
}

// order is what people expect at the head of an object, then the alphabet.
func order(m map[string]any) []string {
	rank := map[string]int{"apiVersion": -4, "kind": -3, "metadata": -2, "name": -1}
	return slices.SortedFunc(maps.Keys(m), func(a, b string) int {
		if rank[a] != rank[b] {
			return rank[a] - rank[b]
		}
		return strings.Compare(a, b)
	})
}

// Field returns the field of a key, nil if there is none.
func (m *Map) Field(key string) *Field {
	for i := range m.Fields {
		if m.Fields[i].Key == key {
			return &m.Fields[i]
		}
	}
	return nil
}

// At follows keys through maps, and through lists by the name of an item. The error says which is missing.
func At(node Node, path ...string) (Node, error) {
	for i, key := range path {
		var next Node
		switch n := node.(type) {
		case *Map:
			if f := n.Field(key); f != nil {
				next = f.Value
			}
		case *List:
			if item := n.Named(key); item != nil {
				next = item.Value
			}
		}
		if next == nil {
			return nil, fmt.Errorf("there is no %s", strings.Join(path[:i+1], "."))
		}
		node = next
	}
	return node, nil
}

// Named returns the item with a field name of this value, nil if there is none.
func (l *List) Named(name string) *Item {
	for i := range l.Items {
		if m, ok := l.Items[i].Value.(*Map); ok {
			if f := m.Field("name"); f != nil && f.Value == (Scalar{name}) {
				return &l.Items[i]
			}
		}
	}
	return nil
}

// Printer prints trees.
type Printer struct {
	// Condition is the expression that is true where one of these variants is installed.
	Condition func(variants []string) string
	// Text makes what a template may hold of literal text: actions in it are escaped.
	Text func(string) string
}

// Print returns a document.
func (p Printer) Print(n Node) (string, error) {
	var b strings.Builder
	if err := p.node(&b, n, 0); err != nil {
		return "", err
	}
	return b.String(), nil
}

func (p Printer) node(b *strings.Builder, n Node, indent int) error {
	switch n := n.(type) {
	case *Map:
		return p.fields(b, n, indent, strings.Repeat(" ", indent))
	case *List:
		return p.items(b, n, indent)
	default:
		return fmt.Errorf("%T cannot be printed", n)
	}
}

// fields prints the fields of a map, the first with a prefix of its own.
func (p Printer) fields(b *strings.Builder, m *Map, indent int, first string) error {
	prefix := strings.Repeat(" ", indent)
	open := p.block(b, indent)
	for i, f := range m.Fields {
		raw, isRaw := f.Value.(Raw)
		if i == 0 && first != prefix {
			if isRaw || len(f.Only) > 0 {
				return fmt.Errorf("a map in a list begins with field %q, which not all variants have", f.Key)
			}
			b.WriteString(first + f.Key + ":")
		} else {
			open(f.Only)
			if isRaw {
				b.WriteString(raw.at(indent))
				continue
			}
			b.WriteString(prefix + f.Key + ":")
		}
		if err := p.value(b, f.Value, indent); err != nil {
			return err
		}
	}
	open(nil)
	return nil
}

// block returns what begins and ends a condition: neighbours with the same condition share one.
func (p Printer) block(b *strings.Builder, indent int) func(only []string) {
	space := strings.Repeat(" ", indent)
	var now []string
	return func(only []string) {
		if slices.Equal(now, only) {
			return
		}
		if len(now) > 0 {
			b.WriteString(space + "{{- end }}\n")
		}
		if len(only) > 0 {
			b.WriteString(space + "{{- if " + p.Condition(only) + " }}\n")
		}
		now = only
	}
}

func (p Printer) value(b *strings.Builder, n Node, indent int) error {
	switch v := n.(type) {
	case Expression:
		b.WriteString(" " + string(v) + "\n")
	case Scalar:
		return p.scalar(b, v, indent)
	case *Map:
		if len(v.Fields) == 0 {
			b.WriteString(" {}\n")
			return nil
		}
		b.WriteString("\n")
		return p.fields(b, v, indent+2, strings.Repeat(" ", indent+2))
	case *List:
		if len(v.Items) == 0 {
			b.WriteString(" []\n")
			return nil
		}
		b.WriteString("\n")
		return p.items(b, v, indent+2)
	default:
		return fmt.Errorf("%T cannot be printed", n)
	}
	return nil
}

func (p Printer) items(b *strings.Builder, l *List, indent int) error {
	space := strings.Repeat(" ", indent)
	open := p.block(b, indent)
	for _, item := range l.Items {
		open(item.Only)
		if raw, ok := item.Value.(Raw); ok {
			b.WriteString(raw.at(indent))
			continue
		}
		if err := p.item(b, item.Value, indent, space); err != nil {
			return err
		}
	}
	open(nil)
	return nil
}

func (p Printer) item(b *strings.Builder, value Node, indent int, space string) error {
	if m, ok := value.(*Map); ok && len(m.Fields) > 0 {
		return p.fields(b, m, indent+2, space+"- ")
	}
	b.WriteString(space + "-")
	return p.value(b, value, indent)
}

// scalar prints a value behind its key. A text of several lines is a block, indented below.
func (p Printer) scalar(b *strings.Builder, s Scalar, indent int) error {
	data, err := yaml.Marshal(s.Value)
	if err != nil {
		return err
	}
	lines := strings.Split(strings.TrimSuffix(string(data), "\n"), "\n")
	space := strings.Repeat(" ", indent)
	b.WriteString(" " + p.Text(lines[0]) + "\n")
	for _, line := range lines[1:] {
		if line != "" {
			line = space + p.Text(line)
		}
		b.WriteString(line + "\n")
	}
	return nil
}

// at indents lines.
func (r Raw) at(indent int) string {
	space := strings.Repeat(" ", indent)
	numbers := strings.NewReplacer("@+", fmt.Sprint(indent+2), "@", fmt.Sprint(indent))
	var b strings.Builder
	for line := range strings.Lines(string(r)) {
		b.WriteString(space + numbers.Replace(strings.TrimSuffix(line, "\n")) + "\n")
	}
	return b.String()
}
