// Package controllers holds the reconcilers. Each gathers what it needs, lets pure code decide, acts, and
// writes one status:
//
//	GitSource         commit -> FleetMiniClusters and Placements on the hub   gitsource.go
//	MemberCluster     kubeconfig -> connection, reachability, capacity        membercluster.go
//	FleetMiniCluster  spec -> members' objects -> status                      fleetminicluster.go
package controllers
