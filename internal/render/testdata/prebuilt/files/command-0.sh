program=(
  flux submit -n 1 --quiet --watch
  hostname
)
