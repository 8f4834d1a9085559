package main

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
)

// spread returns a fleet of n confined members, with nodes or without. The first can hang where that is said, and in the short form, whose rows share
// the fleet.
func (s *session) spread(ctx context.Context, o options, n int, nodes, hangs bool) (*bench, error) {
	b, err := s.benchOf(ctx, o, "spread", nodes || s.short, func(b *bench) error {
		if hangs || s.short {
			return b.withFragile(ctx, n)
		}
		return b.registerConfined(ctx, n, nil)
	})
	if err != nil {
		return nil, err
	}
	return b, b.registerConfined(ctx, max(n, len(b.confined)), nil)
}

// growth measures how times and CPU time grow with MiniClusters, and with members.
func growth(ctx context.Context, s *session, o options) error {
	b, err := s.plain(ctx, o)
	if err != nil {
		return err
	}
	var byCount []manyRuns
	for _, n := range o.counts {
		b.options.n = n
		runs, err := b.many(ctx)
		if err != nil {
			return err
		}
		byCount = append(byCount, runs)
		s.report.setAside()
		if err := b.removeFleet(ctx); err != nil {
			return err
		}
	}
	if !s.short {
		if err := s.stopFleets(); err != nil {
			return err
		}
	}
	if b, err = s.spread(ctx, o, o.members[0], false, false); err != nil {
		return err
	}
	var byMembers []manyRuns
	var live []float64
	for _, n := range o.members {
		if err := b.registerConfined(ctx, n, nil); err != nil {
			return err
		}
		b.options.n = o.n
		runs, err := b.many(ctx)
		if err != nil {
			return err
		}
		byMembers = append(byMembers, runs)
		s.report.setAside()
		if err := b.removeFleet(ctx); err != nil {
			return err
		}
		if err := b.weighIn(ctx, s.short, fmt.Sprintf("%d idle members that are namespaces", n)); err != nil {
			return err
		}
		live = append(live, b.lastWeight().Live)
	}
	reportGrowth(s.report, "MiniClusters", o.counts, byCount, o.counts)
	reportGrowth(s.report, fmt.Sprintf("members, for %d MiniClusters", o.n), o.members, byMembers, slices.Repeat([]int{o.n}, len(o.members)))
	s.report.exponent("exponent of live memory with "+sizesText(o.members)+" members", o.members, live, nil)
	return nil
}

// setAside keeps the figures until now as details, since others are made of them.
func (r *report) setAside() {
	r.Further = append(r.Further, r.Rows...)
	r.Rows = nil
}

// reportGrowth reports exponents of runs at sizes, of which each had so many MiniClusters.
func reportGrowth(r *report, of string, at []int, runs []manyRuns, miniClusters []int) {
	var created, floors, controller, all, floorAll []float64
	for i, m := range runs {
		n := miniClusters[i]
		total := func(values []float64) float64 { return median(values) * float64(n) }
		created = append(created, inMilliseconds(quantile(0.5)(times(m.pushes, createdTime))))
		floors = append(floors, inMilliseconds(quantile(0.5)(times(m.floors, createdTime))))
		controller = append(controller, total(cpuEach(m.pushes, n, isController)))
		all = append(all, total(cpuEach(m.pushes, n, or(isController, isServer))))
		floorAll = append(floorAll, total(cpuEach(m.floors, n, or(isBench, isServer))))
	}
	with := " with " + sizesText(at) + " " + of
	r.exponent("exponent of the time to the last Job"+with, at, created, floors)
	r.exponent("exponent of CPU time, controller, API servers and etcd,"+with, at, all, floorAll)
	r.exponent("exponent of CPU time of the controller"+with, at, controller, nil)
}

// exponent reports the largest exponent of growth from one size to the next. That of the floor tells of what does not grow: a
// loop that takes some milliseconds to begin has an exponent below 1, too.
func (r *report) exponent(what string, at []int, values, floors []float64) {
	r.Rows = append(r.Rows, figureOf(what, exponents(at, values)))
	if len(floors) > 0 {
		r.Rows = append(r.Rows, figureOf("the bare loop beside it: "+strings.TrimPrefix(what, "exponent of "), exponents(at, floors)))
	}
}

// exponents are those of growth from one size to the next: 1 where values grow in proportion. What is too small to be told
// from nothing has none.
func exponents(at []int, values []float64) []float64 {
	var out []float64
	for i := 1; i < len(at); i++ {
		e := math.Log(values[i]/values[i-1]) / math.Log(float64(at[i])/float64(at[i-1]))
		if math.IsNaN(e) || math.IsInf(e, 0) {
			e = 0
		}
		out = append(out, e)
	}
	return out
}

func sizesText(sizes []int) string {
	return strings.ReplaceAll(strings.Trim(fmt.Sprint(sizes), "[]"), " ", " → ")
}
