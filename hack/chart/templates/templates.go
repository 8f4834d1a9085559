// Package templates makes the templates of the chart from what config installs. It is pure: objects in, files out.
//
// What a template does depends on the kind of an object (kindRules), on the part of config that has it (Switches), and on
// values that are put into it (slots). All else is as config has it: a new object or rule needs nothing here.
package templates

import (
	"embed"
	"errors"
	"fmt"
	"path"
	"reflect"
	"slices"
	"strings"

	"github.com/minifleet/minifleet/hack/chart/tree"
	"github.com/minifleet/minifleet/hack/chart/variants"
)

// static holds the templates that are for no object of config.
//
//go:embed all:static
var static embed.FS

// Chart is what was made of config.
type Chart struct {
	// Files are the templates, by path below the chart.
	Files map[string][]byte
	// Settings are what config sets and values change.
	Settings Settings
	// Parts are the components that exist, and those of them that config/default has.
	Parts, Default []string
	// CRDs are the names of the definitions.
	CRDs []string
}

// key is what an object is known by.
type key struct{ apiVersion, kind, namespace, name string }

func keyOf(o variants.Object) key {
	metadata, _ := o["metadata"].(map[string]any)
	text := func(v any) string { s, _ := v.(string); return s }
	return key{text(o["apiVersion"]), text(o["kind"]), text(metadata["namespace"]), text(metadata["name"])}
}

// Make makes the templates. The error names each object that has no place in the chart.
func Make(config *variants.Config) (*Chart, error) {
	base, err := config.Build()
	if err != nil {
		return nil, err
	}
	with := map[string]map[key]variants.Object{}
	for _, component := range config.Components {
		objects, err := config.Build(component)
		if err != nil {
			return nil, err
		}
		with[component] = index(objects)
	}
	out := &Chart{Files: map[string][]byte{}, Parts: config.Components, Default: config.Default()}
	if err := out.addStatic(); err != nil {
		return nil, err
	}
	var errs []error
	for _, k := range keys(base, with) {
		errs = append(errs, out.add(config.Namespace, k, index(base)[k], with))
	}
	if out.Settings.Repository == "" {
		errs = append(errs, fmt.Errorf("config has no Deployment %s", controller))
	}
	return out, errors.Join(errs...)
}

func index(objects []variants.Object) map[key]variants.Object {
	out := map[key]variants.Object{}
	for _, o := range objects {
		out[keyOf(o)] = o
	}
	return out
}

// keys are those of all objects, sorted.
func keys(base []variants.Object, with map[string]map[key]variants.Object) []key {
	all := index(base)
	for _, objects := range with {
		for k, o := range objects {
			all[k] = o
		}
	}
	out := make([]key, 0, len(all))
	for k := range all {
		out = append(out, k)
	}
	slices.SortFunc(out, func(a, b key) int {
		return strings.Compare(a.kind+"\x00"+a.name+"\x00"+a.namespace, b.kind+"\x00"+b.name+"\x00"+b.namespace)
	})
	return out
}

// add adds the template of an object.
func (c *Chart) add(namespace string, k key, base variants.Object, with map[string]map[key]variants.Object) error {
	where := k.kind + " " + k.name
	if k.kind == "Namespace" && k.name != namespace {
		return fmt.Errorf("%s is another namespace than that of the release, %s, and the chart makes no other", where, namespace)
	}
	if k.namespace != "" && k.namespace != namespace {
		return fmt.Errorf("%s is in namespace %s, and the chart installs into that of the release only", where, k.namespace)
	}
	node, only, err := merged(k, base, with)
	if err != nil {
		return fmt.Errorf("%s: %w", where, err)
	}
	if k.kind == "Deployment" && k.name == controller {
		if c.Settings, err = settings(base); err != nil {
			return fmt.Errorf("%s: %w", where, err)
		}
	}
	if err := fill(k.kind, k.name, node); err != nil {
		return err
	}
	if k.kind == "CustomResourceDefinition" {
		c.CRDs = append(c.CRDs, k.name)
	}
	text, err := document(namespace, k, node, only)
	if err != nil {
		return fmt.Errorf("%s: %w", where, err)
	}
	name := fileName(k)
	if _, taken := c.Files[name]; taken {
		return fmt.Errorf("%s: two objects are for %s", where, name)
	}
	c.Files[name] = []byte(text)
	return nil
}

// merged is an object of all variants in one, and the components that have it if not all do.
func merged(k key, base variants.Object, with map[string]map[key]variants.Object) (tree.Node, []string, error) {
	changes := map[string]any{}
	var only []string
	for _, component := range Components() {
		o, has := with[component][k]
		if _, built := with[component]; !built {
			continue
		}
		switch {
		case base != nil && !has:
			return nil, nil, fmt.Errorf("component %s removes it, which a template cannot", component)
		case base == nil && has:
			only = append(only, component)
			changes[component] = o
		case base != nil && !reflect.DeepEqual(base, o):
			changes[component] = o
		}
	}
	if base != nil {
		node, err := tree.Merge(base, changes)
		return node, nil, err
	}
	first := changes[only[0]]
	for _, component := range only[1:] {
		if !reflect.DeepEqual(first, changes[component]) {
			return nil, nil, fmt.Errorf("components %s make different things of it", strings.Join(only, ", "))
		}
	}
	return tree.Literal(first), only, nil
}

// valueOf is the expression that is true where a component, or what a value says, is installed.
func valueOf(name string) string {
	for _, s := range Switches {
		if s.Component == name {
			return ".Values." + s.Value
		}
	}
	return name
}

// anyOf is true where one of these is installed.
func anyOf(names []string) string {
	values := make([]string, len(names))
	for i, name := range names {
		values[i] = valueOf(name)
	}
	if len(values) == 1 {
		return values[0]
	}
	return "or " + strings.Join(values, " ")
}

// conditionOf is true where an object is installed; empty for always.
func conditionOf(kind string, only []string) string {
	var all []string
	if len(only) > 0 {
		all = append(all, anyOf(only))
	}
	if c := kindRules[kind].condition; c != "" && !slices.Contains(all, c) {
		all = append(all, c)
	}
	switch len(all) {
	case 0:
		return ""
	case 1:
		return all[0]
	default:
		return "and " + parenthesized(all)
	}
}

func parenthesized(expressions []string) string {
	out := make([]string, len(expressions))
	for i, e := range expressions {
		if strings.Contains(e, " ") {
			e = "(" + e + ")"
		}
		out[i] = e
	}
	return strings.Join(out, " ")
}

// notice heads each template.
const notice = "{{- /* Generated from config by `make generate`. Edit that. */ -}}\n"

func document(namespace string, k key, node tree.Node, only []string) (string, error) {
	if err := mark(k, node); err != nil {
		return "", err
	}
	text := Escape
	if k.kind != "CustomResourceDefinition" {
		text = func(s string) string { return inNamespace(Escape(s), namespace) }
	}
	body, err := tree.Printer{Condition: anyOf, Text: text}.Print(node)
	if err != nil {
		return "", err
	}
	if condition := conditionOf(k.kind, only); condition != "" {
		body = "{{- if " + condition + " }}\n" + body + "{{- end }}\n"
	}
	return notice + body, nil
}

// Escape has a template print a text as it is.
func Escape(s string) string { return strings.ReplaceAll(s, "{{", `{{ "{{" }}`) }

// inNamespace names the namespace of the release in place of that of config/default. Alone it is quoted, since a namespace may
// look like a number.
func inNamespace(s, namespace string) string {
	if s == namespace {
		return "{{ .Release.Namespace | quote }}"
	}
	return strings.ReplaceAll(s, namespace, "{{ .Release.Namespace }}")
}

// labels are those of the helper in _helpers.tpl.
var labels = []string{"helm.sh/chart", "app.kubernetes.io/name", "app.kubernetes.io/instance", "app.kubernetes.io/version", "app.kubernetes.io/managed-by"}

// mark adds the labels of a release, and for what is to outlive it the annotation that says so.
func mark(k key, node tree.Node) error {
	metadata, err := mapAt(node, "metadata")
	if err != nil {
		return err
	}
	if metadata.Field("labels") == nil {
		metadata.Fields = append(metadata.Fields, tree.Field{Key: "labels", Value: &tree.Map{}})
	}
	own, ok := metadata.Field("labels").Value.(*tree.Map)
	if !ok || len(metadata.Field("labels").Only) > 0 {
		return errors.New("its labels are no mapping that is always there")
	}
	// Of these config may give the name: it is the same.
	own.Fields = slices.DeleteFunc(own.Fields, func(f tree.Field) bool {
		return f.Key == "app.kubernetes.io/name" && f.Value == tree.Scalar{Value: "minifleet"}
	})
	for _, l := range labels {
		if own.Field(l) != nil {
			return fmt.Errorf("it has label %s, which Helm's charts give another value", l)
		}
	}
	own.Fields = append(own.Fields, tree.Field{Value: tree.Raw("{{- include \"minifleet.labels\" . | nindent @ }}\n")})
	if !kindRules[k.kind].keep {
		return nil
	}
	if metadata.Field("annotations") == nil {
		metadata.Fields = append(metadata.Fields, tree.Field{Key: "annotations", Value: &tree.Map{}})
	}
	annotations, ok := metadata.Field("annotations").Value.(*tree.Map)
	if !ok {
		return errors.New("its annotations are no mapping")
	}
	annotations.Fields = append(annotations.Fields, tree.Field{Key: "helm.sh/resource-policy", Value: tree.Scalar{Value: "keep"}})
	return nil
}

func fileName(k key) string {
	if k.kind == "CustomResourceDefinition" {
		return path.Join("templates", "crds", k.name+".yaml")
	}
	return path.Join("templates", strings.ToLower(k.kind)+"-"+strings.TrimPrefix(k.name, prefix)+".yaml")
}

// addStatic adds the templates that are for no object of config.
func (c *Chart) addStatic() error {
	entries, err := static.ReadDir("static")
	if err != nil {
		return err
	}
	for _, e := range entries {
		data, err := static.ReadFile(path.Join("static", e.Name()))
		if err != nil {
			return err
		}
		c.Files[path.Join("templates", e.Name())] = data
	}
	return nil
}
