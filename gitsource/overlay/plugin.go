package overlay

import (
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// pluginUses says what the configurations of kustomize's own generators and transformers refer to.
var pluginUses = map[string]map[string]shape{
	"ConfigMapGenerator":             generated,
	"SecretGenerator":                generated,
	"PatchTransformer":               filePath,
	"PatchJson6902Transformer":       filePath,
	"PatchStrategicMergeTransformer": {"paths": {use: usePatch, items: true}},
	"ReplacementTransformer":         {"replacements": {items: true, in: filePath}},
}

// functionAnnotations have kustomize run a container, a program or a script.
var functionAnnotations = []string{"config.kubernetes.io/function", "config.k8s.io/function"}

const (
	// builtin is the apiVersion of kustomize's own.
	builtin = "builtin"
	// maxPluginLists is how deep lists of configurations may lie in each other.
	maxPluginLists = 4
	// maxPluginDocuments is how many configurations one file may have.
	maxPluginDocuments = 500
)

// configuration is what tells what a document of a generator, transformer or validator does.
type configuration struct {
	apiVersion, kind string
	function         string // the annotation that makes it one
	items            *yaml.Node
}

func (c *collector) configuration(node *yaml.Node) (out configuration, err error) {
	err = c.each(node, 0, func(key, value *yaml.Node) (err error) {
		switch key.Value {
		case "apiVersion":
			out.apiVersion = scalar(value)
		case "kind":
			out.kind = scalar(value)
		case "items":
			out.items = resolve(value)
		case "metadata":
			out.function, err = c.function(value)
		}
		return err
	})
	return out, err
}

// isList says whether it stands for several.
func (c *configuration) isList() bool {
	return strings.HasSuffix(c.kind, "List") && c.items != nil && c.items.Kind == yaml.SequenceNode
}

// plugin collects what one document of a generator, transformer or validator refers to, and refuses what would run a
// program.
func (c *collector) plugin(node *yaml.Node, depth int) error {
	is, err := c.configuration(node)
	if err != nil {
		return err
	}
	line := 0
	if node := resolve(node); node != nil {
		line = node.Line
	}
	switch {
	case is.function != "":
		c.refused = append(c.refused, Problem{Line: line, Field: is.function, Message: fmt.Sprintf(
			"%s is a function, which runs a program: functions are not run; use kustomize's own transformers (apiVersion: builtin), or commit what it makes", quote(is.kind))})
	case is.isList() && depth < maxPluginLists:
		for _, item := range is.items.Content {
			if err := c.plugin(item, depth+1); err != nil {
				return err
			}
		}
	case is.kind == "HelmChartInflationGenerator":
		c.refused = append(c.refused, Problem{Line: line, Field: "kind", Message: helmRefused})
	case is.apiVersion != builtin:
		c.refused = append(c.refused, Problem{Line: line, Field: "apiVersion", Message: fmt.Sprintf(
			"%s of apiVersion %s is a plugin, which runs a program: plugins are not run; use kustomize's own transformers (apiVersion: builtin), or commit what it makes",
			quote(is.kind), quote(is.apiVersion))})
	default:
		return c.fields(node, pluginUses[is.kind], "")
	}
	return nil
}

// function returns the annotation that makes a configuration a function, "" without one.
func (c *collector) function(metadata *yaml.Node) (name string, err error) {
	err = c.each(metadata, 0, func(key, value *yaml.Node) error {
		if key.Value != "annotations" {
			return nil
		}
		return c.each(value, 0, func(key, _ *yaml.Node) error {
			if slices.Contains(functionAnnotations, key.Value) {
				name = "metadata.annotations[" + key.Value + "]"
			}
			return nil
		})
	})
	return name, err
}

func scalar(node *yaml.Node) string {
	if node = resolve(node); node != nil && node.Kind == yaml.ScalarNode {
		return node.Value
	}
	return ""
}

// inline says whether an entry is a configuration or a patch itself, and not the path of a file.
func inline(entry string) bool {
	docs, err := documents([]byte(entry), 1)
	return err == nil && len(docs) == 1 && docs[0].Kind == yaml.MappingNode
}
