package view

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/minifleet/minifleet/api/v1alpha1"
)

// span is a run in a time, or what waits (run is nil).
type span struct {
	entry *Entry
	run   *v1alpha1.Run
	start time.Time
}

// TimelineOf has the runs of some FleetMiniClusters that were live between two times, and what waits now: at most so many
// bars, the latest.
func TimelineOf(entries []*Entry, from, to, now time.Time, most int, contexts Contexts) Timeline {
	spans := spansOf(entries, from, to)
	slices.SortFunc(spans, func(a, b span) int {
		return cmp.Or(b.start.Compare(a.start), byName(&a.entry.Row, &b.entry.Row))
	})
	out := Timeline{From: from, To: to, Now: now, Total: len(spans), Lanes: []Lane{}}
	lanes := map[string]*Lane{}
	for _, s := range spans[:min(len(spans), most)] {
		c := contexts(s.entry)
		bar := barOf(&s, &c)
		lane := lanes[bar.Member]
		if lane == nil {
			lane = &Lane{Member: bar.Member, Bars: []Bar{}}
			if bar.Member != "" {
				lane.StaleSince = staleMember(s.entry.Object, bar.Member, &c)
			}
			lanes[bar.Member] = lane
		}
		lane.Bars = append(lane.Bars, bar)
	}
	for _, member := range slices.Sorted(maps.Keys(lanes)) {
		slices.Reverse(lanes[member].Bars)
		out.Lanes = append(out.Lanes, *lanes[member])
	}
	return out
}

func spansOf(entries []*Entry, from, to time.Time) []span {
	var out []span
	for _, e := range entries {
		for i := range e.Object.Status.Runs {
			r := &e.Object.Status.Runs[i]
			if start, ok := startOf(r); ok && !start.After(to) && (r.CompletionTime == nil || !r.CompletionTime.Time.Before(from)) {
				out = append(out, span{e, r, start})
			}
		}
		if e.Row.State == string(v1alpha1.StateWaiting) && !e.Row.Since.After(to) {
			out = append(out, span{e, nil, e.Row.Since})
		}
	}
	return out
}

// startOf is when a run has begun, or the first that is known of it.
func startOf(r *v1alpha1.Run) (time.Time, bool) {
	for _, t := range []*time.Time{timeOf(r.StartTime), timeOf(r.RunningTime), timeOf(r.CompletionTime)} {
		if t != nil {
			return *t, true
		}
	}
	return time.Time{}, false
}

func barOf(s *span, c *Context) Bar {
	if s.run != nil {
		run := RunOf(s.entry.Object, s.run, c)
		run.Start = &s.start
		return Bar{Run: run}
	}
	r := &s.entry.Row
	return Bar{Waiting: true, Run: Run{
		ID: "waiting-" + r.UID, Namespace: r.Namespace, Name: r.Name, State: string(v1alpha1.RunStarting), Commit: r.Commit,
		Digest: s.entry.Object.Status.Digest, Start: &s.start, Message: HideOthers(r.Why, c.Sees),
	}}
}

// AddMembers tells of the members of a timeline what a reader may know who may see them, and adds lanes for the others.
func (t *Timeline) AddMembers(members []*v1alpha1.MemberCluster) {
	for _, m := range members {
		i := slices.IndexFunc(t.Lanes, func(l Lane) bool { return l.Member == m.Name })
		if i < 0 {
			t.Lanes = append(t.Lanes, Lane{Member: m.Name, Bars: []Bar{}})
			i = len(t.Lanes) - 1
		}
		if stale, isStale := StaleOf(m); isStale {
			t.Lanes[i].StaleSince = stale.Since
		} else {
			t.Lanes[i].Room = RoomOf(m.Status.Capacity)
		}
	}
	slices.SortFunc(t.Lanes, func(a, b Lane) int { return cmp.Compare(a.Member, b.Member) })
}
