program=(
  flux submit -n 1 --quiet --watch
  assay --samples 96
)
