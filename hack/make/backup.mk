##@ Recovery

TEST_PARTS += test-recovery

.PHONY: test-recovery
test-recovery: bin/testcluster build ## Lose hubs and make them again, from each kind of backup and as docs/recovery.md says.
	go test -timeout 20m ./e2e/recovery
