// Package peers measures MiniFleet side by side with what people would pick instead: Flux CD, Argo CD, Kueue's
// MultiKueue and the Flux Operator, one after the other on the same API servers, with the same MiniClusters.
//
// Nothing is fetched here: the peers' programs are files that others have put in one directory (Options.Dir). A peer
// whose files are not there has a row that says how to make them, and the others are measured. See docs/peers.md.
package peers
