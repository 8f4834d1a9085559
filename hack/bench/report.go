package main

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math"
	"runtime"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/minifleet/minifleet/hack/bench/record"
)

// report is what was measured. Times are in milliseconds.
type report struct {
	MiniClusters int             `json:"miniClusters"`
	Members      int             `json:"members"`
	Runs         int             `json:"runs"`
	CPUs         int             `json:"cpus"`
	JobsRun      bool            `json:"jobControllersRun"`
	Rows         []record.Figure `json:"rows"`
	Counts       []record.Figure `json:"counts"`
	Memory       []weight        `json:"memory"`
	// Requests are those of the controller for one MiniCluster, by side and kind: those until the last Job
	// was created, and those after.
	Requests []request `json:"requests"`
	// Reconciliations are the reconciliations of one MiniCluster, by run.
	Reconciliations []float64 `json:"reconciliations"`
	// Stages are the times from the trigger to each step, by measurement.
	Stages map[string][]stage `json:"stages"`
	// CPU is CPU seconds of each run, by what was measured and process.
	CPU map[string][]map[string]float64 `json:"cpuSeconds"`
	// RestartWrites counts the writes of all restarts.
	RestartWrites map[string]int `json:"restartWrites"`
	// FirstWrites counts the writes of a start with statuses that the bench has made.
	FirstWrites map[string]int `json:"firstWrites,omitempty"`
	// Further are figures that others are made of.
	Further []record.Figure `json:"furtherFigures,omitempty"`
	// Output are lines of programs that measure by themselves.
	Output []string `json:"output,omitempty"`

	seen map[string]*request
}

// weight is what the controller holds: memory in MiB.
type weight struct {
	When       string  `json:"when"`
	RSS        float64 `json:"rss"`
	Heap       float64 `json:"heapInUse"`
	Goroutines float64 `json:"goroutines"`
	// Live is what was in use when garbage was last collected.
	Live float64 `json:"live,omitempty"`
}

// request is a kind of request, and how many of it there are for one MiniCluster.
type request struct {
	// MiniClusters is how many there were at once.
	MiniClusters int     `json:"miniClusters"`
	JobsRun      bool    `json:"jobControllersRun,omitempty"`
	Side         string  `json:"side"`
	What         string  `json:"what"`
	Before       float64 `json:"untilLastJob"`
	After        float64 `json:"after"`
}

// stage is a step on the way of MiniClusters: the median time from the trigger to its first, middle and
// last answer.
type stage struct {
	Side   string  `json:"side"`
	What   string  `json:"what"`
	First  float64 `json:"first"`
	Middle float64 `json:"middle"`
	Last   float64 `json:"last"`
	// Took is the median time that the API server took to answer.
	Took float64 `json:"answer"`

	all map[string][]float64
}

func newReport(o options) *report {
	return &report{
		MiniClusters: o.n, Members: len(memberNames), Runs: o.runs, CPUs: runtime.NumCPU(), JobsRun: o.jobsRun,
		Stages: map[string][]stage{}, CPU: map[string][]map[string]float64{}, RestartWrites: map[string]int{}, FirstWrites: map[string]int{}, seen: map[string]*request{},
	}
}

// quantile returns a function that finds the value which a share q of all values does not exceed.
func quantile(q float64) func([]time.Duration) time.Duration {
	return func(values []time.Duration) time.Duration {
		sorted := slices.Sorted(slices.Values(values))
		if len(sorted) == 0 {
			return 0
		}
		at := int(math.Ceil(q*float64(len(sorted)))) - 1
		return sorted[max(0, at)]
	}
}

func (r *report) row(what, statistic string, values []time.Duration, floor string, floors []time.Duration, of func([]time.Duration) time.Duration) {
	value, base := inMilliseconds(of(values)), inMilliseconds(of(floors))
	r.Rows = append(r.Rows, record.Figure{
		What: what, Statistic: statistic, Value: value, Floor: floor, FloorAt: base, Ratio: ratio(value, base),
		Values: each(values), Floors: each(floors),
	})
}

// figure reports something that is not a time.
func (r *report) figure(what, unit string, value float64, floor string, base float64) {
	figure := record.Figure{What: what, Unit: unit, Value: value, Floor: floor, FloorAt: base, Values: []float64{value}}
	if floor != "" {
		figure.Floors = []float64{base}
	}
	figure.Ratio = ratio(value, base)
	r.Rows = append(r.Rows, figure)
}

// ratio is that of a value to its floor; 0 where there is none.
func ratio(value, floor float64) float64 {
	if floor == 0 {
		return 0
	}
	return value / floor
}

// count reports the largest of some counts.
func (r *report) count(what string, values []float64) {
	r.Counts = append(r.Counts, record.Figure{What: what, Statistic: "most", Value: slices.Max(values), Values: values})
}

func inMilliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

func each(values []time.Duration) []float64 {
	out := make([]float64, len(values))
	for i, v := range values {
		out[i] = inMilliseconds(v)
	}
	return out
}

func milliseconds(d time.Duration) string { return fmt.Sprintf("%.0f ms", inMilliseconds(d)) }

// side is where a request went to.
func (e *event) side() string {
	if e.cluster == hubName {
		return "hub"
	}
	return "members"
}

// tally counts the controller's requests for n MiniClusters: those until the last Job, and the rest.
func (r *report) tally(n int, jobsRun bool, before, after []event) {
	for i, events := range [][]event{before, after} {
		for j := range events {
			e := &events[j]
			if !e.minifleet() {
				continue
			}
			key := fmt.Sprintf("%06d %t %s %s", n, jobsRun, e.side(), e.what())
			if r.seen[key] == nil {
				r.seen[key] = &request{MiniClusters: n, JobsRun: jobsRun, Side: e.side(), What: e.what()}
			}
			share := 1 / float64(n) / float64(r.Runs)
			if i == 0 {
				r.seen[key].Before += share
			} else {
				r.seen[key].After += share
			}
		}
	}
}

// stages notes when, after start, each kind of request of the controller was answered. What one MiniCluster
// asks several times is numbered, so that e.g. the first and the second status write are told apart.
func (r *report) stages(measurement string, start time.Time, events []event) {
	times, took := map[string][]time.Duration{}, map[string][]time.Duration{}
	sides := map[string][2]string{}
	repeated := map[string]int{}
	for i := range events {
		e := &events[i]
		if !e.minifleet() {
			continue
		}
		key := e.what()
		if e.Object != nil {
			of := e.side() + key + e.Object.Namespace + "/" + e.Object.Name
			repeated[of]++
			if e.Object.Name != "" && repeated[of] > 1 {
				key += fmt.Sprintf(" #%d", repeated[of])
			}
		}
		full := e.side() + " " + key
		sides[full] = [2]string{e.side(), key}
		times[full] = append(times[full], e.Answered.Sub(start))
		took[full] = append(took[full], e.Answered.Sub(e.Received))
	}
	for key, at := range times {
		r.stage(measurement, sides[key][0], sides[key][1], at, quantile(0.5)(took[key]))
	}
}

func (r *report) stage(measurement, side, what string, at []time.Duration, took time.Duration) {
	stages := r.Stages[measurement]
	i := slices.IndexFunc(stages, func(s stage) bool { return s.Side == side && s.What == what })
	if i < 0 {
		i = len(stages)
		stages = append(stages, stage{Side: side, What: what, all: map[string][]float64{}})
	}
	s := &stages[i]
	s.all["first"] = append(s.all["first"], inMilliseconds(slices.Min(at)))
	s.all["middle"] = append(s.all["middle"], inMilliseconds(quantile(0.5)(at)))
	s.all["last"] = append(s.all["last"], inMilliseconds(slices.Max(at)))
	s.all["took"] = append(s.all["took"], inMilliseconds(took))
	r.Stages[measurement] = stages
}

// cpuTime notes the CPU time that each process has used in a run.
func (r *report) cpuTime(measurement string, used map[string]time.Duration) {
	run := map[string]float64{}
	for name, d := range used {
		run[name] = d.Seconds()
	}
	r.CPU[measurement] = append(r.CPU[measurement], run)
}

// figures reports medians of what is not a time. The floors may be missing.
func (r *report) figures(what, unit string, values []float64, floor string, floors []float64) {
	figure := record.Figure{What: what, Unit: unit, Value: median(values), Values: values, Floor: floor, Floors: floors}
	if len(floors) > 0 {
		figure.FloorAt = median(floors)
		figure.Ratio = ratio(figure.Value, figure.FloorAt)
	}
	r.Rows = append(r.Rows, figure)
}

// p99Of is what the value may be called that 99 of 100 of n values do not exceed.
func p99Of(n int) string {
	if n < 100 {
		return fmt.Sprintf("slowest of %d", n)
	}
	return fmt.Sprintf("p99 of %d", n)
}

// details are what is no figure beside a floor.
func (r *report) details() any {
	return struct {
		Requests        []request                       `json:"requests,omitempty"`
		Reconciliations []float64                       `json:"reconciliations,omitempty"`
		Stages          map[string][]stage              `json:"stages,omitempty"`
		CPU             map[string][]map[string]float64 `json:"cpuSeconds,omitempty"`
		Memory          []weight                        `json:"memory,omitempty"`
		RestartWrites   map[string]int                  `json:"restartWrites,omitempty"`
		FirstWrites     map[string]int                  `json:"firstWrites,omitempty"`
		Further         []record.Figure                 `json:"furtherFigures,omitempty"`
		Output          []string                        `json:"output,omitempty"`
	}{r.Requests, r.Reconciliations, r.Stages, r.CPU, r.Memory, r.RestartWrites, r.FirstWrites, r.Further, r.Output}
}

// finish computes what follows from all runs.
func (r *report) finish() {
	for _, key := range slices.Sorted(maps.Keys(r.seen)) {
		r.Requests = append(r.Requests, *r.seen[key])
	}
	for _, stages := range r.Stages {
		for i := range stages {
			s := &stages[i]
			s.First, s.Middle, s.Last, s.Took = median(s.all["first"]), median(s.all["middle"]), median(s.all["last"]), median(s.all["took"])
		}
		slices.SortFunc(stages, func(a, b stage) int {
			if a.Middle != b.Middle {
				return int(math.Copysign(1, a.Middle-b.Middle))
			}
			return strings.Compare(a.Side+a.What, b.Side+b.What)
		})
	}
}

func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[(len(sorted)-1)/2]
}

// write writes the report as a table or as JSON.
func (r *report) write(out io.Writer, format string) error {
	r.finish()
	if format == "json" {
		encoder := json.NewEncoder(out)
		encoder.SetIndent("", "  ")
		return encoder.Encode(r)
	}
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	if r.MiniClusters > 0 {
		fmt.Fprintf(table, "%d MiniClusters, %d members, %d runs, ", r.MiniClusters, r.Members, r.Runs)
	}
	fmt.Fprintf(table, "%d CPUs\n\n", r.CPUs)
	r.writeRows(table)
	r.writeRequests(table)
	for _, name := range slices.Sorted(maps.Keys(r.Stages)) {
		fmt.Fprintf(table, "\nSTAGES (%s)\tFIRST ms\tMIDDLE ms\tLAST ms\tANSWERED IN ms\n", name)
		for _, s := range r.Stages[name] {
			fmt.Fprintf(table, "%s: %s\t%.1f\t%.1f\t%.1f\t%.1f\n", s.Side, s.What, s.First, s.Middle, s.Last, s.Took)
		}
	}
	r.writeCPU(table)
	return table.Flush()
}

func (r *report) writeRows(out io.Writer) {
	fmt.Fprintln(out, "MEASURE\t\tFLOOR\t\tRATIO")
	for i := range r.Rows {
		row := &r.Rows[i]
		what, unit := row.What, row.Unit
		if row.Statistic != "" {
			what, unit = what+", "+row.Statistic, "ms"
		}
		if row.Floor == "" {
			fmt.Fprintf(out, "%s\t%.1f %s\n", what, row.Value, unit)
			continue
		}
		fmt.Fprintf(out, "%s\t%.1f %s\t%s\t%.1f\t%.2f\n", what, row.Value, unit, row.Floor, row.FloorAt, row.Ratio)
	}
	if len(r.Counts) > 0 {
		fmt.Fprintln(out, "\nCOUNT\tMOST")
	}
	for _, row := range r.Counts {
		fmt.Fprintf(out, "%s\t%g\n", row.What, row.Value)
	}
	for _, what := range slices.Sorted(maps.Keys(r.RestartWrites)) {
		fmt.Fprintf(out, "  in all restarts, %s\t%d\n", what, r.RestartWrites[what])
	}
	if len(r.Memory) == 0 {
		return
	}
	fmt.Fprintln(out, "\nCONTROLLER WITH\tRSS MiB\tHEAP IN USE MiB\tLIVE MiB\tGOROUTINES")
	for _, w := range r.Memory {
		live := ""
		if w.Live > 0 {
			live = fmt.Sprintf("%.1f", w.Live)
		}
		fmt.Fprintf(out, "%s\t%.1f\t%.1f\t%s\t%.0f\n", w.When, w.RSS, w.Heap, live, w.Goroutines)
	}
}

func (r *report) writeRequests(out io.Writer) {
	if len(r.Reconciliations) == 0 {
		return
	}
	fmt.Fprintln(out, "\nREQUESTS FOR ONE MINICLUSTER\tUNTIL THE LAST JOB\tAFTER\tTOGETHER")
	sum := map[string]float64{}
	for _, q := range r.Requests {
		fmt.Fprintf(out, "%s: %s\t%.3f\t%.3f\t%.3f\n", q.Side, q.What, q.Before, q.After, q.Before+q.After)
		sum[q.Side] += q.Before + q.After
	}
	for _, side := range slices.Sorted(maps.Keys(sum)) {
		fmt.Fprintf(out, "%s: all\t\t\t%.3f\n", side, sum[side])
	}
	fmt.Fprintf(out, "reconciliations\t\t\t%.3f\n", median(r.Reconciliations))
}

func (r *report) writeCPU(out io.Writer) {
	for _, measurement := range slices.Sorted(maps.Keys(r.CPU)) {
		fmt.Fprintf(out, "\nCPU TIME OF ONE RUN (%s)\tSECONDS\n", measurement)
		used := map[string]float64{}
		for _, run := range r.CPU[measurement] {
			for name, seconds := range run {
				used[name] += seconds / float64(len(r.CPU[measurement]))
			}
		}
		for _, name := range slices.Sorted(maps.Keys(used)) {
			if used[name] >= 0.01 {
				fmt.Fprintf(out, "%s\t%.2f\n", name, used[name])
			}
		}
	}
}
