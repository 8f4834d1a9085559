// Package lab runs real Kubernetes clusters without containers, for the tests and the demo: etcd, API
// servers, controller managers, schedulers, and KWOK as the nodes, all from the one program that
// hack/testcluster builds. Beside the clusters it has what fault tests need: API servers that can be
// stopped, killed, paused and started again, audit logs, a TCP proxy that misbehaves on request
// (Proxy), one that fails or stalls single requests (Gateway), and a Git server (GitServer).
//
// Pods are real objects, made by the real Job controller and placed by the real scheduler, but their
// containers are played by KWOK: a Job's pod starts, runs for some seconds and completes. Annotations
// on a pod (the Ask constants) make it run longer, until told otherwise, or fail.
package lab
