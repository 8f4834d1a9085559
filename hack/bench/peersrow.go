package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/minifleet/minifleet/hack/bench/record"
)

// peersFolder is the program that measures peers, below the root.
const peersFolder = "hack/bench/peers/cmd"

// peersTable is what that program says, as far as it is compared here.
type peersTable struct {
	MiniClusters int `json:"miniClusters"`
	Rows         []struct {
		Name          string   `json:"name"`
		Title         string   `json:"title"`
		Version       string   `json:"version"`
		NotComparable string   `json:"notComparable"`
		Missing       []string `json:"missing"`
		Commands      []string `json:"commands"`
		Failures      []string `json:"failures"`
		Measurements  []struct {
			Last    float64  `json:"lastReleased"`
			CPU     peersCPU `json:"cpuSeconds"`
			Servers peersCPU `json:"serverCPUSeconds"`
			RSS     float64  `json:"rssMiB"`
		} `json:"measurements"`
	} `json:"rows"`
}

type peersCPU struct {
	Quiet float64 `json:"untilQuiet"`
}

// besidePeers measures MiniFleet beside what people would pick instead, as far as their programs are there.
func besidePeers(ctx context.Context, s *session, o options) error {
	_, err := os.Stat(filepath.Join(s.root, peersFolder))
	if errors.Is(err, os.ErrNotExist) {
		s.skip("%s is not in this tree", peersFolder)
		return nil
	}
	if err != nil {
		return err
	}
	if s.short {
		s.skip("peers are programs of their own, and take minutes")
		return nil
	}
	for _, n := range o.counts {
		table, raw, err := s.runPeers(ctx, n, o.runs)
		s.report.Output = append(s.report.Output, raw)
		if table == nil {
			return err
		}
		figures, notes := peerFigures(table)
		s.report.Rows = append(s.report.Rows, figures...)
		for _, note := range notes {
			s.skip("%s", note)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// runPeers runs the program that measures them, which says itself what is missing.
func (s *session) runPeers(ctx context.Context, n, runs int) (*peersTable, string, error) {
	folder := s.folder("peers")
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return nil, "", err
	}
	binary := filepath.Join(folder, "bench-peers")
	build := exec.CommandContext(ctx, "go", "build", "-C", filepath.Join(s.root, "hack", "bench"), "-o", binary, "./peers/cmd")
	if output, err := build.CombinedOutput(); err != nil {
		return nil, "", fmt.Errorf("%w: %s", err, output)
	}
	command := exec.CommandContext(ctx, binary, "-n", strconv.Itoa(n), "-warm-up", strconv.Itoa(min(n, 10)), "-runs", strconv.Itoa(runs), "-binary", s.options.binary, "-o", "json")
	command.Dir = s.root
	command.Cancel = func() error { return command.Process.Signal(os.Interrupt) } // it stops what it has started
	command.Stderr = s.progress.out
	output, err := command.Output()
	table := &peersTable{}
	if unreadable := json.Unmarshal(output, table); unreadable != nil {
		return nil, string(output), errors.Join(err, unreadable)
	}
	return table, string(output), err
}

// peerFigures compare MiniFleet with each of the others, and notes tell who is not measured.
func peerFigures(t *peersTable) (figures []record.Figure, notes []string) {
	values := func(i int) (times, cpu, memory []float64) {
		for _, m := range t.Rows[i].Measurements {
			times, cpu, memory = append(times, m.Last*1000), append(cpu, (m.CPU.Quiet+m.Servers.Quiet)*1000/float64(t.MiniClusters)), append(memory, m.RSS)
		}
		return times, cpu, memory
	}
	ours := -1
	for i := range t.Rows {
		if t.Rows[i].Name == "minifleet" {
			ours = i
		}
	}
	for i := range t.Rows {
		row := &t.Rows[i]
		if len(row.Measurements) == 0 {
			notes = append(notes, strings.TrimSpace(fmt.Sprintf("%s: %s %s %s", row.Title, row.NotComparable, strings.Join(row.Failures, "; "), strings.Join(append(row.Missing, row.Commands...), "; "))))
			continue
		}
		if ours < 0 || len(t.Rows[ours].Measurements) == 0 || i == ours && len(t.Rows) > 1 {
			continue
		}
		ourTimes, ourCPU, ourMemory := values(ours)
		times, cpu, memory := values(i)
		beside := strings.TrimSpace(row.Title + " " + row.Version)
		figures = append(figures,
			comparison(fmt.Sprintf("%d MiniClusters, push to the last Job released, beside %s", t.MiniClusters, row.Title), "ms", ourTimes, beside, times),
			comparison(fmt.Sprintf("CPU time for one of %d MiniClusters, with the servers', beside %s", t.MiniClusters, row.Title), "ms", ourCPU, beside, cpu),
			comparison(fmt.Sprintf("RSS with %d MiniClusters, beside %s", t.MiniClusters, row.Title), "MiB", ourMemory, beside, memory))
	}
	return figures, notes
}

// comparison is a figure beside somebody else's, by medians.
func comparison(what, unit string, ours []float64, whose string, theirs []float64) record.Figure {
	f := record.Figure{What: what, Unit: unit, Value: median(ours), Values: ours, Floor: whose, FloorAt: median(theirs), Floors: theirs}
	f.Ratio = ratio(f.Value, f.FloorAt)
	return f
}
