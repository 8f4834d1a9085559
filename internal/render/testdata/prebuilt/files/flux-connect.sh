#!/bin/bash
# Opens a shell that is connected to the broker of this pod.
. /mnt/flux/flux-view.sh
flux proxy "${fluxsocket:?}" bash
