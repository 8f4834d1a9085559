#!/bin/bash
# Entrypoint of a container beside the cluster: runs its command, and knows nothing of Flux.

. /flux_operator/services-script-1.sh

code=0
. /flux_operator/services-command-1.sh || code=$?
exit "${code}"
