#!/bin/bash
# Prepares the volume that all containers of the pod share: the brokers' configuration, and a copy of
# Flux (the view) for images that have none.
set -eu

viewbase=/mnt/flux
viewroot="${viewbase}/view"
configroot="${viewbase}/config"

mkdir -p "${viewroot}" "${configroot}/etc/flux/config" "${configroot}/etc/flux/system/cron.d" \
  "${configroot}/var/lib" "${configroot}/run" "${configroot}/curve"
cp /flux_operator/broker.toml "${configroot}/etc/flux/config/broker.toml"
cp /flux_operator/hostlist "${configroot}/etc/flux/system/hostlist"
cp /flux_operator/flux-view.sh /flux_operator/flux-connect.sh /flux_operator/load-fluxion.sh "${viewbase}/"

# The user that runs the broker, who may be another than ours, creates files in these.
chmod 1777 "${configroot}" "${configroot}/etc/flux/system" "${configroot}/var/lib" "${configroot}/run" \
  "${configroot}/curve"

touch "${viewbase}/flux-operator-done.txt"
