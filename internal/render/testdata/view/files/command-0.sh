program=(
  nice -n 5
  flux submit --watch -n 1 --quiet --watch
  observe --field 12
)
