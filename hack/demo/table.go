package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/minifleet/minifleet/api/v1alpha1"
)

// row is a line of the table: one MiniCluster on one member, or on none yet.
type row struct {
	name, placement, member, sync, run, pods, took string
	// note says what stands in the way.
	note string
}

func (r row) cells() []string {
	return []string{r.name, r.placement, r.member, r.sync, r.run, r.pods, r.took, r.note}
}

// table is what is placed where, and how far it is.
type table []row

var header = row{
	name: "MINICLUSTER", placement: "PLACEMENT", member: "MEMBER", sync: "SYNC", run: "RUN", pods: "PODS", took: "TOOK",
}

const nothing = "-"

// newTable returns the rows by name and member. Names are MiniClusters that have a row even while the hub
// does not have them yet.
func newTable(fleet []v1alpha1.FleetMiniCluster, names []string) table {
	var rows table
	there := map[string]bool{}
	for i := range fleet {
		there[fleet[i].Name] = true
		rows = append(rows, rowsOf(&fleet[i])...)
	}
	for _, name := range names {
		if !there[name] {
			rows = append(rows, empty(name))
		}
	}
	slices.SortStableFunc(rows, func(a, b row) int {
		return cmp.Or(strings.Compare(a.name, b.name), strings.Compare(a.member, b.member))
	})
	return rows
}

func empty(name string) row {
	return row{name: name, placement: nothing, member: nothing, sync: nothing, run: nothing, pods: nothing, took: nothing}
}

func rowsOf(f *v1alpha1.FleetMiniCluster) []row {
	base := empty(f.Name)
	if f.Spec.PlacementRef != nil {
		base.placement = f.Spec.PlacementRef.Name
	}
	if len(f.Status.Clusters) == 0 {
		if c := condition(f, v1alpha1.ConditionReady); c != nil {
			base.note = c.Message
		}
		return []row{base}
	}
	rows := make([]row, 0, len(f.Status.Clusters))
	for i := range f.Status.Clusters {
		c := &f.Status.Clusters[i]
		r := base
		r.member, r.sync = c.Name, string(c.Sync)
		if c.State != v1alpha1.RunSucceeded || c.Sync != v1alpha1.Synced {
			r.note = c.Message
		}
		r.run = cmp.Or(string(c.State), nothing)
		r.pods = pods(c.Pods)
		if c.State == v1alpha1.RunSucceeded {
			r.pods = fmt.Sprintf("%d done", c.Pods.Desired) // its lead has ended, and all others with it
		}
		r.took = took(f.Status.Runs, c.Run)
		rows = append(rows, r)
	}
	return rows
}

// pods says what the pods of a run are doing, e.g. "1 pending, 3 running".
func pods(p v1alpha1.PodCounts) string {
	var parts []string
	for _, part := range []struct {
		count int32
		word  string
	}{{p.Active - p.Ready, "pending"}, {p.Ready, "running"}, {p.Succeeded, "done"}, {p.Failed, "failed"}} {
		if part.count > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", part.count, part.word))
		}
	}
	return cmp.Or(strings.Join(parts, ", "), nothing)
}

// took is how long the run of this id took, once it has ended.
func took(runs []v1alpha1.Run, id string) string {
	for i := range runs {
		r := &runs[i]
		if r.ID == id && r.StartTime != nil && r.CompletionTime != nil {
			return r.CompletionTime.Sub(r.StartTime.Time).Round(time.Second).String()
		}
	}
	return nothing
}

// lines returns the table as text in columns, headed by their names.
func (t table) lines() []string {
	all := append(table{header}, t...)
	widths := make([]int, len(header.cells()))
	for _, r := range all {
		for i, cell := range r.cells() {
			widths[i] = max(widths[i], len(cell))
		}
	}
	lines := make([]string, 0, len(all))
	for _, r := range all {
		line := ""
		for i, cell := range r.cells() {
			line += fmt.Sprintf("%-*s  ", widths[i], cell)
		}
		lines = append(lines, strings.TrimRight(line, " "))
	}
	return lines
}

// changes returns a sentence for each row that is new or has changed since an earlier table.
func (t table) changes(since table) []string {
	before := map[string]bool{}
	for _, r := range since {
		before[r.sentence()] = true
	}
	var lines []string
	for _, r := range t {
		if sentence := r.sentence(); !before[sentence] {
			lines = append(lines, sentence)
		}
	}
	return lines
}

// sentence is the row outside of a table.
func (r row) sentence() string {
	if r.member == nothing {
		return r.name + ": " + cmp.Or(r.note, "not placed yet")
	}
	text := fmt.Sprintf("%s on %s: %s, %s", r.name, r.member, r.sync, r.run)
	if r.pods != nothing {
		text += ", pods: " + r.pods
	}
	if r.note != "" {
		text += " (" + r.note + ")"
	}
	return text
}
