##@ OLM

# BUNDLE_IMG is the image that the packaged bundle installs, by its digest for a release: NAME@sha256:…; empty is that of
# config/manager. BUNDLE_VERSION has no leading v; empty is that of config/olm/csv.yaml.
BUNDLE_IMG ?=
BUNDLE_VERSION ?=
BUNDLE_REPLACES ?=
SCORECARD := $(call tool,scorecard-test,github.com/operator-framework/operator-sdk)

$(BIN)/bundle-generator: $(wildcard hack/bundle/*.go) hack/bundle/go.mod
	@mkdir -p $(BIN)
	go build -C hack/bundle -o $@ .

.PHONY: generate-bundle
generate: generate-bundle
generate-bundle: generate-code $(BIN)/bundle-generator ## Write the bundle for OLM anew from config.
	$(BIN)/bundle-generator generate

.PHONY: bundle
bundle: $(BIN)/bundle-generator ## Package the bundle for OLM, with the image BUNDLE_IMG, into dist/minifleet-bundle.tar.gz.
	rm -rf dist/olm
	mkdir -p dist/olm
	$(BIN)/bundle-generator generate -out dist/olm -image '$(BUNDLE_IMG)' -version '$(BUNDLE_VERSION)' -replaces '$(BUNDLE_REPLACES)'
	$(BIN)/bundle-generator pack -root dist/olm -out dist/minifleet-bundle.tar.gz

# The program that `operator-sdk scorecard` runs in pods, for the tests.
$(SCORECARD):
	@echo "Building $(@F): minutes the first time"
	@mkdir -p $(BIN)
	@go build -C hack/tools/scorecard-test -v -o $@ github.com/operator-framework/operator-sdk/images/scorecard-test 2>&1 \
		| awk -v what=scorecard-test -f hack/tools/progress.awk

.PHONY: test-bundle
TEST_PARTS += test-bundle
test-bundle: bin/testcluster build ## Run the tests of the bundle: OLM's validators, and an installation.
	go test -C hack/bundle ./...

.PHONY: test-scorecard
RELEASE_PARTS += test-scorecard
test-scorecard: $(SCORECARD) ## Judge the bundle with operator-sdk's scorecard.
	MINIFLEET_TEST_SCORECARD=$(SCORECARD) go test -C hack/bundle -run '^TestScorecard' .

.PHONY: verify-bundle
verify: verify-bundle
verify-bundle:
	go mod tidy -C hack/bundle -diff
