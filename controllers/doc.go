// Package controllers sets up the manager of the hub with all controllers. What comes in are the hub's kubeconfig
// and options; what goes out is a manager to start. Each controller gathers what it needs, lets pure code decide,
// acts, and writes one status:
//
//	gitsource            commit -> FleetMiniClusters and Placements on the hub
//	membercluster        kubeconfig -> connection, reachability, capacity
//	fleetminicluster.go  spec -> members' objects -> status
package controllers
