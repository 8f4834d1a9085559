program=(
  flux submit -N 4 -n 4 --quiet --watch
  melt --input quartz.in --steps 200
)
