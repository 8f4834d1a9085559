package templates

// Switch makes a part of config optional.
type Switch struct {
	// Component is a folder of config, whose objects and changes to others are in the chart where the value is true.
	Component string
	// Value is a path in the values, and begins with the name of the values of this part.
	Value string
}

// Switches are the optional parts, in the order in which config applies them. Some need not exist.
var Switches = []Switch{
	{Component: "network-policy", Value: "networkPolicy.enabled"},
	{Component: "dashboard", Value: "dashboard.enabled"},
	{Component: "receiver", Value: "receiver.enabled"},
	{Component: "cluster-profiles", Value: "clusterProfiles.enabled"},
	{Component: "monitoring", Value: "monitoring.enabled"},
}

// Components are the folders of the switches.
func Components() []string {
	out := make([]string, len(Switches))
	for i, s := range Switches {
		out[i] = s.Component
	}
	return out
}

// kindRule says what is special about all objects of a kind.
type kindRule struct {
	// condition is an expression that is true where objects of the kind are installed.
	condition string
	// keep has Helm leave them where they are when the release is uninstalled.
	keep bool
}

// policyCondition is true where admission policies are wanted and served: see _helpers.tpl.
const policyCondition = `and .Values.admissionPolicy.enabled (include "minifleet.hasPolicies" .)`

var kindRules = map[string]kindRule{
	"CustomResourceDefinition":         {condition: ".Values.crds.enabled", keep: true},
	"Namespace":                        {condition: ".Values.namespace.create", keep: true},
	"NetworkPolicy":                    {condition: ".Values.networkPolicy.enabled"},
	"ValidatingAdmissionPolicy":        {condition: policyCondition},
	"ValidatingAdmissionPolicyBinding": {condition: policyCondition},
}
