// Package fluxtest runs what package render makes of a MiniCluster with a real Flux, in pods made of
// Linux namespaces, without containers or Kubernetes.
//
// Its tests want root on Linux, and the prefix of a flux-core, with those of other packages that are to
// be in the view (such as flux-sched) after a colon:
//
//	make test-flux FLUX=/opt/flux-core:/opt/flux-sched
//
// which sets MINIFLEET_TEST_FLUX. Without it they are skipped.
package fluxtest
