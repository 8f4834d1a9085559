package parse_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/minifleet/minifleet/gitsource"
	"github.com/minifleet/minifleet/gitsource/budget"
	"github.com/minifleet/minifleet/gitsource/parse"
)

const placementNamed = "apiVersion: minifleet.dev/v1alpha1\nkind: Placement\nmetadata: {name: %s}\nspec: {clusterSelector: {}}\n"

func manyFiles(n int, content func(i int) string) []gitsource.File {
	files := make([]gitsource.File, n)
	for i := range files {
		files[i] = gitsource.File{Path: fmt.Sprintf("%06d.yaml", i), Data: []byte(content(i))}
	}
	return files
}

// bomb is an object whose aliases expand to ten to the power of depth values.
func bomb(name string, depth int) string {
	var b strings.Builder
	fmt.Fprintf(&b, "apiVersion: minifleet.dev/v1alpha1\nkind: Placement\nmetadata:\n  name: %s\nspec:\n  a0: &a0 [lol, lol, lol, lol, lol, lol, lol, lol, lol, lol]\n", name)
	for i := 1; i < depth; i++ {
		fmt.Fprintf(&b, "  a%d: &a%d [%s*a%d]\n", i, i, strings.Repeat(fmt.Sprintf("*a%d, ", i-1), 9), i-1)
	}
	return b.String()
}

// Each of these would take hours, or more memory than a machine has, if it were followed to its end.
func TestAttacksEndAtTheirLimits(t *testing.T) {
	for name, tc := range map[string]struct {
		files  []gitsource.File
		limits budget.Limits
		says   string
	}{
		"alias bombs across documents, each below the limit of one": {
			files: manyFiles(1000, func(i int) string { return bomb(fmt.Sprintf("b%d", i), 4) }),
			says:  "2,000,000 YAML values together, with aliases expanded (at ",
		},
		"alias bombs in the documents of one file": {
			files: manyFiles(1, func(int) string {
				var all []string
				for i := range 400 {
					all = append(all, bomb(fmt.Sprintf("b%d", i), 4))
				}
				return strings.Join(all, "---\n")
			}),
			says: `2,000,000 YAML values together, with aliases expanded (at "000000.yaml")`,
		},
		"text that aliases repeat": {
			files: manyFiles(1000, func(i int) string {
				return fmt.Sprintf(placementNamed, fmt.Sprintf("p%d", i)) + "x: &x " + strings.Repeat("x", 100_000) + "\ny: [" + strings.Repeat("*x, ", 30) + "]\n"
			}),
			says: "67,108,864 bytes of text",
		},
		"names of fields that add up": {
			files: manyFiles(1000, func(i int) string {
				var b strings.Builder
				for depth := range 60 {
					fmt.Fprintf(&b, "%s%s:\n", strings.Repeat(" ", depth+1), strings.Repeat("k", 900))
				}
				return fmt.Sprintf(placementNamed, fmt.Sprintf("p%d", i)) + "x:\n" + b.String() + strings.Repeat(" ", 70) + "[" + strings.Repeat("a,", 900) + "]\n"
			}),
			says: "67,108,864 bytes of text",
		},
		"lists that repeat the same items": {
			files: manyFiles(1, func(int) string {
				item := "{apiVersion: v1, kind: Pod}, "
				return "apiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: List, items: &all [" + strings.Repeat(item, 5000) + "]}\n" +
					strings.Repeat("- {apiVersion: v1, kind: List, items: *all}\n", 5000)
			}),
			says: "2,000,000 YAML values",
		},
		"more objects than a hub should hold": {
			files:  manyFiles(101, func(i int) string { return fmt.Sprintf(placementNamed, fmt.Sprintf("p%d", i)) }),
			limits: budget.Limits{MaxObjects: 100}, says: `more than 100 objects (at "000100.yaml"); use several GitSources`,
		},
		"problems without number": {
			files:  manyFiles(20_000, func(int) string { return "apiVersion: minifleet.dev/v1alpha1\nkind: Placement\nmetadata: {}\n" }),
			limits: budget.Limits{MaxMemoryBytes: 2 << 20}, says: "2,097,152 bytes of memory",
		},
	} {
		t.Run(name, func(t *testing.T) {
			res, err := parse.Within(budget.New(t.Context(), tc.limits, nil), tc.files, parse.Options{})
			var exceeded *budget.Exceeded
			if !errors.As(err, &exceeded) || !strings.Contains(err.Error(), tc.says) {
				t.Errorf("%v does not say %q", err, tc.says)
			}
			if len(res.Objects)+len(res.Problems) > 0 {
				t.Error("a part of the result is given away")
			}
		})
	}
}

// What the parser of YAML cannot be interrupted in is not given to it.
func TestUnreadableFiles(t *testing.T) {
	good := gitsource.File{Path: "z.yaml", Data: fmt.Appendf(nil, placementNamed, "good")}
	tags := "%TAG !a! " + strings.Repeat("x", 500_000) + "\n---\n[" + strings.Repeat("!a!b c,", 10_000) + "]\n"
	for name, tc := range map[string]struct{ content, says string }{
		"tags that repeat a prefix":            {tags, "%TAG"},
		"a directive behind another line end":  {"# a\u2028" + tags, "%TAG"},
		"a directive behind a byte order mark": {"\ufeff" + tags, "%TAG"},
		"too many tag directives":              {strings.Repeat("%TAG !a! b\n", 50_000) + "---\na\n", "%TAG"},
		"values without number":                {"[" + strings.Repeat("a,", 250_000) + "]", "200000 values"},
		"values without number, in a block":    {strings.Repeat("-\n", 250_000), "200000 values"},
		"a key without end":                    {fmt.Sprintf(placementNamed, "long") + "? " + strings.Repeat("k", 2000) + "\n: 1\n", "a key of more than 1000 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			res, err := parse.Within(budget.New(t.Context(), budget.Limits{}, nil), []gitsource.File{{Path: "a.yaml", Data: []byte(tc.content)}, good}, parse.Options{})
			if err != nil {
				t.Fatal(err)
			}
			if len(res.Problems) == 0 || !strings.Contains(res.Problems[0].Message, tc.says) {
				t.Errorf("problems %v do not say %q", res.Problems, tc.says)
			}
			if len(res.Objects) != 1 {
				t.Errorf("%d objects of the other file", len(res.Objects))
			}
		})
	}
	text := "a: |\n  %TAG is a name here\n"
	if res := parse.Tree([]gitsource.File{{Path: "a.yaml", Data: []byte(text)}}, parse.Options{}); len(res.Problems) > 0 {
		t.Errorf("a name in a text: %v", res.Problems)
	}
}

func TestParsingEndsWithTheTime(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	files := manyFiles(10, func(i int) string { return bomb(fmt.Sprintf("b%d", i), 4) })
	if _, err := parse.Within(budget.New(ctx, budget.Limits{}, nil), files, parse.Options{}); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
}

// What is retained of a repository does not grow with what was read and refused.
func TestRefusedManifestsAreNotKept(t *testing.T) {
	files := manyFiles(300, func(i int) string {
		return fmt.Sprintf(placementNamed, fmt.Sprintf("p%d", i)) + "unknown: [" + strings.Repeat("{a: b}, ", 1500) + "]\n"
	})
	before := live()
	res, err := parse.Within(budget.New(t.Context(), budget.Limits{}, nil), files, parse.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if grown := live() - before; grown > 4<<20 {
		t.Errorf("%d bytes are kept of %d problems", grown, len(res.Problems))
	}
	runtime.KeepAlive(res)
}

func live() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
