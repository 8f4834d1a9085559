// Package v1alpha2 holds the MiniCluster of the group flux-framework.org as MiniFleet reads it.
//
// People keep MiniClusters in Git that must stay valid for the Flux Operator, so the JSON names, value
// types and defaults here are those of its custom resource. MiniFleet installs no resource of this
// group: the kind is only decoded (from Git, or by `minifleet render`), and its spec is embedded in a
// FleetMiniCluster at spec.miniCluster. The markers therefore describe a schema that is valid wherever
// the spec is embedded.
//
// Default fills in what the schema would, for callers without an API server. Validate reports every
// problem of a spec at once.
//
// +kubebuilder:object:generate=true
// +groupName=flux-framework.org
package v1alpha2
