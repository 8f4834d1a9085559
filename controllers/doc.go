// Package controllers sets up the manager with its three controllers. In come the hub's address and options; out comes a
// manager that is ready to be started:
//
//	GitSource         a commit -> FleetMiniClusters and Placements on the hub   controllers/gitsource
//	MemberCluster     a kubeconfig -> connection, reachability, capacity        controllers/membercluster
//	FleetMiniCluster  a MiniCluster -> objects on members -> one status         controllers/fleetminicluster
//
// What the controllers share is in controllers/internal. The tests here play all of them against real API servers.
package controllers
