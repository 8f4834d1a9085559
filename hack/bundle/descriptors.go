package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

const descriptorPrefix = "urn:alm:descriptor:"

// ownedDefinitions are the descriptions of the CRDs: what the base says of each, and what its schema does.
func ownedDefinitions(csv *unstructured.Unstructured, definitions, examples []*unstructured.Unstructured) ([]any, error) {
	said, _, err := unstructured.NestedSlice(csv.Object, "spec", "customresourcedefinitions", "owned")
	if err != nil {
		return nil, err
	}
	base := map[string]map[string]any{}
	for _, item := range said {
		if m, ok := item.(map[string]any); ok {
			name, _ := m["name"].(string)
			base[name] = m
		}
	}
	var out []any
	for _, definition := range definitions {
		description, err := ownedDefinition(base[definition.GetName()], definition, examples)
		if err != nil {
			return nil, err
		}
		delete(base, definition.GetName())
		out = append(out, description)
	}
	if len(base) > 0 {
		return nil, fmt.Errorf("config/olm/csv.yaml describes %v, which config/crd does not have: remove it there", slices.Sorted(maps.Keys(base)))
	}
	return out, nil
}

func ownedDefinition(base map[string]any, definition *unstructured.Unstructured, examples []*unstructured.Unstructured) (map[string]any, error) {
	if base == nil {
		return nil, fmt.Errorf("CRD %s has no displayName and resources: add them to spec.customresourcedefinitions of config/olm/csv.yaml", definition.GetName())
	}
	var crd apiextensionsv1.CustomResourceDefinition
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(definition.Object, &crd); err != nil {
		return nil, err
	}
	if len(crd.Spec.Versions) != 1 {
		return nil, fmt.Errorf("CRD %s has %d versions, and the bundle is made for one", crd.Name, len(crd.Spec.Versions))
	}
	kind := crd.Spec.Names.Kind
	if !slices.ContainsFunc(examples, func(e *unstructured.Unstructured) bool { return e.GetKind() == kind }) {
		return nil, fmt.Errorf("config/samples has no %s: add one", kind)
	}
	version := &crd.Spec.Versions[0]
	schema := version.Schema.OpenAPIV3Schema
	out := maps.Clone(base)
	out["kind"], out["version"], out["description"] = kind, version.Name, oneLine(schema.Description)
	out["specDescriptors"] = descriptors(schema.Properties["spec"])
	if status := descriptors(schema.Properties["status"]); len(status) > 0 {
		out["statusDescriptors"] = status
	}
	return out, nil
}

// descriptors are a field each of spec or status, by name.
func descriptors(of apiextensionsv1.JSONSchemaProps) []any {
	var out []any
	for _, name := range slices.Sorted(maps.Keys(of.Properties)) {
		field := of.Properties[name]
		descriptor := map[string]any{"path": name, "displayName": title(name)}
		if text := oneLine(field.Description); text != "" {
			descriptor["description"] = text
		}
		if hint := hintOf(name, field.Type); hint != "" {
			descriptor["x-descriptors"] = []any{descriptorPrefix + hint}
		}
		out = append(out, descriptor)
		if _, ok := field.Properties["name"]; ok && strings.HasSuffix(strings.ToLower(name), "secretref") {
			out = append(out, map[string]any{
				"path": name + ".name", "displayName": title(name) + " Name", "x-descriptors": []any{descriptorPrefix + "io.kubernetes:Secret"},
			})
		}
	}
	return out
}

// hintOf says to a console how to show a field.
func hintOf(name, kind string) string {
	switch {
	case name == "conditions":
		return "io.kubernetes.conditions"
	case kind == "boolean":
		return "com.tectonic.ui:booleanSwitch"
	case kind == "integer":
		return "com.tectonic.ui:number"
	case kind == "string":
		return "text"
	default:
		return ""
	}
}

// title is the name of a field for people: observedGeneration is Observed Generation.
func title(name string) string {
	var out strings.Builder
	for i, r := range name {
		switch {
		case i == 0:
			r = unicode.ToUpper(r)
		case unicode.IsUpper(r):
			out.WriteByte(' ')
		}
		out.WriteRune(r)
	}
	for short, long := range map[string]string{"Url": "URL", "Uid": "UID"} {
		if out.String() == short {
			return long
		}
	}
	return out.String()
}

// oneLine is the first paragraph of a description, in one line.
func oneLine(text string) string {
	first, _, _ := strings.Cut(text, "\n\n")
	return strings.Join(strings.Fields(first), " ")
}
