package render_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/internal/render"
)

// fieldsDocument tells users what each field does. It is written from what is rendered.
const fieldsDocument = "../../docs/fields.md"

const fieldsHeader = `# What each field of a MiniCluster does

Each field is set alone, on a MiniCluster with a container that runs Flux, a sidecar (` + "`containers[1]`" + `) and a
service, and the objects that are rendered are compared: this table is what differs. It is written by a test
(` + "`go test ./internal/render -update`" + `), which fails for a field that has no effect and no reason for that.
Files are those of the ConfigMap ` + "`NAME-entrypoint`" + `, which pods see in ` + "`/flux_operator`" + `. What differs from the Flux
Operator is in [compatibility.md](compatibility.md).

| field | what it changes |
|---|---|
`

func TestFieldsDocument(t *testing.T) {
	var out strings.Builder
	out.WriteString(fieldsHeader)
	for _, e := range effects(t) {
		what := strings.Join(e.changes, "<br>")
		if _, reason := reasonFor(e.path); reason != "" {
			what = "– (" + reason + ")"
		}
		fmt.Fprintf(&out, "| `%s` | %s |\n", e.path, what)
	}
	if *update {
		if err := os.WriteFile(fieldsDocument, []byte(out.String()), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(fieldsDocument)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), out.String()); diff != "" {
		t.Errorf("%s is out of date; run with -update (-document +rendered):\n%s", fieldsDocument, diff)
	}
}

// changes are the places in which the objects of two renderings differ, each once, in order.
func changes(t *testing.T, before, after *render.Bundle) []string {
	t.Helper()
	was, is := places(t, before), places(t, after)
	seen := map[string]bool{}
	for _, all := range []map[string]string{was, is} {
		for place := range all {
			object, _, _ := strings.Cut(place, ".")
			switch {
			case was[object] != is[object]:
				seen["`"+object+"`"] = true
			case was[place] != is[place]:
				seen[shortened(place)] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(seen))
}

// places are the leaves of all objects, by where they are.
func places(t *testing.T, bundle *render.Bundle) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, object := range bundle.Objects() {
		annotations := maps.Clone(object.GetAnnotations())
		delete(annotations, v1alpha1.AnnotationDigest) // follows from the rest
		object.SetAnnotations(annotations)
		text, err := json.Marshal(object)
		if err != nil {
			t.Fatal(err)
		}
		var value any
		if err := json.Unmarshal(text, &value); err != nil {
			t.Fatal(err)
		}
		place := object.GetObjectKind().GroupVersionKind().Kind
		if place == "Service" {
			place += " " + object.GetName()
		}
		out[place] = "there"
		leaves(value, place, out)
	}
	return out
}

func leaves(value any, place string, out map[string]string) {
	switch value := value.(type) {
	case map[string]any:
		for key, child := range value {
			leaves(child, place+"."+key, out)
		}
	case []any:
		for i, child := range value {
			leaves(child, fmt.Sprintf("%s[%d]", place, i), out)
		}
	default:
		out[place] = fmt.Sprint(value)
	}
}

var (
	scriptFile = regexp.MustCompile(`^ConfigMap\.data\.(.*)$`)
	element    = regexp.MustCompile(`\[[0-9]+\]`)
	rest       = regexp.MustCompile(`^([^.]*(\.[^.]*){2}).*$`)
)

// shortened is a place as people read it: whole files, lists without indices, not deeper than need be.
func shortened(place string) string {
	if file := scriptFile.FindStringSubmatch(place); file != nil {
		return "file `" + file[1] + "`"
	}
	place = strings.Replace(place, "Job.spec.template.spec.", "Job pods.", 1)
	place = strings.Replace(place, "Job.spec.template.metadata.", "Job pods.metadata.", 1)
	place = strings.Replace(place, "Pod.spec.", "Pod.", 1)
	place = element.ReplaceAllString(place, "[]")
	return "`" + rest.ReplaceAllString(place, "$1") + "`"
}
