package main

import (
	"maps"
	"slices"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// addedRules returns the rules (x-kubernetes-validations) that properties have got which were there before, and takes all
// rules out of both CRDs: crdify says of a rule that something has changed, and not which. A rule that is no longer there
// allows more than before, and another text of a rule changes nothing.
func addedRules(old, current *apiextensionsv1.CustomResourceDefinition) []incompatibility {
	var found []incompatibility
	for _, version := range slices.Sorted(maps.Keys(schemas(old))) {
		before, after := map[string][]string{}, map[string][]string{}
		takeRules(schemas(old)[version], version+".^", before)
		now := schemas(current)[version]
		if now == nil {
			continue // which crdify tells
		}
		takeRules(now, version+".^", after)
		for _, property := range slices.Sorted(maps.Keys(after)) {
			known, existed := before[property]
			for _, rule := range after[property] {
				if existed && !slices.Contains(known, rule) {
					found = append(found, incompatibility{CRD: old.Name, Property: property, Validation: "rule", Change: "rule added : " + rule})
				}
			}
		}
	}
	return found
}

func schemas(crd *apiextensionsv1.CustomResourceDefinition) map[string]*apiextensionsv1.JSONSchemaProps {
	found := map[string]*apiextensionsv1.JSONSchemaProps{}
	for _, version := range crd.Spec.Versions {
		if version.Schema != nil {
			found[version.Name] = version.Schema.OpenAPIV3Schema
		}
	}
	return found
}

// takeRules moves the rules of a schema, and of all below it, into a map by path. A path without rules is there too.
func takeRules(schema *apiextensionsv1.JSONSchemaProps, path string, rules map[string][]string) {
	list := []string{}
	for _, rule := range schema.XValidations {
		list = append(list, rule.Rule)
	}
	rules[path], schema.XValidations = list, nil
	for name, property := range schema.Properties {
		takeRules(&property, path+"."+name, rules)
		schema.Properties[name] = property
	}
	if schema.Items != nil && schema.Items.Schema != nil {
		takeRules(schema.Items.Schema, path+"[*]", rules)
	}
	if schema.AdditionalProperties != nil && schema.AdditionalProperties.Schema != nil {
		takeRules(schema.AdditionalProperties.Schema, path+"[*]", rules)
	}
}
