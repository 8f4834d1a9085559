package peers

// Peers that are not run here have a row all the same, with why not, and with what others have published of them. Such a
// figure is of other machines and other objects: it gives an order of magnitude, and no ratio.

var fluxOperator = &peer{
	name: "flux-operator", title: "Flux Operator, one cluster",
	how: "not run",
	notMeasured: "no version of github.com/flux-framework/flux-operator could be had as a Go module: its tags have no v, and the module proxy that was at hand served no " +
		"pseudo-version of its latest commits",
	published:     "none of how fast it makes many MiniClusters: its paper (https://doi.org/10.48550/arXiv.2309.17420) measures the run of one, against the MPI Operator",
	notComparable: "one cluster, no Git",
}
