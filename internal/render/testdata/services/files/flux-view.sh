#!/bin/bash
# Puts Flux on the path of a shell in this pod: . /mnt/flux/flux-view.sh
export PATH="$PATH":/mnt/flux/view/bin
for packages in /mnt/flux/view/lib/python3*/site-packages; do
  export PYTHONPATH="${PYTHONPATH:-}:${packages}"
done
export LD_LIBRARY_PATH="${LD_LIBRARY_PATH:-}":/mnt/flux/view/lib
export fluxsocket=local:///mnt/flux/config/run/flux/local
