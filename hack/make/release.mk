##@ Release

# PREVIOUS is the tag of the previous release and the hash of its commit, which may be all that a clone has of it.
PREVIOUS := $(shell cat hack/release/previous 2>/dev/null)
# RELEASE_IMAGE is the image of a release without its tag, RELEASE_URL where its files are, below a folder for each tag.
RELEASE_IMAGE ?= ghcr.io/minifleet/minifleet
RELEASE_URL ?= https://github.com/minifleet/minifleet/releases/download
RELEASE_PLATFORMS ?= linux/amd64 linux/arm64 darwin/amd64 darwin/arm64

# Others make these, each in a part of its own; a release without one of them says so.
release_has = $(wildcard hack/make/$(1).mk)
release_layout = $(if $(call release_has,image),dist/image)
release_included = $(wildcard $(CURDIR)/dist/*.tgz $(CURDIR)/dist/minifleet-bundle.tar.gz)

.PHONY: dist
dist: web bin/release bin/cyclonedx-gomod $(KUSTOMIZE) ## Write a release into dist: the same bytes from the same commit. Minutes the first time.
	@rm -f dist/*.tgz dist/minifleet-bundle.tar.gz
	$(if $(call release_has,image),$(MAKE) image IMG=$(RELEASE_IMAGE):$(VERSION) IMAGE_DIR=dist/image,@echo "NOTE: hack/make/image.mk is not there: this release has no image")
	$(if $(call release_has,chart),$(MAKE) chart CHART_IMAGE="$$(bin/release image -image $(RELEASE_IMAGE) -version $(VERSION) -image-layout '$(release_layout)')",@echo "NOTE: hack/make/chart.mk is not there: this release has no chart")
	$(if $(call release_has,bundle),$(MAKE) bundle BUNDLE_VERSION="$$(bin/release version -version '$(VERSION)')" BUNDLE_IMG="$$(bin/release image -image $(RELEASE_IMAGE) -version $(VERSION) -image-layout '$(release_layout)')",@echo "NOTE: hack/make/bundle.mk is not there: this release has no bundle for OLM")
	@shopt -s nullglob; bin/release dist -root . -out dist -version '$(VERSION)' -platforms '$(RELEASE_PLATFORMS)' -image $(RELEASE_IMAGE) \
		-image-layout '$(release_layout)' -url $(RELEASE_URL) -kustomize $(KUSTOMIZE) -sbom $(BIN)/cyclonedx-gomod \
		dist/*.tgz $(if $(call release_has,bundle),dist/minifleet-bundle.tar.gz)

# Of what is committed, in clones at two places.
.PHONY: dist-check
dist-check: ## Make the release of the last commit twice, in two folders, and compare all bytes: many minutes.
	@folder=$$(mktemp -d); trap 'rm -rf "$$folder"' EXIT; \
	for clone in first second-and-longer; do \
		echo "== $$clone"; git clone -q . "$$folder/$$clone"; $(MAKE) -C "$$folder/$$clone" dist; \
	done; \
	diff -r "$$folder/first/dist" "$$folder/second-and-longer/dist"; (cd "$$folder/first/dist" && sha256sum --check --quiet SHA256SUMS); \
	echo "The same bytes twice:"; cat "$$folder/first/dist/SHA256SUMS"

bin/release: $(wildcard hack/release/*.go) hack/release/go.mod hack/release/go.sum
	go build -C hack/release -o $(BIN)/release .

bin/cyclonedx-gomod: hack/release/go.mod
	@echo "Building $(@F): a minute the first time"
	@go build -C hack/release -o $(BIN)/cyclonedx-gomod github.com/CycloneDX/cyclonedx-gomod/cmd/cyclonedx-gomod
	@touch $@

.PHONY: verify-release
verify: verify-release
verify-release: verify-crds verify-workflows $(GOLANGCI_LINT)
	cd hack/release && $(GOLANGCI_LINT) run --allow-parallel-runners ./...
	go mod tidy -C hack/release -diff

.PHONY: verify-crds
verify-crds: bin/release ## Check that no CRD has changed since the previous release in a way that breaks what people have.
	bin/release crds

.PHONY: verify-workflows
verify-workflows: shellcheck
	@go -C hack/release tool actionlint -pyflakes= $(wildcard $(CURDIR)/.github/workflows/*.yaml)

# All but a release itself: the comparison of CRDs, versions, workflows, the change log.
.PHONY: test-releasing
TEST_PARTS += test-releasing
test-releasing: ## Run the tests of what makes releases.
	go test -C hack/release ./...

.PHONY: test-dist
RELEASE_PARTS += test-dist
# Not cached: what is in the commit is no file that the test opens.
test-dist: bin/cyclonedx-gomod $(KUSTOMIZE) ## Make a release for this machine's platform twice, compare the bytes, and install the plugin with krew.
	MINIFLEET_TEST_KUSTOMIZE=$(KUSTOMIZE) MINIFLEET_TEST_SBOM=$(BIN)/cyclonedx-gomod go test -C hack/release -count 1 ./...

# What is compared with the previous release is taken from the history.
.PHONY: history-note
history-note:
	@git cat-file -e '$(word 2,$(PREVIOUS))^{commit}' 2>/dev/null || \
		echo "NOT TESTED, the upgrade from $(word 1,$(PREVIOUS)): its commit $(word 2,$(PREVIOUS)) is not in this repository (a shallow clone? git fetch --unshallow)"

test-cluster test-tools: history-note
