#!/bin/bash
# Puts Flux on the path of a shell in this pod: . /opt/flux/flux-view.sh
viewroot=/opt/flux/view
export PATH="${PATH}:${viewroot}/bin"
export PYTHONPATH="${PYTHONPATH:+${PYTHONPATH}:}"/opt/flux/view/lib/python3.11/site-packages

# What is in the view beside flux-core, such as Fluxion, has a prefix of its own that flux-core does not know.
export FLUX_MODULE_PATH="${FLUX_MODULE_PATH:+${FLUX_MODULE_PATH}:}${viewroot}/lib/flux/modules"
export FLUX_EXEC_PATH="${FLUX_EXEC_PATH:+${FLUX_EXEC_PATH}:}${viewroot}/libexec/flux/cmd"
# Its start scripts load Fluxion: those of rc1.d before flux-core 0.79, modprobe's since.
export FLUX_RC_EXTRA="${FLUX_RC_EXTRA:+${FLUX_RC_EXTRA}:}${viewroot}/etc/flux"
export FLUX_MODPROBE_PATH_APPEND="${FLUX_MODPROBE_PATH_APPEND:+${FLUX_MODPROBE_PATH_APPEND}:}${viewroot}/etc/flux/modprobe"

export LD_LIBRARY_PATH="${LD_LIBRARY_PATH:+${LD_LIBRARY_PATH}:}${viewroot}/lib"
export fluxsocket=local:///opt/flux/config/run/flux/local
