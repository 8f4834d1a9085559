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
	// Starting is for how long a status that only tells of Jobs being released waits for their pods to run.
	Starting time.Duration
	// Start is how long after the start of the hub one is not reconciled of whose members it is not known yet whether they can be
	// reached.
	Start time.Duration
	// Probes are between questions why pods are not ready.
	Probes probes.Intervals
}

// DefaultIntervals are those of a Reconciler that is given none.
func DefaultIntervals() Intervals {
	asked := probes.DefaultIntervals()
	return Intervals{
		Intervals: plan.DefaultIntervals(), Unreachable: 30 * time.Second, Starting: asked.First, Start: 2 * time.Second, Probes: asked,
	}
}

// Scale multiplies all of them but Starting and the first probe, which are to be longer than pods take to start.
func (i Intervals) Scale(factor float64) Intervals {
	scale := func(d time.Duration) time.Duration { return time.Duration(float64(d) * factor) }
	return Intervals{
		Intervals: i.Intervals.Scale(factor), Unreachable: scale(i.Unreachable), Starting: i.Starting, Start: scale(i.Start),
		Probes: probes.Intervals{First: i.Probes.First, Min: scale(i.Probes.Min), Default: scale(i.Probes.Default), Max: scale(i.Probes.Max)},
	}
}
