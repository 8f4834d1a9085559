##@ Notifications

# Alertmanager's API is hundreds of packages, in a module of its own: compiled as other programs are, once.
.PHONY: test-alertmanager
test-alertmanager: ## Post the alerts of Notifications to Alertmanager's own API.
	go test -C hack/alertmanager ./...

RELEASE_PARTS += test-alertmanager

.PHONY: verify-alertmanager
verify-alertmanager:
	go mod tidy -C hack/alertmanager -diff

verify: verify-alertmanager
