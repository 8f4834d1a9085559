# What watches MiniFleet: rules for Prometheus, a dashboard for Grafana, and what tests them.

# Without its service discovery, promtool is a third smaller; nothing here discovers anything.
PROMTOOL := $(call tool,promtool,github.com/prometheus/prometheus)

$(PROMTOOL):
	@echo "Building $(@F): two minutes the first time on two cores"
	@mkdir -p $(BIN)
	@cd hack/tools/promtool && go build -v -tags remove_all_sd -o $@ github.com/prometheus/prometheus/cmd/promtool 2>&1 | awk -v what=promtool -f ../progress.awk

##@ Metrics

.PHONY: promtool
promtool: $(PROMTOOL) ## Build promtool, which tests the rules of alerts.

.PHONY: test-rules
test-rules: $(PROMTOOL) ## Test the rules of alerts with promtool.
	@$(PROMTOOL) check rules config/monitoring/rules.yaml
	@$(PROMTOOL) check config --syntax-only config/monitoring/scrape.yaml
	@$(PROMTOOL) test rules hack/monitoring/testdata/rules/*.yaml

.PHONY: generate-monitoring
generate-monitoring: ## Generate the dashboard for Grafana and the PrometheusRule of config/monitoring.
	@go build -C hack/monitoring -o $(BIN)/monitoring .
	@$(BIN)/monitoring

generate: generate-monitoring

.PHONY: test-monitoring
test-monitoring: ## Test what is generated of config/monitoring.
	@go test -C hack/monitoring ./...

.PHONY: test-kube-state-metrics
test-kube-state-metrics: ## Test what kube-state-metrics makes of our objects: two minutes the first time.
	@go test -C hack/monitoring/kubestatemetrics ./...

.PHONY: verify-monitoring
verify-monitoring: $(GOLANGCI_LINT)
	cd hack/monitoring && $(GOLANGCI_LINT) run --allow-parallel-runners ./...
	go mod tidy -C hack/monitoring -diff
	go mod tidy -C hack/monitoring/kubestatemetrics -diff

verify: verify-monitoring

TEST_PARTS += test-rules test-monitoring
RELEASE_PARTS += test-kube-state-metrics

# The tests of the controllers feed what they scrape to promtool.
test-cluster test-tools: $(PROMTOOL)
