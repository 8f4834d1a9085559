#!/bin/bash
# Replaces the scheduler of a running broker by Fluxion. Run it on the lead, in a shell from flux-connect.sh.
flux module remove sched-simple
flux module load sched-fluxion-resource
# Since 2025 Fluxion has a module for what only asks whether a job could ever run.
flux module load sched-fluxion-feasibility 2> /dev/null || true
flux module load sched-fluxion-qmanager
