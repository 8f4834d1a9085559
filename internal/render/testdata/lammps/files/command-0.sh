program=(
  flux submit -N 4 -n 4 --quiet --watch
  lmp -v x 2 -v y 2 -v z 2 -in in.reaxc.hns -nocite
)
