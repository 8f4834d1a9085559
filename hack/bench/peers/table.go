package peers

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"time"
)

// Table is what was measured.
type Table struct {
	MiniClusters int     `json:"miniClusters"`
	Members      int     `json:"members"`
	Nodes        int     `json:"nodesPerMember"`
	Runs         int     `json:"runs"`
	Machine      Machine `json:"machine"`
	Rows         []*Row  `json:"rows"`
}

// Machine is what it was measured on. Load is what /proc/loadavg said before.
type Machine struct {
	CPUs   int    `json:"cpus"`
	Go     string `json:"go"`
	System string `json:"system"`
	Load   string `json:"load"`
}

// Row is a peer.
type Row struct {
	Name          string `json:"name"`
	Title         string `json:"title"`
	Version       string `json:"version,omitempty"`
	How           string `json:"howItIsTold"`
	Settings      string `json:"settings,omitempty"`
	NotComparable string `json:"notComparable,omitempty"`
	// NotMeasured says why nothing here can measure it, and Published what others have.
	NotMeasured string `json:"notMeasured,omitempty"`
	Published   string `json:"published,omitempty"`
	// Missing are files that are not there, and Commands make them.
	Missing  []string `json:"missing,omitempty"`
	Commands []string `json:"commands,omitempty"`
	// Failures are turns that gave no figures.
	Failures     []string       `json:"failures,omitempty"`
	Measurements []*Measurement `json:"measurements,omitempty"`
}

// Measurement is one turn of a peer. Times are in seconds since the push.
type Measurement struct {
	// First, Median and Last are when the first, the middle and the last Job was released: not suspended.
	First  float64 `json:"firstReleased"`
	Median float64 `json:"medianReleased"`
	Last   float64 `json:"lastReleased"`
	// Created and Running are when the last Job was created, and when the last one ran; the latter takes nodes.
	Created float64 `json:"lastCreated"`
	Running float64 `json:"lastRunning,omitempty"`
	// CPU is that of the peer's processes, ServerCPU that of API servers, etcd, Job controllers and what else runs clusters.
	CPU       CPU `json:"cpuSeconds"`
	ServerCPU CPU `json:"serverCPUSeconds"`
	// RSS is the resident memory of the peer's processes at the end, in MiB.
	RSS float64 `json:"rssMiB"`
	// Requests are the peer's own for each MiniCluster, and Others those of everybody else, by side: hub or members.
	Requests map[string]float64 `json:"requests"`
	Others   map[string]float64 `json:"othersRequests"`
	// Kinds are the peer's own requests for each MiniCluster by side and kind.
	Kinds map[string]float64 `json:"requestsByKind"`
}

// CPU is CPU seconds until the last Job was released, and until the peer was quiet; ByProcess are the latter.
type CPU struct {
	Last      float64            `json:"untilLastReleased"`
	Quiet     float64            `json:"untilQuiet"`
	ByProcess map[string]float64 `json:"byProcess"`
}

func newTable(o Options) *Table {
	return &Table{MiniClusters: o.MiniClusters, Members: len(memberNames), Nodes: o.Nodes, Runs: o.Runs, Machine: machine()}
}

func (t *Table) add(p *peer, m *Measurement, err error) {
	row := t.Rows[slices.IndexFunc(t.Rows, func(r *Row) bool { return r.Name == p.name })]
	if err != nil {
		row.Failures = append(row.Failures, err.Error())
		return
	}
	row.Measurements = append(row.Measurements, m)
}

func measurement(at times, before, last, after usage, requests *tally, n int) *Measurement {
	m := &Measurement{
		First: seconds(slices.Min(at.released)), Median: seconds(middle(at.released)), Last: seconds(slices.Max(at.released)),
		Created: seconds(slices.Max(at.created)), RSS: after.memory,
		Requests: each(requests.own, n), Others: each(requests.others, n), Kinds: each(requests.kinds, n),
	}
	if len(at.running) > 0 {
		m.Running = seconds(slices.Max(at.running))
	}
	m.CPU.Last, _ = since(before.peer, last.peer)
	m.CPU.Quiet, m.CPU.ByProcess = since(before.peer, after.peer)
	m.ServerCPU.Last, _ = since(before.servers, last.servers)
	m.ServerCPU.Quiet, m.ServerCPU.ByProcess = since(before.servers, after.servers)
	return m
}

func seconds(d time.Duration) float64 { return math.Round(d.Seconds()*1000) / 1000 }

func middle(values []time.Duration) time.Duration {
	return slices.Sorted(slices.Values(values))[(len(values)-1)/2]
}

func each(counts map[string]int, n int) map[string]float64 {
	out := map[string]float64{}
	for what, count := range counts {
		out[what] = float64(count) / float64(n)
	}
	return out
}

// median is that of a figure over all turns of a row.
func (r *Row) median(of func(*Measurement) float64) float64 {
	values := make([]float64, 0, len(r.Measurements))
	for _, m := range r.Measurements {
		values = append(values, of(m))
	}
	slices.Sort(values)
	n := len(values)
	return (values[(n-1)/2] + values[n/2]) / 2
}

func last(m *Measurement) float64 { return m.Last }

// columns are the figures of a row, each a median.
var columns = []struct {
	title  string
	format string
	of     func(*Measurement) float64
}{
	{"last Job, s", "%.2f", last},
	{"first Job, s", "%.2f", func(m *Measurement) float64 { return m.First }},
	{"its CPU, s", "%.2f", func(m *Measurement) float64 { return m.CPU.Quiet }},
	{"servers' CPU, s", "%.1f", func(m *Measurement) float64 { return m.ServerCPU.Quiet }},
	{"RSS, MiB", "%.0f", func(m *Measurement) float64 { return m.RSS }},
	{"hub requests", "%.1f", func(m *Measurement) float64 { return m.Requests["hub"] }},
	{"member requests", "%.1f", func(m *Measurement) float64 { return m.Requests["members"] }},
	{"others' requests", "%.1f", func(m *Measurement) float64 { return m.Others["hub"] + m.Others["members"] }},
}

// Markdown writes the table, and below it what it takes to read it.
func (t *Table) Markdown(w io.Writer) error {
	var text strings.Builder
	fmt.Fprintf(&text, "%d one-pod MiniClusters onto %d members, push to the last Job released; medians of %d turns each; %d CPUs, load before: %s\n\n",
		t.MiniClusters, t.Members, t.Runs, t.Machine.CPUs, t.Machine.Load)
	text.WriteString("| | ratio to MiniFleet |")
	for _, c := range columns {
		text.WriteString(" " + c.title + " |")
	}
	text.WriteString("\n|---|" + strings.Repeat("---|", len(columns)+1) + "\n")
	for _, row := range t.Rows {
		text.WriteString(t.line(row) + "\n")
	}
	text.WriteString("\nRequests are for each MiniCluster, without watches; CPU time is until the last request of this push.\n")
	for _, row := range t.Rows {
		text.WriteString(row.about())
	}
	_, err := io.WriteString(w, text.String())
	return err
}

// line is the row of a peer.
func (t *Table) line(row *Row) string {
	line := "| " + row.Title + " |"
	switch {
	case row.NotMeasured != "":
		return line + " not measured, see below |" + strings.Repeat(" |", len(columns))
	case len(row.Missing) > 0:
		return line + " not there, see below |" + strings.Repeat(" |", len(columns))
	case len(row.Measurements) == 0:
		return line + " failed, see below |" + strings.Repeat(" |", len(columns))
	}
	line += " " + t.ratio(row) + " |"
	for _, c := range columns {
		line += " " + fmt.Sprintf(c.format, row.median(c.of)) + " |"
	}
	return line
}

// ratio is how many times as long as MiniFleet it takes to the last Job.
func (t *Table) ratio(row *Row) string {
	i := slices.IndexFunc(t.Rows, func(r *Row) bool { return r.Name == miniFleetName && len(r.Measurements) > 0 })
	if i < 0 {
		return ""
	}
	return fmt.Sprintf("%.2f", row.median(last)/t.Rows[i].median(last))
}

// about says what it takes to read the row of a peer.
func (r *Row) about() string {
	var text strings.Builder
	fmt.Fprintf(&text, "\n%s", r.Title)
	if r.Version != "" {
		fmt.Fprintf(&text, " (%s)", strings.ReplaceAll(r.Version, "\n", ", "))
	}
	fmt.Fprintf(&text, ": %s.", r.How)
	if r.Settings != "" {
		fmt.Fprintf(&text, " Settings: %s.", r.Settings)
	}
	if r.NotComparable != "" {
		fmt.Fprintf(&text, " Not comparable: %s.", r.NotComparable)
	}
	text.WriteString("\n")
	if r.NotMeasured != "" {
		fmt.Fprintf(&text, "Not measured: %s. PUBLISHED, NOT MEASURED HERE: %s.\n", r.NotMeasured, r.Published)
	}
	for _, failure := range r.Failures {
		fmt.Fprintf(&text, "A turn failed: %s\n", failure)
	}
	if len(r.Measurements) > 1 {
		fmt.Fprintf(&text, "Its last Job, each turn: %s\n", r.spread())
	}
	if len(r.Missing) > 0 {
		fmt.Fprintf(&text, "Not measured, since %s is not there. To make it:\n\n", strings.Join(r.Missing, ", "))
		for _, command := range r.Commands {
			text.WriteString("    " + command + "\n")
		}
	}
	return text.String()
}

func (r *Row) spread() string {
	var all []string
	for _, m := range r.Measurements {
		all = append(all, fmt.Sprintf("%.2f s", m.Last))
	}
	return strings.Join(all, ", ")
}

// Failed is an error that names the peers that had a turn without figures; nil where all had them, or were not there.
func (t *Table) Failed() error {
	var failed []string
	for _, row := range t.Rows {
		if len(row.Failures) > 0 {
			failed = append(failed, row.Title)
		}
	}
	if len(failed) == 0 {
		return nil
	}
	return fmt.Errorf("%s failed", strings.Join(failed, ", "))
}
