// Package policy holds the admission policy that says who may let GitSources use permissions. Administrators install it
// with kubectl, and the controller compares what is installed with it.
package policy

import _ "embed"

// GitSourceAllow is a ValidatingAdmissionPolicy and its binding, as YAML.
//
//go:embed gitsource_allow.yaml
var GitSourceAllow []byte

// Names are those that the policy and its binding have: where config/default has installed them, and where config/policy
// has alone.
func Names() []string { return []string{"minifleet-gitsource-allow", "gitsource-allow"} }
