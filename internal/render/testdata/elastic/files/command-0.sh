program=(
  workflow run --slots 4
)
