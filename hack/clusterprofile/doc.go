// Package clusterprofile compares how MiniFleet finds the credential plugin of a ClusterProfile with the library of SIG
// Multicluster (sigs.k8s.io/cluster-inventory-api). It is a module of its own, so that the product does not depend on that.
package clusterprofile
