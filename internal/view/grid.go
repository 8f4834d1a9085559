package view

import (
	"cmp"
	"maps"
	"slices"
	"time"
)

// Contexts says what is known besides a FleetMiniCluster: its commits are those of its source.
type Contexts func(*Entry) Context

// GridOf has a row for each of some FleetMiniClusters, with so many latest runs of each on each member, and a column for
// each member: of the runs, and those given besides.
func GridOf(rows []*Entry, members []string, revisions int, contexts Contexts) Grid {
	g := Grid{Columns: []Column{}, Revisions: []Commit{}, Rows: make([]GridRow, 0, len(rows))}
	columns := map[string]*time.Time{}
	for _, m := range members {
		columns[m] = nil
	}
	seen := revisionTimes{}
	for _, e := range rows {
		c := contexts(e)
		runs := latestPerMember(RunsOf(e.Object, &c), revisions)
		for i := range runs {
			seen.note(&runs[i])
			columns[runs[i].Member] = nil
		}
		for _, m := range e.Row.Members {
			columns[m] = staleMember(e.Object, m, &c)
		}
		g.Rows = append(g.Rows, GridRow{Namespace: e.Row.Namespace, Name: e.Row.Name, State: e.Row.State, Runs: runs})
	}
	for _, m := range slices.Sorted(maps.Keys(columns)) {
		if m != "" {
			g.Columns = append(g.Columns, Column{Member: m, StaleSince: columns[m]})
		}
	}
	g.Revisions = seen.latestFirst()
	return g
}

// revisionTimes are revisions, each with its commit and the latest time of a run of it.
type revisionTimes map[string]revisionTime

type revisionTime struct {
	commit *Commit
	at     time.Time
}

func (t revisionTimes) note(r *Run) {
	if r.Commit == nil {
		return
	}
	var at time.Time
	if r.Start != nil {
		at = *r.Start
	} else if r.End != nil {
		at = *r.End
	}
	if have, ok := t[r.Commit.Revision]; !ok || at.After(have.at) || have.commit.Hash == "" {
		t[r.Commit.Revision] = revisionTime{r.Commit, at}
	}
}

func (t revisionTimes) latestFirst() []Commit {
	out := make([]Commit, 0, len(t))
	for _, r := range slices.SortedFunc(maps.Values(t), func(a, b revisionTime) int {
		return cmp.Or(b.at.Compare(a.at), cmp.Compare(a.commit.Revision, b.commit.Revision))
	}) {
		out = append(out, *r.commit)
	}
	return out
}
