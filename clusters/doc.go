// Package clusters connects the hub to its members and does the reading, writing and deleting there. MemberClusters,
// kubeconfigs and rendered objects come in; out go states of connections, what is on members, and errors with a reason.
//
// A Provider keeps one connection per MemberCluster, each in a goroutine of its own, so that a member
// which is dead, slow or hung delays no other. A connection is either engaged, with fresh caches of the
// objects that MiniFleet owns on the member, or it is not there at all: the caches of a member that stops
// answering are thrown away and filled anew when it returns, so nothing is ever decided from old news.
//
// Credentials are those of a kubeconfig, or what a plugin of the administrator of the hub prints (Access). A plugin runs in
// the goroutine of its member's connection, and again before what it has printed expires.
//
// A healthy member is sent no probes. Its transport notices every answer and every failure, HTTP/2 pings
// notice a connection that has gone silent, and only then is the member asked whether it is still there.
package clusters
