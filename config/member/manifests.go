// Package member holds the manifests that give MiniFleet its rights on a member: administrators apply them with kubectl, and
// `minifleet cluster join` applies the same.
package member

import "embed"

// Manifests are the directories cluster, for a whole cluster, namespaces, for some namespaces of it, namespaced, for one, and
// policy, which bounds what MiniFleet can do with any of them. Each is a kustomization that sets the namespace of what it lists,
// and nothing else.
//
//go:embed cluster/*.yaml namespaced/*.yaml namespaces/*.yaml policy/*.yaml
var Manifests embed.FS
