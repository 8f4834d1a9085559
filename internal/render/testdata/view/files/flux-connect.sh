#!/bin/bash
# Opens a shell that is connected to the broker of this pod.
. /opt/flux/flux-view.sh
flux proxy "${fluxsocket:?}" bash
