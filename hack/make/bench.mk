##@ Measure

.PHONY: bench-program
bench-program:
	go build -C hack/bench -o $(BIN)/bench .

.PHONY: bench
bench: build bin/testcluster bench-program ## Measure all rows, or ROW=3,7, against floors in the same run, into OUT: three hours.
	bin/bench numbered -out '$(OUT)' $(if $(ROW),-row '$(ROW)') $(BENCH)

.PHONY: bench-fleet
bench-fleet: build bin/testcluster bench-program ## Measure the whole system by flags of one's own: minutes.
	bin/bench $(BENCH)

.PHONY: bench-dashboard
bench-dashboard: web bin/testcluster bench-program ## Measure the dashboard with 2,000 and 10,000 MiniClusters, in Chromium too: minutes.
	bin/bench -n 0 -rows list,page,frames,push,tabs $(BENCH)

.PHONY: bench-packages
bench-packages: ## Run the benchmarks of single packages.
	@files=$$(git grep -l --untracked '^func Benchmark' -- '*_test.go') || { echo "there are no benchmarks"; exit 0; }; \
	go test -run '^$$' -bench . -benchmem -benchtime $(BENCHTIME) $$(xargs -n1 dirname <<<"$$files" | sort -u | sed 's|^|./|')

# The figures of so little are worth nothing: it shows that every row can be measured.
.PHONY: test-bench
test-bench: build bin/testcluster ## Measure as little as possible in each row of the benchmark, to test the benchmark itself.
	MINIFLEET_BENCH_SHORT=1 go test -C hack/bench -count 1 -timeout 30m -run '^TestShortForm$$' .

RELEASE_PARTS += test-bench
