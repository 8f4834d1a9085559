#!/bin/bash
# Puts Flux on the path of a shell in this pod: . /mnt/flux/flux-view.sh
viewroot=/mnt/flux/view
export PATH="${PATH}:${viewroot}/bin"
for packages in "${viewroot}"/lib/python3*/site-packages; do
  export PYTHONPATH="${PYTHONPATH:+${PYTHONPATH}:}${packages}"
done

# What is in the view beside flux-core, such as Fluxion, has a prefix of its own that flux-core does not know.
export FLUX_MODULE_PATH="${FLUX_MODULE_PATH:+${FLUX_MODULE_PATH}:}${viewroot}/lib/flux/modules"
export FLUX_EXEC_PATH="${FLUX_EXEC_PATH:+${FLUX_EXEC_PATH}:}${viewroot}/libexec/flux/cmd"

export LD_LIBRARY_PATH="${LD_LIBRARY_PATH:+${LD_LIBRARY_PATH}:}${viewroot}/lib"
export fluxsocket=local:///mnt/flux/config/run/flux/local
