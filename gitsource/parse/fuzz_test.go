package parse_test

import (
	"strings"
	"testing"

	"github.com/minifleet/minifleet/gitsource"
	"github.com/minifleet/minifleet/gitsource/parse"
)

// FuzzTree searches for panics, endless work, and results that break what Tree promises.
func FuzzTree(f *testing.F) {
	for _, seed := range []string{
		"", "a: [", "---\n---\n", "\t", "{}", "[]", "&a [*a]", "a: &a\n  b: *a\n", "<<: *x", "? [a]\n: b\n", "!!binary x", "\xff\xfe",
		named(mini, "a"), named(fleet, "a"), named(placement, "a"),
		named(mini, "a") + "---\n" + named(mini, "a"),
		"apiVersion: v1\nkind: List\nitems:\n- &a {apiVersion: v1, kind: List, items: [*a]}\n",
		"apiVersion: minifleet.dev/v1alpha1\nkind: Placement\nmetadata: &m {name: a, labels: {<<: *m}}\n",
		strings.Replace(named(mini, "a"), "size: 2", "<<: [{size: 1}, {size: 2}]\n  size: 0x7fffffffffffffff", 1),
		strings.Repeat("[", 2000), strings.Repeat("- ", 2000), strings.Repeat("a: &a ", 100),
	} {
		f.Add(seed, false)
		f.Add(seed, true)
	}
	f.Fuzz(func(t *testing.T, content string, asJSON bool) {
		path := "a.yaml"
		if asJSON {
			path = "a.json"
		}
		res := parse.Tree([]gitsource.File{{Path: path, Data: []byte(content)}}, parse.Options{Namespace: "hpc"})
		if len(res.Problems) > 31 {
			t.Errorf("%d problems of one file", len(res.Problems))
		}
		for _, p := range res.Problems {
			if p.Path != path || p.Message == "" || p.Line < 0 || p.Line > strings.Count(content, "\n")+strings.Count(content, "\r")+strings.Count(content, "\u0085")+strings.Count(content, "\u2028")+strings.Count(content, "\u2029")+2 {
				t.Errorf("problem %+v", p)
			}
		}
		names := map[string]bool{}
		for _, o := range res.Objects {
			if o.Name == "" || names[o.Kind+o.Name] {
				t.Errorf("object %s/%s without a name of its own", o.Kind, o.Name)
			}
			names[o.Kind+o.Name] = true
		}
	})
}
