package tree_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/minifleet/minifleet/hack/chart/tree"
)

type m = map[string]any

var printer = tree.Printer{
	Condition: func(names []string) string { return strings.Join(names, "|") },
	Text:      func(s string) string { return s },
}

func TestMerge(t *testing.T) {
	base := m{"kind": "A", "args": []any{"x", "y"}, "list": []any{m{"name": "a", "v": 1}}}
	for name, c := range map[string]struct {
		base     any
		variants m
		want     string
	}{
		"nothing but base": {base, nil, "kind: A\nargs:\n  - x\n  - \"y\"\nlist:\n  - name: a\n    v: 1\n"},
		"items share a condition": {m{"args": []any{"x"}}, m{"one": m{"args": []any{"x", "b", "c"}}},
			"args:\n  - x\n  {{- if one }}\n  - b\n  - c\n  {{- end }}\n"},
		"an item of two": {m{"args": []any{"x"}}, m{"one": m{"args": []any{"x", "b"}}, "two": m{"args": []any{"x", "b"}}},
			"args:\n  - x\n  {{- if one|two }}\n  - b\n  {{- end }}\n"},
		"a list that base does not have": {m{"a": 1}, m{"one": m{"a": 1, "l": []any{"b"}}, "two": m{"a": 1, "l": []any{"c"}}},
			"a: 1\n{{- if one|two }}\nl:\n  {{- if one }}\n  - b\n  {{- end }}\n  {{- if two }}\n  - c\n  {{- end }}\n{{- end }}\n"},
		"within an item of a name": {base, m{"one": m{"kind": "A", "args": []any{"x", "y"}, "list": []any{m{"name": "a", "v": 1, "w": 2}}}},
			"kind: A\nargs:\n  - x\n  - \"y\"\nlist:\n  - name: a\n    v: 1\n    {{- if one }}\n    w: 2\n    {{- end }}\n"},
		"texts of several lines": {m{"t": "a\nb\n"}, nil, "t: |\n  a\n  b\n"},
		"what is empty":          {m{"a": m{}, "b": []any{}, "c": nil}, nil, "a: {}\nb: []\nc: null\n"},
		"items that are the same": {m{"l": []any{"x", "x"}}, m{"one": m{"l": []any{"x", "x", "x"}}},
			"l:\n  - x\n  - x\n  {{- if one }}\n  - x\n  {{- end }}\n"},
	} {
		t.Run(name, func(t *testing.T) {
			node, err := tree.Merge(c.base, c.variants)
			if err != nil {
				t.Fatal(err)
			}
			have, err := printer.Print(node)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, have); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestWhatCannotBeMerged(t *testing.T) {
	base := m{"a": m{"b": 1}, "l": []any{"x"}}
	for name, c := range map[string]struct {
		variants m
		want     string
	}{
		"another value":         {m{"one": m{"a": m{"b": 2}, "l": []any{"x"}}}, "component one changes .a.b from 1 to 2"},
		"a field less":          {m{"one": m{"a": m{}, "l": []any{"x"}}}, "removes .a.b"},
		"an item less":          {m{"one": m{"a": m{"b": 1}, "l": []any{}}}, "removes or changes x of .l"},
		"another type":          {m{"one": m{"a": "text", "l": []any{"x"}}}, "component one makes something else of .a"},
		"two that do not agree": {m{"one": m{"a": m{"b": 1}, "l": []any{"x"}, "n": 1}, "two": m{"a": m{"b": 1}, "l": []any{"x"}, "n": 2}}, "changes .n"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := tree.Merge(base, c.variants); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}
