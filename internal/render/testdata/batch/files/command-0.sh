program=(
  sh -c 'flux batch -n 1 --flags=waitable ./flux-job.batch && flux job wait --all'
)
