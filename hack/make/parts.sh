#!/usr/bin/env bash
# Runs targets of make, so many at once, begun in the order in which they are named. What fails stops no other. At the end is
# a table of how long each took, by the clock and of the processors, and the end of what those printed that failed.
#
#   MAKE=make parts.sh 2 test-unit test-cluster test-e2e
set -euo pipefail
set -m # each worker is a process group, which an interrupt ends as a whole
make=${MAKE:-make}
results=$(mktemp -d)
workers=()
most=$1
shift

finish() {
	for worker in ${workers[@]+"${workers[@]}"}; do kill -TERM -- "-$worker" 2>/dev/null || true; done
	rm -rf "$results"
}
trap finish EXIT
trap 'exit 130' INT TERM

run() {
	local target=$1 status=0 TIMEFORMAT='%R %U %S'
	# The times of the target alone, not of what prints its lines.
	{ time { $make --no-print-directory PREBUILT=yes "$target" >"$results/$target.pipe" 2>&1 </dev/null || status=$?; } 2>/dev/null; } 2>"$results/$target.time"
	echo "$status" >"$results/$target.status"
}

worker() {
	set +m # all that it starts is in its group
	local target
	for target in "$@"; do
		mkdir "$results/$target.begun" 2>/dev/null || continue # another worker has it
		mkfifo "$results/$target.pipe"
		echo "== $target begins"
		tee "$results/$target.log" <"$results/$target.pipe" | sed -u "s/^/[$target] /" &
		run "$target"
		wait $!
		awk -v target="$target" -v status="$(cat "$results/$target.status")" '{ printf "== %s: %d s, %s\n", target, $1, status == 0 ? "ok" : "FAILED" }' "$results/$target.time"
	done
}

began=$SECONDS
for ((i = 0; i < most; i++)); do
	worker "$@" &
	workers+=($!)
done
for pid in "${workers[@]}"; do wait "$pid" || true; done
workers=()

failed=()
for target in "$@"; do [ "$(cat "$results/$target.status" 2>/dev/null)" = 0 ] || failed+=("$target"); done
for target in ${failed[@]+"${failed[@]}"}; do
	printf '\n== %s failed; the end of what it printed:\n' "$target"
	tail -n 60 "$results/$target.log" 2>/dev/null || true
done
printf '\n%-24s %8s %8s\n' part seconds 'CPU s'
for target in "$@"; do
	verdict=ok
	[[ " ${failed[*]-} " != *" $target "* ]] || verdict=FAILED
	awk -v target="$target" -v verdict="$verdict" '{ printf "%-24s %8d %8d  %s\n", target, $1, $2 + $3, verdict }' "$results/$target.time" 2>/dev/null || echo "$target did not run"
done
printf '%-24s %8d           at a load of %s\n' together $((SECONDS - began)) "$(cut -d' ' -f1-3 /proc/loadavg 2>/dev/null || echo unknown)"
[ ${#failed[@]} = 0 ] || { echo "FAILED: ${failed[*]}"; exit 1; }
