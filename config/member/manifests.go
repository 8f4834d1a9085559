// Package member holds the manifests that give MiniFleet its rights on a member: administrators apply them with kubectl, and
// `minifleet cluster join` applies the same.
package member

import "embed"

// Manifests are the directories cluster, for a whole cluster, and namespaced, for one namespace of it. Each is a
// kustomization that sets the namespace of what it lists, and nothing else.
//
//go:embed cluster/*.yaml namespaced/*.yaml
var Manifests embed.FS
