#!/bin/bash
# Replaces the scheduler of a running broker by Fluxion.
flux module remove sched-simple
flux module load sched-fluxion-resource
flux module load sched-fluxion-qmanager
