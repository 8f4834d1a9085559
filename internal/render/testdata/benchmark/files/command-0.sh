program=(
  /usr/bin/time -f 'FLUXTIME fluxsubmit wall time %E'
  flux submit -N 2 -n 2 -ompi=openmpi@5 -o cpu-affinity=per-task --quiet --watch
  ./latency --warmup 10
)
