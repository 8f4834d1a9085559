package peers

// Peers that are not run here have a row all the same, with why not, and with what others have published of them. Such a
// figure is of other machines and other objects: it gives an order of magnitude, and no ratio.

var multiKueue = &peer{
	name: "multikueue", title: "Kueue's MultiKueue",
	how: "not run: what follows is published by others",
	notMeasured: "its manager is in the Go module sigs.k8s.io/kueue, whose build was not tried to its end; it reads its serving certificate from a fixed path outside of any folder of its own, " +
		"and its CustomResourceDefinitions take kustomize; nothing here drives it yet",
	published: "15,000 Workloads in 30 ClusterQueues are admitted and ended within 351 s by Kueue's scheduler on one cluster (test/performance/scheduler of Kueue v0.16.1)",
	notComparable: "that test is paced by the quota and by how long its Workloads last, has no second cluster and makes no Jobs. MultiKueue does not read Git, and copies " +
		"Jobs only: ConfigMaps, Secrets and Services are the user's to copy",
}

var fluxOperator = &peer{
	name: "flux-operator", title: "Flux Operator, one cluster",
	how: "not run",
	notMeasured: "no version of github.com/flux-framework/flux-operator could be had as a Go module: its tags have no v, and the module proxy that was at hand served no " +
		"pseudo-version of its latest commits",
	published:     "none of how fast it makes many MiniClusters: its paper (https://doi.org/10.48550/arXiv.2309.17420) measures the run of one, against the MPI Operator",
	notComparable: "one cluster, no Git",
}
