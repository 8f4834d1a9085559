package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/minifleet/minifleet/hack/lab"
)

// clockTick is the unit of CPU time in /proc/PID/stat; it is the same on every Linux that Go runs on.
const clockTick = time.Second / 100

// benchProcess is this process: the bare loops, and the Git server.
const benchProcess = "bench and Git"

// cpu returns the CPU time that each process has used so far, by name; Git's own processes are not in it.
func (f *fleet) cpu() (map[string]time.Duration, error) {
	pids, err := lab.Running(filepath.Join(f.dir, "lab", "pids"))
	if err != nil {
		return nil, err
	}
	pids["minifleet"], pids[benchProcess] = f.controller.Pid(), os.Getpid()
	used := map[string]time.Duration{}
	for name, pid := range pids {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			return nil, err
		}
		if used[name], err = cpuTime(string(stat)); err != nil {
			return nil, err
		}
	}
	return used, nil
}

// cpuTime reads user and system time from a /proc/PID/stat: its fields 14 and 15.
func cpuTime(stat string) (time.Duration, error) {
	// The second field is a name in brackets, which may hold anything.
	_, rest, _ := strings.Cut(stat[strings.LastIndexByte(stat, ')')+1:], " ")
	fields := strings.Fields(rest)
	if len(fields) < 13 {
		return 0, fmt.Errorf("not a line of /proc/PID/stat: %q", stat)
	}
	user, err := strconv.ParseInt(fields[11], 10, 64)
	if err != nil {
		return 0, err
	}
	system, err := strconv.ParseInt(fields[12], 10, 64)
	return time.Duration(user+system) * clockTick, err
}

// memory returns what the controller holds in RAM, in MiB.
func (f *fleet) memory() (float64, error) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", f.controller.Pid()))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(status)) {
		if value, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			kib, err := strconv.ParseFloat(strings.Fields(value)[0], 64)
			return kib / 1024, err
		}
	}
	return 0, fmt.Errorf("process %d has no VmRSS", f.controller.Pid())
}

// metrics asks the controller for its metrics.
func (f *fleet) metrics(ctx context.Context) (metrics, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, f.metricsURL, http.NoBody)
	if err != nil {
		return "", err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return "", err
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	return metrics(body), err
}

// metrics is a page of metrics in the Prometheus text format.
type metrics string

// sum adds up the samples of a metric whose labels contain each of the given texts, e.g. `controller="x"`.
func (m metrics) sum(name string, labels ...string) float64 {
	total := 0.0
	for line := range strings.Lines(string(m)) {
		rest, ok := strings.CutPrefix(line, name)
		if !ok || rest[0] != '{' && rest[0] != ' ' {
			continue
		}
		at := strings.LastIndexByte(rest, ' ')
		value, err := strconv.ParseFloat(strings.TrimSpace(rest[at:]), 64)
		if err != nil || !containsAll(rest[:at], labels) {
			continue
		}
		total += value
	}
	return total
}

func containsAll(text string, parts []string) bool {
	for _, part := range parts {
		if !strings.Contains(text, part) {
			return false
		}
	}
	return true
}
