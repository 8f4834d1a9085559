##@ Shards

# `make test` has it among the tests with clusters.
.PHONY: test-shards
test-shards: bin/testcluster build ## Divide a hub between two controllers, and give objects to the wrong one.
	go test -timeout 20m -v ./e2e/shards
