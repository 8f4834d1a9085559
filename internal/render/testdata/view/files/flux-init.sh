#!/bin/bash
# Prepares the volume that all containers of the pod share: the brokers' configuration, and a copy of
# Flux (the view) for images that have none.
set -eu

viewbase=/opt/flux
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

# The view is built as links to one directory below /opt/views, or lies in /opt/view itself. Its
# libraries are found at /opt/software, which the other containers fill from this copy.
view=/opt/view
for candidate in /opt/views/._view/*; do
  if [ -d "${candidate}" ]; then
    view="${candidate}"
  fi
done
echo "Copying Flux from ${view} to ${viewroot}"
cp -R "${view}"/. "${viewroot}/"
if [ -d /opt/software ]; then
  cp -R /opt/software "${viewbase}/"
fi

# Links to Python within the view still point to where it was built.
for packages in "${viewroot}"/lib/python3.*; do
  python="${viewroot}/bin/${packages##*/}"
  if [ -f "${python}" ]; then
    rm -f "${viewroot}/bin/python" "${viewroot}/bin/python3"
    ln -sfn "${python}" "${viewroot}/lib/python"
    ln -sfn "${python}" "${viewroot}/lib/python3"
  fi
done

touch "${viewbase}/flux-operator-done.txt"
