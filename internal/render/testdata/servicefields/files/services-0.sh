#!/bin/bash
# Entrypoint of a container beside the cluster: runs its command, and knows nothing of Flux.

. /flux_operator/services-init-0.sh

. /flux_operator/services-service-pre-0.sh

code=0
. /flux_operator/services-command-0.sh || code=$?
. /flux_operator/services-post-0.sh
exit "${code}"
