package main

import (
	"fmt"
	"strings"
	"time"
)

// manyRun is one run of many MiniClusters at once: of the controller, or of the bare loop.
type manyRun struct {
	// created is the time to the last Job, released that to the last Job that may start.
	created, released time.Duration
	// cpu is the CPU time of each process until nothing happened any more.
	cpu map[string]time.Duration
	// requests are those for one MiniCluster, by side.
	requests map[string]float64
}

// manyRuns are runs in turns.
type manyRuns struct {
	pushes, floors []manyRun
	// same are bare loops with the same requests.
	same []manyRun
}

// parts of the CPU time. The bare loop is part of the bench's process, which has nothing else to do then.
var parts = []struct {
	what    string
	of      func(process string) bool
	ofFloor func(process string) bool
	floor   string
}{
	{"controller, API servers and etcd", or(isController, isServer), or(isBench, isServer), "bare create loop, API servers and etcd"},
	{"controller", isController, isBench, "bare create loop"},
	{"API servers and etcd", isServer, isServer, "the same in the bare create loop"},
	{"members' API servers", isMember, isMember, "the same in the bare create loop"},
	{"hub's API server", isHub, nil, ""},
}

func isController(process string) bool { return process == "minifleet" }
func isBench(process string) bool      { return process == benchProcess }
func isHub(process string) bool        { return process == hubName+"-apiserver" }
func isMember(process string) bool {
	return strings.HasSuffix(process, "-apiserver") && !isHub(process)
}
func isServer(process string) bool { return isHub(process) || isMember(process) || process == "etcd" }

func or(a, b func(string) bool) func(string) bool {
	return func(process string) bool { return a(process) || b(process) }
}

// report reports runs of n MiniClusters.
func (m *manyRuns) report(r *report, n int, members string, jobsRun bool) {
	how := jobControllers(jobsRun)
	at := fmt.Sprintf("%d MiniClusters onto %s%s, push to the last Job", n, members, how)
	r.row(at+" created", "p50", times(m.pushes, createdTime), "bare create loop", times(m.floors, createdTime), quantile(0.5))
	r.row(at+" released", "p50", times(m.pushes, releasedTime), "bare create loop", times(m.floors, createdTime), quantile(0.5))
	const all = "bare loop with the same requests"
	r.row(fmt.Sprintf("%d MiniClusters onto %s%s, all requests until the last release", n, members, how), "p50", times(m.pushes, releasedTime), all, times(m.same, createdTime), quantile(0.5))
	r.figures(fmt.Sprintf("CPU time for one of %d MiniClusters%s: beside the same requests", n, how), "ms", cpuEach(m.pushes, n, or(isController, isServer)), all, cpuEach(m.same, n, or(isBench, isServer)))
	for _, part := range parts {
		what := fmt.Sprintf("CPU time for one of %d MiniClusters%s: %s", n, how, part.what)
		floor, floors := part.floor, []float64(nil)
		if part.ofFloor != nil {
			floors = cpuEach(m.floors, n, part.ofFloor)
		}
		if len(floors) > 0 && median(floors) == 0 { // so few take less than the clock ticks
			floor, floors = "", nil
		}
		r.figures(what, "ms", cpuEach(m.pushes, n, part.of), floor, floors)
	}
	for _, side := range []string{"hub", "members"} {
		var values []float64
		for _, run := range m.pushes {
			values = append(values, run.requests[side])
		}
		r.figures(fmt.Sprintf("requests to the %s for one of %d MiniClusters%s", side, n, how), "", values, "", nil)
	}
	for i := range m.pushes {
		r.cpuTime(fmt.Sprintf("minifleet, %d MiniClusters%s", n, how), m.pushes[i].cpu)
		r.cpuTime(fmt.Sprintf("bare create loop, %d MiniClusters%s", n, how), m.floors[i].cpu)
	}
}

// jobControllers says that they run.
func jobControllers(run bool) string {
	if run {
		return ", Job controllers running"
	}
	return ""
}

func createdTime(run manyRun) time.Duration  { return run.created }
func releasedTime(run manyRun) time.Duration { return run.released }

func times(runs []manyRun, what func(manyRun) time.Duration) []time.Duration {
	var out []time.Duration
	for _, run := range runs {
		out = append(out, what(run))
	}
	return out
}

// cpuEach is the CPU time of some processes for one of n MiniClusters, in milliseconds, of each run.
func cpuEach(runs []manyRun, n int, counts func(process string) bool) []float64 {
	var out []float64
	for _, run := range runs {
		sum := time.Duration(0)
		for process, used := range run.cpu {
			if counts(process) {
				sum += used
			}
		}
		out = append(out, inMilliseconds(sum)/float64(n))
	}
	return out
}

// cpuBetween is what each process has used between two readings.
func cpuBetween(before, after map[string]time.Duration) map[string]time.Duration {
	used := map[string]time.Duration{}
	for name, at := range after {
		used[name] = at - before[name]
	}
	return used
}

// requestsBySide are the controller's requests for one of n MiniClusters.
func requestsBySide(events []event, n int) map[string]float64 {
	out := map[string]float64{}
	for i := range events {
		if e := &events[i]; e.minifleet() {
			out[e.side()] += 1 / float64(n)
		}
	}
	return out
}
