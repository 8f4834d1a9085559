program=(
  flux submit -n 1 --quiet --watch
  index --from /shelves --into /index
)
