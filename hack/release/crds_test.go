package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const widgets = `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.example.org}
spec:
  group: example.org
  scope: Namespaced
  names: {kind: Widget, plural: widgets}
  versions:
    - name: v1
      served: true
      storage: true
      schema:
        openAPIV3Schema:
          type: object
          properties:
            spec:
              type: object
              properties:
                # What the widget is.
                color: {type: string, enum: [Red], description: What it looks like.}
                size: {type: integer, maximum: 10}
                tags: {type: array, items: {type: string}}
                url: {type: string, x-kubernetes-validations: [{rule: "self != ''"}]}
`

func TestIncompatibleChanges(t *testing.T) {
	cases := map[string]struct {
		from, to string
		want     []string // CRD property: validation
	}{
		"nothing":             {"", "", nil},
		"a further field":     {"properties:\n                #", "properties:\n                name: {type: string}\n                #", nil},
		"another description": {"What it looks like.", "Its color.", nil},
		"a wider limit":       {"maximum: 10", "maximum: 20", nil},
		"a narrower limit":    {"maximum: 10", "maximum: 5", []string{"widgets.example.org v1.^.spec.size: maximum"}},
		"a field less":        {"size: {type: integer, maximum: 10}", "", []string{"widgets.example.org : existingFieldRemoval", "widgets.example.org v1.^.spec.size: type"}},
		"another type":        {"type: integer, maximum: 10", "type: string", []string{"widgets.example.org v1.^.spec.size: type"}},
		"required at once":    {"type: object\n              properties", "type: object\n              required: [size]\n              properties", []string{"widgets.example.org v1.^.spec: required"}},
		"a default":           {"maximum: 10", "maximum: 10, default: 3", []string{"widgets.example.org v1.^.spec.size: default"}},
		"a value that old ones, after a rollback, do not know": {"[Red]", "[Red, Blue]", []string{"widgets.example.org v1.^.spec.color: enum"}},
		"another rule":              {"self != ''", "self.startsWith('https')", []string{"widgets.example.org v1.^.spec.url: rule"}},
		"a rule in a list":          {"{type: string}", "{type: string, x-kubernetes-validations: [{rule: self != 'x'}]}", []string{"widgets.example.org v1.^.spec.tags[*]: rule"}},
		"no rule any more":          {"x-kubernetes-validations: [{rule: \"self != ''\"}]", "", nil},
		"another message of a rule": {"{rule: \"self != ''\"}", "{rule: \"self != ''\", message: say it}", nil},
		"a rule of a new field":     {"properties:\n                #", "properties:\n                name: {type: string, x-kubernetes-validations: [{rule: self != 'x'}]}\n                #", nil},
		"a pattern":                 {"type: integer", "type: integer, multipleOf: 2", []string{"widgets.example.org v1.^.spec.size: unhandled"}},
		"another scope":             {"Namespaced", "Cluster", []string{"widgets.example.org : scope"}},
		"the CRD is not there":      {widgets, strings.Replace(widgets, "widgets.example.org", "gadgets.example.org", 1), []string{"widgets.example.org : removed"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if !strings.Contains(widgets, c.from) {
				t.Fatalf("there is no %q", c.from)
			}
			found, err := compareCRDs(map[string][]byte{"w.yaml": []byte(widgets)}, map[string][]byte{"w.yaml": []byte(strings.Replace(widgets, c.from, c.to, 1))})
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, f := range found {
				got = append(got, f.CRD+" "+f.Property+": "+f.Validation)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s%v", diff, found)
			}
		})
	}
}

func TestJudge(t *testing.T) {
	change := incompatibility{CRD: "a", Property: "v1.^.spec", Validation: "type", Change: "was string"}
	reasoned := incompatibility{CRD: "a", Property: "v1.^.spec", Validation: "type", Change: "was string", Reason: "nobody set it"}
	cases := map[string]struct {
		found, accepted []incompatibility
		want            string
	}{
		"nothing":                          {nil, nil, ""},
		"not accepted":                     {[]incompatibility{change}, nil, "a v1.^.spec: type: was string"},
		"accepted":                         {[]incompatibility{change}, []incompatibility{reasoned}, ""},
		"another change of it is accepted": {[]incompatibility{change}, []incompatibility{{CRD: "a", Property: "v1.^.spec", Validation: "type", Change: "was integer", Reason: "x"}}, "a v1.^.spec: type: was string"},
		"another one is accepted":          {[]incompatibility{change}, []incompatibility{{CRD: "b", Property: "v1.^.spec", Validation: "type", Reason: "x"}}, "a v1.^.spec: type: was string"},
		"accepted and not changed":         {nil, []incompatibility{reasoned}, "remove it there"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			err := judge("v0.1.0", c.found, c.accepted)
			if c.want == "" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

func TestAcceptedWantsAReason(t *testing.T) {
	path := filepath.Join(t.TempDir(), "incompatible.yaml")
	if err := os.WriteFile(path, []byte("accepted: [{crd: a, validation: type}]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := readAccepted(path); err == nil || !strings.Contains(err.Error(), "has no reason") {
		t.Errorf("got %v", err)
	}
}

// Without the history of the previous release nothing is compared, and that is told.
func TestWithoutHistory(t *testing.T) {
	root := t.TempDir()
	if err := os.MkdirAll(filepath.Join(root, "hack", "release"), 0o700); err != nil {
		t.Fatal(err)
	}
	previous := "v0.1.0 " + strings.Repeat("0", 40) + "\n"
	if err := os.WriteFile(filepath.Join(root, previousFile), []byte(previous), 0o600); err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if err := compareWithPrevious(root, &out); err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(out.String(), "NOT TESTED, the CRDs against those of v0.1.0") {
		t.Errorf("printed %q", out.String())
	}
}
