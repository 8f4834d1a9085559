program=(
  flux submit -N 1 -n 1 --quiet --watch
  render --album 2026
)
