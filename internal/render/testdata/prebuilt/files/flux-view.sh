#!/bin/bash
# Puts Flux on the path of a shell in this pod: . /mnt/flux/flux-view.sh
export fluxsocket=local:///mnt/flux/config/run/flux/local
