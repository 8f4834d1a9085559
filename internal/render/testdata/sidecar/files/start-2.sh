#!/bin/bash
# Entrypoint of a container beside the one that runs Flux: runs its command once the broker is up.

say() { echo "minifleet: $*"; }
# fail ends the pod with a message. With the output before it, that is what Kubernetes, and so the hub, keeps.
fail() {
  echo "minifleet: $*" >&2
  exit 1
}

viewbase=/mnt/flux
viewroot="${viewbase}/view"
configroot="${viewbase}/config"
software="${viewbase}/software"
if [ ! -e "${viewbase}/flux-operator-done.txt" ]; then
  fail "the init container did not finish: ${viewbase}/flux-operator-done.txt is missing"
fi
if [ "${HOME:-/}" = "/" ]; then
  export HOME=/home/flux-operator USER=flux-operator
fi

# Flux comes after the image's own software on the path, and finds its libraries at /opt/software.
if [ -d "${software}" ]; then
  mkdir -p /opt/software
  cp -Rn "${software}"/. /opt/software/ 2> /dev/null || true
fi
export PATH="${PATH}:${viewroot}/bin"
for packages in "${viewroot}"/lib/python3*/site-packages; do
  export PYTHONPATH="${PYTHONPATH:+${PYTHONPATH}:}${packages}"
done

# What is in the view beside flux-core, such as Fluxion, has a prefix of its own that flux-core does not know.
export FLUX_MODULE_PATH="${FLUX_MODULE_PATH:+${FLUX_MODULE_PATH}:}${viewroot}/lib/flux/modules"
export FLUX_EXEC_PATH="${FLUX_EXEC_PATH:+${FLUX_EXEC_PATH}:}${viewroot}/libexec/flux/cmd"

. /flux_operator/service-pre-2.sh

fluxsocket=local:///mnt/flux/config/run/flux/local
while [ ! -S "${fluxsocket#local://}" ]; do
  sleep 1
done

code=0
. /flux_operator/command-2.sh || code=$?
exit "${code}"
