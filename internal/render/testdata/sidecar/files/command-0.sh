program=(
  flux submit -n 1 --quiet --watch
  /bin/bash /tmp/custom-entrypoint.sh
)
