#!/bin/bash
# Entrypoint of the container that runs Flux. Pod 0 leads and runs the command, the others follow; the
# exit code is that of the command. The MiniCluster's own shell stands in files beside this one.

say() { echo "minifleet: $*"; }
# fail ends the pod with a message. With the output before it, that is what Kubernetes, and so the hub, keeps.
fail() {
  echo "minifleet: $*" >&2
  exit 1
}

# The first shell only waits for the one that does the work, so that it can act on a signal at any time; a shell that runs a
# command acts when that has ended. A pod that was asked to end and has not succeeded ends with 143, which its Job does not
# count as a failure, and does so before it is killed: that exit code is also that of a pod that ran out of memory.
if [ "${1:-}" != run ]; then
  signals=0
  work=
  timer=
  interrupt() {
    signals=$((signals + 1))
    if [ "${signals}" -eq 1 ]; then
      (sleep 25; kill -ALRM "$$") > /dev/null 2>&1 < /dev/null &
      timer=$!
    fi
    if [ -n "${work}" ]; then
      kill -TERM "${work}" 2> /dev/null || true
    fi
  }
  # Sidecars may wait for this file, however Flux ends.
  finish() {
    touch /mnt/flux/flux-operator-complete.txt || true
    exit "$1"
  }
  trap interrupt TERM INT
  trap 'say "Not at its end after 25 s, and so ended"; kill -KILL "${work}" || true; finish 143' ALRM
  /bin/bash "$0" run <&0 &
  work=$!
  if [ "${signals}" -gt 0 ]; then
    kill -TERM "${work}" 2> /dev/null || true # what came before there was a shell
  fi
  # A signal ends wait before the shell has ended.
  while :; do
    seen="${signals}"
    code=0
    wait "${work}" || code=$?
    if [ "${seen}" = "${signals}" ]; then
      break
    fi
  done
  if [ -n "${timer}" ]; then
    kill "${timer}" 2> /dev/null || true
  fi
  if [ "${signals}" -gt 0 ] && [ "${code}" -ne 0 ]; then
    code=143
  elif [ "${code}" -eq 143 ]; then
    say "The command was ended by a SIGTERM that was not for this pod (143); told as 1"
    code=1
  fi
  finish "${code}"
fi

fluxuser=$(id -un 2> /dev/null || id -u)
fluxuid=$(id -u)

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

# The broker wants a certificate that nobody else can read, and state that it owns.
curvesrc=/flux_operator/curve.cert
curvepath="${configroot}/curve/curve.cert"
if [ ! -r "${curvesrc}" ]; then
  fail "user ${fluxuid} cannot read ${curvesrc}: set fsGroup in spec.pod.securityContext"
fi
rm -f "${curvepath}"
(umask 077 && cat "${curvesrc}" > "${curvepath}") || fail "cannot write ${curvepath}"
export STATE_DIR="${configroot}/var/lib/flux"
export FLUX_OUTPUT_DIR=/tmp/fluxout
mkdir -p "${STATE_DIR}" "${configroot}/run/flux" "${FLUX_OUTPUT_DIR}" || fail "cannot create the broker's directories"

cfg="${configroot}/etc/flux/config"
hosts=$(cat "${configroot}/etc/flux/system/hostlist")
flux R encode --hosts="${hosts}" --local > "${configroot}/etc/flux/system/R" ||
  fail "flux R encode --hosts=${hosts} --local failed: is Flux in the image, or does its view fit the image's system?"

mainHost=gallery-0
workdir=$(pwd)
fluxsocket=local:///mnt/flux/config/run/flux/local
say "${HOSTNAME:-} runs Flux as ${fluxuser} in ${workdir}; ${mainHost} leads"

brokerOptions=(
  --config-path=/mnt/flux/config/etc/flux/config
  -Scron.directory=/mnt/flux/config/etc/flux/system/cron.d
  -Srundir=/mnt/flux/config/run/flux
  -Sstatedir=/mnt/flux/config/var/lib/flux
  -Stbon.topo=kary:256
  -Stbon.connect_timeout=5s
  -Sbroker.cleanup-timeout=10s
  -Slog-stderr-mode=local
  -Slog-stderr-level=6
  -Slocal-uri=local:///mnt/flux/config/run/flux/local
)

# broker runs a broker, with the program given to it, until it ends. It passes signals on, a follower after a while only:
# where all pods are asked to end, the lead ends them in order, and would wait long for jobs on brokers that no longer exist.
signals=0
child=
patience=0
forward() {
  signals=$((signals + 1))
  if [ "${signals}" -eq 1 ] && [ "${patience}" -gt 0 ]; then
    (sleep "${patience}"; kill -TERM "$$") > /dev/null 2>&1 < /dev/null &
    return
  fi
  terminate
}
terminate() {
  if [ -n "${child}" ]; then
    kill -TERM "${child}" 2> /dev/null || true
  fi
}
trap forward TERM
broker() {
  local start=(flux start)
  local option seen code
  for option in "${brokerOptions[@]}"; do
    start+=(-o "${option}")
  done
  if [ "${signals}" -gt 0 ]; then
    return 143
  fi
  # Not the program: what it expands to may be secret.
  say "${start[*]}"
  "${start[@]}" "$@" <&0 &
  child=$!
  if [ "${signals}" -gt 0 ]; then
    terminate # what came before there was a child
  fi
  # A signal ends wait before the broker has ended.
  while :; do
    seen="${signals}"
    code=0
    wait "${child}" || code=$?
    if [ "${seen}" = "${signals}" ]; then
      break
    fi
  done
  child=
  return "${code}"
}

code=0
program=()
# The Job gives each pod its index, which is also in its hostname.
index="${JOB_COMPLETION_INDEX:-}"
if [ -z "${index}" ] && [ "$(hostname)" = "${mainHost}" ]; then
  index=0
fi
if [ "${index}" = 0 ]; then
  . /flux_operator/command-0.sh || exit $?
  broker "${program[@]}" || code=$?
else
  patience=15
  # A broker that lost its lead tries again: the lead may be on another node by then.
  while :; do
    code=0
    broker || code=$?
    if [ "${code}" -eq 0 ] || [ "${signals}" -gt 0 ]; then
      break
    fi
    say "The broker failed with exit code ${code}; trying again in 15 s"
    sleep 15 &
    wait $! || true
  done
fi

# A broker that is asked to end does so with 0, and yet the pod has not done what it was for. Only a command that succeeded
# all the same has.
if [ "${signals}" -gt 0 ] && { [ "${code}" -ne 0 ] || [ "${#program[@]}" -eq 0 ]; }; then
  code=143
fi
say "Flux ended with exit code ${code}"
exit "${code}"
