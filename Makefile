# Everything here needs Go, Node, git, make and bash, and nothing that is downloaded but modules.
# `make help` lists what there is.

SHELL := bash
.SHELLFLAGS := -eu -o pipefail -c
.DELETE_ON_ERROR:
.DEFAULT_GOAL := help

# A go.work file above this directory would leave out the modules under hack/.
export GOWORK := off

# Everything is compiled with the flags of what is released, so that programs, tests and linters share one set of compiled
# packages, and clones of this repository too. The race detector alone needs cgo.
RACE_CGO ?= $(shell go env CGO_ENABLED 2>/dev/null)
export RACE_CGO := $(RACE_CGO)
export CGO_ENABLED := 0
export GOFLAGS := $(strip $(filter-out -trimpath,$(GOFLAGS)) -trimpath)

MODULE := github.com/minifleet/minifleet
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null)
BIN := $(CURDIR)/bin

# IMG is the image that docker-build makes and deploy uses. Deploy a release by its digest, NAME@sha256:…, since tags move.
IMG ?= minifleet:dev
# CONFIG is what deploy applies: config/default, config/with-dashboard, or config/with-receiver.
CONFIG ?= config/default
# FUZZTIME is for each fuzz target, BENCHTIME for each benchmark.
FUZZTIME ?= 30s
BENCHTIME ?= 1s
# E2E limits the end-to-end tests to those that match: make test-e2e E2E='a member that hangs'
E2E ?=
# SEED is of the first schedule of a soak, drawn at random where it is empty; DURATION is how long it goes on. LOSSES is how
# many times as often as usual the hub is made to forget in it; with SHARDS=2 two controllers divide the fleet.
SEED ?=
DURATION ?= 10m
LOSSES ?=
SHARDS ?=
# ORDER is the seed of the random order of the controllers' and the end-to-end tests, which each run prints; drawn where
# it is empty.
ORDER ?=
# FOCUS limits the controllers' tests to those that match.
FOCUS ?=
# FLUX is the prefix of a flux-core for test-flux, with those of other packages for its view after colons.
# RUN limits it to tests that match.
FLUX ?=
RUN ?=
# ROW limits the benchmark to rows: make bench ROW=3,7. OUT gets its results. BENCH is further flags of it, or of bench-fleet:
# make bench-fleet BENCH='-n 1000 -runs 3'
ROW ?=
OUT ?= bench
BENCH ?=
# ARGS is flags for run.
ARGS ?=
# PROCS is how many processes share the controllers' tests. Each has API servers of its own, and mostly waits.
PROCS ?= 4
# E2E_PROCS is how many share the end-to-end tests.
E2E_PROCS ?= 2
# PREBUILT is set by what has built everything before it runs several targets at once: none of them builds it under another.
PREBUILT ?=
# KUBECTL is the machine's own, else the one inside the test-cluster program.
KUBECTL ?= $(or $(shell command -v kubectl),$(BIN)/testcluster kubectl)

# Tools: each has a module under hack/tools that pins it, and is built again when that names another version.
tool = $(BIN)/$(1)-$(shell sed -nE 's|^[[:space:]]*(require )?$(2) (v[^ ]+).*|\2|p' hack/tools/$(1)/go.mod)
CONTROLLER_GEN := $(call tool,controller-gen,sigs.k8s.io/controller-tools)
GOLANGCI_LINT := $(call tool,golangci-lint,github.com/golangci/golangci-lint/v2)
KUSTOMIZE := $(call tool,kustomize,sigs.k8s.io/kustomize/kustomize/v5)
GINKGO := $(call tool,ginkgo,github.com/onsi/ginkgo/v2)

# The race detector needs cgo and a C compiler. It is for what has goroutines of its own; elsewhere it
# would cost a second build of everything and find nothing.
RACE_PATTERN := ^$(MODULE)/(clusters|gitsource/fetch)(/|$$)
# What it would take minutes for and find nothing in runs without it: one reader of much that is hostile.
RACE_SKIP := ^TestAttacksEndAtTheirLimits$$
HAVE_RACE = $(shell [ "$(RACE_CGO)" = 1 ] && command -v "$$(go env CC | cut -d' ' -f1)" >/dev/null && echo yes)

# The page needs Node.js 20.19 or later, and npm.
HAVE_NODE = $(shell command -v npm >/dev/null && node -e 'const [a, b] = process.versions.node.split(".").map(Number); process.exit(a > 20 || (a === 20 && b >= 19) ? 0 : 1)' 2>/dev/null && echo yes)

##@ Build

.PHONY: help
help: ## List the targets.
	@awk 'BEGIN { FS = ":.*## " } /^##@ / { printf "\n%s\n", substr($$0, 5) } \
		/^[a-z0-9\/-]+:.*## / { printf "  %-24s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: all
all: build bin/testcluster ## Build all programs.

.PHONY: build
build: $(if $(PREBUILT),,build-minifleet) ## Build bin/minifleet, with the page where Node.js is, and bin/kubectl-minifleet.

.PHONY: build-minifleet
build-minifleet: $(if $(HAVE_NODE),web,web-note)
	go build -ldflags '-s -w -X $(MODULE)/internal/version.version=$(VERSION)' -o bin/minifleet .
	@# With bin in PATH, it is the plugin of kubectl.
	@ln -sf minifleet bin/kubectl-minifleet

# The page. Real files, so that nothing is built again unless these have changed.
WEB := dashboard/web
WEB_INPUTS = $(WEB)/index.html $(WEB)/vite.config.ts $(WEB)/tsconfig.json $(shell find $(WEB)/src $(WEB)/public $(WEB)/dev -type f)

.PHONY: web
web: $(WEB)/dist/index.html ## Build the page into dashboard/web/dist.

# What npm ci has installed, it notes there.
$(WEB)/node_modules/.package-lock.json: $(WEB)/package.json $(WEB)/package-lock.json
	cd $(WEB) && npm ci --no-audit --no-fund && touch node_modules/.package-lock.json

$(WEB)/dist/index.html: $(WEB)/node_modules/.package-lock.json $(WEB_INPUTS)
	cd $(WEB) && npm run --silent build -- --logLevel warn

.PHONY: web-note
web-note:
	@echo "Node.js 20 or later is not installed: bin/minifleet is built without the page"

.PHONY: web-test
web-test: $(WEB)/node_modules/.package-lock.json ## Run the tests of the page, and check its types.
	cd $(WEB) && npm run --silent check && npm run --silent test

.PHONY: web-size
web-size: web ## Check that no view of the page is too large.
	cd $(WEB) && npm run --silent size

# Real files, so that nothing is built again unless these have changed.
bin/testcluster: $(wildcard hack/testcluster/*) ## Build the test-cluster program; the first time takes minutes.
	@echo "Building bin/testcluster: 5 to 10 minutes the first time on two cores, seconds later"
	@GOFLAGS="$${GOFLAGS:+$$GOFLAGS }-v" ./hack/testcluster/build.sh $@.new 2>&1 | awk -v what=testcluster -f hack/tools/progress.awk
	@mv $@.new $@

.PHONY: docker-build
docker-build: ## Build the image IMG with docker.
	docker build --build-arg VERSION=$(VERSION) -t $(IMG) .

.PHONY: clean
clean: ## Remove what was built.
	rm -rf bin dist
	find $(WEB)/dist -mindepth 1 ! -name placeholder.txt -delete

##@ Change

.PHONY: generate
generate: generate-code ## Write anew deep copies, CRDs, the controller's role, the types of the page's client, and what is made of config.

# What is made of config comes after it.
.PHONY: generate-code
generate-code: $(CONTROLLER_GEN) $(if $(HAVE_NODE),$(WEB)/node_modules/.package-lock.json)
	$(CONTROLLER_GEN) object paths=./api/...
	$(CONTROLLER_GEN) crd paths=./api/v1alpha1/... output:crd:dir=config/crd/bases
	$(CONTROLLER_GEN) rbac:roleName=controller-manager paths=./controllers/... paths=./clusters/... output:rbac:dir=config/rbac
	$(if $(HAVE_NODE),cd $(WEB) && npm run --silent generate,@echo "Node.js is not installed: the types of the page's client are not generated")

.PHONY: fmt
fmt: ## Format the Go files.
	gofmt -s -w $$(git ls-files --cached --others --exclude-standard -- '*.go')

.PHONY: lint
lint: $(GOLANGCI_LINT) ## Run the linters.
	$(GOLANGCI_LINT) run --allow-parallel-runners ./...
	cd hack/bench && $(GOLANGCI_LINT) run --allow-parallel-runners ./...

# The tests check the pods' scripts with shellcheck where it is installed.
.PHONY: shellcheck
shellcheck:
	@command -v shellcheck >/dev/null || { [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null && \
		{ apt-get install -qq -y shellcheck || { apt-get update -qq && apt-get install -qq -y shellcheck; }; } >/dev/null 2>&1; } || \
		echo "shellcheck is not installed, and only root on Debian or Ubuntu can do that here: the scripts of the pods go unchecked"

.PHONY: verify
verify: generate lint shellcheck ## Check that generated files, formatting, modules and lint are in order; needs a clean tree.
	@unformatted=$$(gofmt -s -l $$(git ls-files -- '*.go')); \
		if [ -n "$$unformatted" ]; then echo "not formatted, run make fmt:"; echo "$$unformatted"; exit 1; fi
	go mod tidy -diff
	go mod tidy -C hack/bench -diff
	@version=$$(go list -m -f '{{.Version}}' github.com/onsi/ginkgo/v2); \
		[ "$(notdir $(GINKGO))" = "ginkgo-$$version" ] || { echo "$(notdir $(GINKGO)) runs tests that are written for $$version: make hack/tools/ginkgo/go.mod name that"; exit 1; }
	go vet -C hack/testcluster .
	@changed=$$(git status --porcelain); \
		if [ -n "$$changed" ]; then \
			echo "the tree is not clean; if you did not change these files, make generate did, and they want committing:"; \
			echo "$$changed"; git --no-pager diff --stat; exit 1; \
		fi

##@ Test

# What a target of hack/make adds to: TEST_PARTS guard a change, and run in `make test`; RELEASE_PARTS judge with programs of
# others what is released, and take minutes to compile.
TEST_PARTS =
RELEASE_PARTS =

# All is built first, and what is installed with apt-get, so that what runs at the same time finds it. Two parts run at once, begun in
# this order: of the first four, one keeps the processors busy while the other mostly waits for clusters of its own. A third made all of them late.
.PHONY: test
test: test-tools ## Run everything that guards a change, and tell how long each part took.
	@echo "NOT TESTED here but by make test-release: $(RELEASE_PARTS)"
	@MAKE='$(MAKE)' hack/make/parts.sh 2 test-unit test-e2e test-cluster test-recovery $(if $(HAVE_NODE),web-test web-size) \
		$(filter-out test-recovery,$(TEST_PARTS))

.PHONY: test-tools
test-tools: sshd chromium $(GINKGO) bin/testcluster build

.PHONY: test-parts
test-parts: ## Run the tests of what is released, installed, watched and recovered, all of hack/make.

.PHONY: test-release
test-release: bin/testcluster build ## Judge what is released with other programs: Helm 3, operator-sdk, Alertmanager, kube-state-metrics.
	@MAKE='$(MAKE)' hack/make/parts.sh $(words $(RELEASE_PARTS)) $(RELEASE_PARTS)

# Packages with tests, one a line, and after a space lab for those whose tests start clusters: they depend on hack/lab.
test_packages = go list -test -f '{{if eq .Name "main"}}{{$$lab := ""}}{{range .Deps}}{{if eq . "$(MODULE)/hack/lab"}}{{$$lab = " lab"}}{{end}}{{end}}{{.ImportPath}}{{$$lab}}{{end}}' ./... \
	| sed -nE 's/\.test( lab)?$$/\1/p'
# RACE is -race if it can be had, RACE_GO the command that tests with it.
RACE = $(if $(HAVE_RACE),-race,)
RACE_GO = CGO_ENABLED=$(if $(HAVE_RACE),1,0) go

# The tests of SSH run OpenSSH's sshd where it is installed.
.PHONY: sshd
sshd:
	@command -v sshd >/dev/null || [ -x /usr/sbin/sshd ] || { [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null && \
		{ apt-get install -qq -y --no-install-recommends openssh-server || { apt-get update -qq && apt-get install -qq -y --no-install-recommends openssh-server; }; } >/dev/null 2>&1; } || \
		echo "sshd is not installed, and only root on Debian or Ubuntu can do that here: reading repositories over SSH goes untested"

.PHONY: test-unit
test-unit: race-note shared-note sshd ## Run the tests that need no cluster: a minute or two.
	@# All at once: each ends with packages that mostly wait.
	@unit=$$($(test_packages) | { grep -v ' lab$$' || true; }); failed=0; \
		go test $$(grep -vE '$(RACE_PATTERN)' <<<"$$unit") & plain=$$!; \
		$(RACE_GO) test -timeout 20m $(RACE) $(if $(RACE),-skip '$(RACE_SKIP)') $$(grep -E '$(RACE_PATTERN)' <<<"$$unit") & racy=$$!; \
		go test -C hack/bench ./... || failed=1; \
		$(if $(RACE),go test -run '$(RACE_SKIP)' ./gitsource/fetch || failed=1;) \
		wait $$plain || failed=1; wait $$racy || failed=1; exit $$failed

.PHONY: test-cluster
test-cluster: shared-note sshd $(GINKGO) bin/testcluster build ## Run the tests of single parts against real API servers.
	@# Both at once: each test process has API servers of its own.
	@go test -p 1 -timeout 20m $$($(test_packages) | sed -n 's/ lab$$//p' | grep -vE '^$(MODULE)/(controllers|e2e(/soak|/recovery)?)$$') & others=$$!; failed=0; \
		$(GINKGO) run --procs $(PROCS) --timeout 20m --silence-skips --succinct --randomize-all $(if $(ORDER),--seed $(ORDER)) $(if $(FOCUS),--focus '$(FOCUS)') ./controllers || failed=1; \
		wait $$others || failed=1; exit $$failed

.PHONY: test-race
test-race: race-note bin/testcluster build ## Run the controllers' tests with the race detector, which takes them twice as long.
	$(RACE_GO) test -timeout 30m $(RACE) ./controllers/...

# The tests of the page drive Chromium where it and Node.js are installed.
.PHONY: chromium
chromium:
	@[ -z "$(HAVE_NODE)" ] || [ -n "$${CHROMIUM:-}" ] || command -v chromium chromium-browser google-chrome >/dev/null || \
		{ [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null && echo "Installing chromium" && \
		{ apt-get install -qq -y --no-install-recommends chromium || { apt-get update -qq && apt-get install -qq -y --no-install-recommends chromium; }; } >/dev/null 2>&1; } || \
		echo "chromium is not installed, and only root on Debian can do that here: the page is not tested in a browser"
	@[ -n "$(HAVE_NODE)" ] || echo "Node.js 20 or later is not installed: the page is not tested in a browser"

.PHONY: test-e2e
test-e2e: shared-note chromium $(GINKGO) bin/testcluster build ## Run the end-to-end tests of the whole system.
	@# Both at once: each has a fleet of its own, and mostly waits.
	@go test -timeout 20m $(if $(E2E),-run '$(E2E)' -v) ./e2e/soak & soak=$$!; failed=0; \
		$(GINKGO) run --procs $(E2E_PROCS) --timeout 20m --silence-skips --succinct --randomize-all $(if $(ORDER),--seed $(ORDER)) $(if $(E2E),--focus '$(E2E)') ./e2e || failed=1; \
		wait $$soak || failed=1; exit $$failed

.PHONY: test-browser
test-browser: chromium $(GINKGO) bin/testcluster build ## Run all specs of the page in Chromium, not only those that test-e2e has: minutes.
	MINIFLEET_BROWSER_SPECS=all $(GINKGO) run --timeout 20m --silence-skips --focus 'shows the fleet in a browser' ./e2e

.PHONY: soak
soak: bin/testcluster build ## Play random schedules of faults and edits for DURATION, beginning with SEED.
	MINIFLEET_SOAK_SEED='$(SEED)' MINIFLEET_SOAK_LOSSES='$(LOSSES)' MINIFLEET_SOAK_SHARDS='$(SHARDS)' MINIFLEET_SOAK_DURATION='$(DURATION)' go test -count 1 -timeout 0 -run '^TestSoak$$' -v ./e2e/soak

.PHONY: test-flux
test-flux: ## Run the pods' scripts with the real Flux at FLUX, in namespaces of this machine: root only, minutes.
	@[ -n "$(FLUX)" ] || { echo "say where Flux is: make test-flux FLUX=/opt/flux-core"; exit 2; }
	MINIFLEET_TEST_FLUX=$(FLUX) go test -count 1 -timeout 30m $(if $(RUN),-run '$(RUN)' -v) ./internal/render/fluxtest

.PHONY: race-note
race-note:
	@[ -n "$(HAVE_RACE)" ] || echo "no C compiler, or CGO_ENABLED=0: testing without the race detector"

.PHONY: shared-note
shared-note:
	@go test -v -run '^TestShared$$' ./internal/miniclustertest | sed -nE 's/^ +[a-z_]+\.go:[0-9]+: //p'

.PHONY: fuzz
fuzz: ## Run each fuzz target for FUZZTIME.
	@targets=$$(git grep --untracked -oE '^func Fuzz[A-Za-z0-9_]+' -- '*_test.go') || { echo "there are no fuzz targets"; exit 0; }; \
	sed 's|:func | |' <<<"$$targets" | while read -r file target; do \
		echo "$$target in $$(dirname "$$file"), $(FUZZTIME)"; \
		go test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) "./$$(dirname "$$file")"; \
	done

##@ Try it

.PHONY: demo
demo: build bin/testcluster ## Start a hub, three members and a Git repository here, and run MiniClusters.
	@go build -o bin/demo ./hack/demo
	@bin/demo up

.PHONY: demo-status
demo-status: ## Show what the demo runs.
	@go build -o bin/demo ./hack/demo
	@bin/demo status

.PHONY: demo-down
demo-down: ## Stop the demo and remove its files.
	@go build -o bin/demo ./hack/demo
	@bin/demo down

##@ Deploy to the cluster of the current kubeconfig

kubectl_built = $(if $(findstring testcluster,$(KUBECTL)),bin/testcluster)
with_image = sed 's|image: minifleet:dev$$|image: $(IMG)|'

.PHONY: manifests
manifests: $(KUSTOMIZE) ## Print everything that deploy applies.
	@$(KUSTOMIZE) build $(CONFIG) | $(with_image)

.PHONY: install
install: $(KUSTOMIZE) $(kubectl_built) ## Install the CRDs only.
	$(KUSTOMIZE) build config/crd | $(KUBECTL) apply --server-side -f -

# Nobody but an administrator of the hub should do this: it uses the rights of the kubeconfig.
.PHONY: run
run: build $(kubectl_built) ## Run the controller on this machine, with flags ARGS='--workers 8'. First install, and undeploy.
	@$(KUBECTL) get namespace minifleet-system >/dev/null 2>&1 || $(KUBECTL) create namespace minifleet-system
	bin/minifleet controller --log-text $(ARGS)

.PHONY: samples
samples: $(KUSTOMIZE) $(kubectl_built) ## Apply config/samples to namespace default. They run on members with labels gpu=true, or site=north or south.
	$(KUSTOMIZE) build config/samples | $(KUBECTL) apply --server-side -f -

.PHONY: deploy
deploy: $(KUSTOMIZE) $(kubectl_built) ## Install the CRDs and the controller with the image IMG.
	$(KUSTOMIZE) build $(CONFIG) | $(with_image) | $(KUBECTL) apply --server-side -f -

# What runs on members belongs to the FleetMiniClusters, and only a running controller can remove it there. The
# MemberClusters come after them, and wait for members that cannot be reached: `kubectl get mcl -o yaml` says so.
.PHONY: uninstall
uninstall: $(KUSTOMIZE) $(kubectl_built) ## Delete all FleetMiniClusters, with what runs on members, the members, then the CRDs. The controller must run.
	$(KUBECTL) delete gitsources --all --all-namespaces --ignore-not-found
	$(KUBECTL) delete fleetminiclusters --all --all-namespaces --ignore-not-found
	$(KUBECTL) delete memberclusters --all --ignore-not-found
	$(KUSTOMIZE) build config/crd | $(KUBECTL) delete --ignore-not-found -f -

.PHONY: undeploy
undeploy: $(kubectl_built) ## Remove the controller. Its objects, the members' kubeconfigs and what runs stay.
	$(KUBECTL) delete --ignore-not-found -n minifleet-system -l app.kubernetes.io/part-of=minifleet deployments,networkpolicies,serviceaccounts,roles,rolebindings
	$(KUBECTL) delete --ignore-not-found -l app.kubernetes.io/part-of=minifleet clusterroles,clusterrolebindings

# Tools.

$(CONTROLLER_GEN): TOOL := controller-gen
$(CONTROLLER_GEN): PACKAGE := sigs.k8s.io/controller-tools/cmd/controller-gen
$(GOLANGCI_LINT): TOOL := golangci-lint
$(GOLANGCI_LINT): PACKAGE := github.com/golangci/golangci-lint/v2/cmd/golangci-lint
$(KUSTOMIZE): TOOL := kustomize
$(KUSTOMIZE): PACKAGE := sigs.k8s.io/kustomize/kustomize/v5
$(GINKGO): TOOL := ginkgo
$(GINKGO): PACKAGE := github.com/onsi/ginkgo/v2/ginkgo
$(CONTROLLER_GEN) $(GOLANGCI_LINT) $(KUSTOMIZE) $(GINKGO):
	@echo "Building $(@F): minutes the first time"
	@mkdir -p $(BIN)
	@cd hack/tools/$(TOOL) && go build -v -o $@ $(PACKAGE) 2>&1 | awk -v what=$(TOOL) -f ../progress.awk

# Targets of one topic each: what is released, how it is installed, how it is watched.
include hack/make/*.mk

test-parts: $(TEST_PARTS)
