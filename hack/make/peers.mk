##@ Peers

# PEERS is the folder of the programs to compare with, which docs/peers.md says how to fill; empty is bin/peers.
# PEERS_ARGS is flags: make bench-peers PEERS_ARGS='-n 1000 -runs 1'
PEERS ?=
PEERS_ARGS ?=

.PHONY: bench-peers
bench-peers: build bin/testcluster ## Measure MiniFleet side by side with Flux CD, Argo CD and others, as far as their programs are there: minutes.
	go build -C hack/bench -o $(BIN)/bench-peers ./peers/cmd
	bin/bench-peers $(if $(PEERS),-dir $(abspath $(PEERS))) -json $(BIN)/bench-peers.json $(PEERS_ARGS)
