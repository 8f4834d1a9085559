##@ Helm chart

# Both are built with the versions of Kubernetes' packages that the rest is built with, so that these are compiled once.
HELM3 := $(call tool,helm3,helm.sh/helm/v3)
HELM4 := $(call tool,helm4,helm.sh/helm/v4)

$(HELM3): TOOL := helm3
$(HELM3): MAJOR := v3
$(HELM4): TOOL := helm4
$(HELM4): MAJOR := v4
$(HELM3) $(HELM4):
	@echo "Building $(@F): minutes the first time"
	@mkdir -p $(BIN)
	@# As in its releases, the version of Kubernetes that templates see without a cluster is that of its packages.
	@cd hack/tools/$(TOOL) && minor=$$(go list -m -f '{{.Version}}' k8s.io/client-go | cut -d. -f2) && go build -v \
		-ldflags "-s -w -X helm.sh/helm/$(MAJOR)/internal/version.version=$(patsubst $(TOOL)-%,%,$(@F)) \
		$(foreach package,lint/rules chartutil,-X helm.sh/helm/v3/pkg/$(package).k8sVersionMajor=1 -X helm.sh/helm/v3/pkg/$(package).k8sVersionMinor=$$minor)" -o $@ helm.sh/helm/$(MAJOR)/cmd/helm 2>&1 \
		| awk -v what=$(TOOL) -f ../progress.awk

.PHONY: helm
helm: $(HELM3) $(HELM4) ## Build Helm 3 and Helm 4 into bin.

.PHONY: generate-chart
generate-chart: generate-code ## Write charts/minifleet from config.
	go run -C hack/chart ./cmd generate $(CURDIR)/config $(CURDIR)/charts/minifleet

# CHART_IMAGE is the image that the packaged chart installs unless values say another, NAME@sha256:… for a release; empty is that
# of config/manager.
CHART_IMAGE ?=

# The package is of config as it is now. VERSION is its application's; the chart's is that as a semantic version.
.PHONY: chart
chart: ## Package the Helm chart into dist.
	@go run -C hack/chart ./cmd package $(CURDIR)/charts/minifleet '$(VERSION)' $(CURDIR)/dist $(CHART_IMAGE)

generate: generate-chart

TEST_PARTS += test-chart
test-tools: $(HELM4)

.PHONY: test-chart
test-chart: $(HELM4) bin/testcluster build runc ## Test the Helm chart with Helm 4, against real API servers too.
	MINIFLEET_TEST_HELM=helm4 go test -C hack/chart -timeout 15m ./...

RELEASE_PARTS += test-chart-helm3

.PHONY: test-chart-helm3
test-chart-helm3: helm bin/testcluster build runc ## Test the Helm chart with Helm 3 too, and what one Helm has pushed with the other.
	go test -C hack/chart -timeout 15m ./...

verify: verify-chart

# After generate, whose result it reads; the linters of hack are not those of the main module.
.PHONY: verify-chart
verify-chart: generate $(GOLANGCI_LINT)
	cd hack/chart && $(GOLANGCI_LINT) run --allow-parallel-runners ./...
	go mod tidy -C hack/chart -diff
