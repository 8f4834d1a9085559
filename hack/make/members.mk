##@ Members

.PHONY: test-clusterprofile
test-clusterprofile: ## Compare how ClusterProfiles are read with the library of SIG Multicluster.
	go test -C hack/clusterprofile ./...

TEST_PARTS += test-clusterprofile

.PHONY: verify-clusterprofile
verify-clusterprofile:
	go mod tidy -C hack/clusterprofile -diff

verify: verify-clusterprofile
