##@ Image

# Where the image is written, and for which platforms. IMG is its name where it is loaded or pushed.
IMAGE_DIR ?= dist/image
IMAGE_PLATFORMS ?= linux/amd64 linux/arm64
# The version of Git, and the time of the commit unless SOURCE_DATE_EPOCH says another: the same sources make the same bytes.
REVISION ?= $(shell git rev-parse HEAD 2>/dev/null)
SOURCE_DATE_EPOCH ?= $(shell git log -1 --format=%ct 2>/dev/null || echo 0)

image_build_flags = -trimpath -buildvcs=false -ldflags '-s -w -X $(MODULE)/internal/version.version=$(VERSION)'

.PHONY: image
image: bin/image-layout $(if $(HAVE_NODE),web,web-note) ## Write the image as an OCI layout into IMAGE_DIR, without a container engine.
	@for platform in $(IMAGE_PLATFORMS); do \
		echo "Building bin/$$platform/minifleet: minutes the first time"; \
		CGO_ENABLED=0 GOOS=$${platform%/*} GOARCH=$${platform#*/} go build $(image_build_flags) -o bin/$$platform/minifleet .; \
	done
	@bin/image-layout build -dir $(IMAGE_DIR) -name $(IMG) -license LICENSE -version '$(VERSION)' -revision '$(REVISION)' \
		-created $(SOURCE_DATE_EPOCH) $(foreach platform,$(IMAGE_PLATFORMS),-binary $(platform)=bin/$(platform)/minifleet)

.PHONY: image-archives
image-archives: image ## Write an archive for each platform besides, which `docker load`, kind and k3d take.
	@for platform in $(IMAGE_PLATFORMS); do \
		bin/image-layout archive -dir $(IMAGE_DIR) -name $(IMG) -platform $$platform -to $(IMAGE_DIR)-$${platform/\//-}.tar; \
	done

.PHONY: image-push
image-push: image ## Push the image to a registry, IMG=REGISTRY/NAME:TAG, with the credentials of `docker login`.
	@bin/image-layout push -dir $(IMAGE_DIR) -name $(IMG)

bin/image-layout: $(wildcard hack/image/*.go) hack/image/go.mod hack/image/go.sum
	go build -C hack/image -o $(BIN)/image-layout .

# The tests of the image and of what deploy installs run it with runc where that is installed.
.PHONY: runc
runc:
	@command -v runc >/dev/null || { [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null && \
		{ apt-get install -qq -y --no-install-recommends runc || { apt-get update -qq && apt-get install -qq -y --no-install-recommends runc; }; } >/dev/null 2>&1; } || true
	@[ "$$(id -u)" = 0 ] && command -v runc >/dev/null || \
		echo "NOT TESTED: the container of what is installed: it takes root and runc, which only root on Debian or Ubuntu can install here"

test-cluster test-tools: runc

.PHONY: verify-image
verify: verify-image
verify-image: $(GOLANGCI_LINT)
	cd hack/image && $(GOLANGCI_LINT) run --allow-parallel-runners ./...
	go mod tidy -C hack/image -diff

.PHONY: test-image
TEST_PARTS += test-image
test-image: ## Run the tests of the image.
	go test -C hack/image ./...
