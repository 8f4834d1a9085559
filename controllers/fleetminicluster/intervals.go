package fleetminicluster

import (
	"time"

	"github.com/minifleet/minifleet/controllers/internal/probes"
	"github.com/minifleet/minifleet/internal/plan"
)

// Intervals are how often something is done although nothing happens.
type Intervals struct {
	plan.Intervals
	// Unreachable is how often a deletion asks for a member that cannot be reached; its return leads to a
	// reconciliation, too.
	Unreachable time.Duration
	// Probes are between questions why pods are not ready.
	Probes probes.Intervals
}

// DefaultIntervals are those of a Reconciler that is given none.
func DefaultIntervals() Intervals {
	return Intervals{Intervals: plan.DefaultIntervals(), Unreachable: 30 * time.Second, Probes: probes.DefaultIntervals()}
}

// Scale multiplies all of them but the first probe, which is to be longer than pods take to start.
func (i Intervals) Scale(factor float64) Intervals {
	scale := func(d time.Duration) time.Duration { return time.Duration(float64(d) * factor) }
	return Intervals{
		Intervals: i.Intervals.Scale(factor), Unreachable: scale(i.Unreachable),
		Probes: probes.Intervals{First: i.Probes.First, Min: scale(i.Probes.Min), Default: scale(i.Probes.Default), Max: scale(i.Probes.Max)},
	}
}
