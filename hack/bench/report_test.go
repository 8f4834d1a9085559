package main

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestQuantileIsOneOfTheValues(t *testing.T) {
	values := []time.Duration{40, 10, 30, 20}
	for name, c := range map[string]struct {
		q      float64
		values []time.Duration
		want   time.Duration
	}{
		"median of an even number": {q: 0.5, values: values, want: 20},
		"median of an odd number":  {q: 0.5, values: values[:3], want: 30},
		"nearly all":               {q: 0.99, values: values, want: 40},
		"of one":                   {q: 0.5, values: values[:1], want: 40},
		"of none":                  {q: 0.5, want: 0},
	} {
		t.Run(name, func(t *testing.T) {
			if got := quantile(c.q)(c.values); got != c.want {
				t.Errorf("quantile = %d, want %d", got, c.want)
			}
		})
	}
}

func parsed(t *testing.T, cluster string, lines ...string) []event {
	t.Helper()
	var events []event
	for _, line := range lines {
		e := event{cluster: cluster}
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatal(err)
		}
		events = append(events, e)
	}
	return events
}

func TestRequestsAreCountedForOneMiniCluster(t *testing.T) {
	r := newReport(options{size: size{n: 2, runs: 2}})
	strangers := strings.Replace(createJob, "minifleet", "bench", 1)
	for range 2 { // runs
		r.tally(2, false, parsed(t, "alpine", createJob, createJob, strangers), parsed(t, hubName, lostRace))
	}
	r.finish()
	want := []request{
		{MiniClusters: 2, Side: "hub", What: "update fleetminiclusters/status (409)", After: 0.5},
		{MiniClusters: 2, Side: "members", What: "create jobs", Before: 1},
	}
	if diff := cmp.Diff(want, r.Requests); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
}

func TestStagesTellRepeatedRequestsApart(t *testing.T) {
	start := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	events := parsed(t, hubName, createJob, lostRace, lostRace)
	for i := range events {
		events[i].Received = start.Add(time.Duration(10*i) * time.Millisecond)
		events[i].Answered = events[i].Received.Add(4 * time.Millisecond)
	}
	r := newReport(options{size: size{n: 1, runs: 1}})
	r.stages("x", start, events)
	r.finish()
	var got []string
	for _, s := range r.Stages["x"] {
		got = append(got, s.What)
		if s.Took != 4 {
			t.Errorf("%s was answered in %g ms, want 4", s.What, s.Took)
		}
	}
	want := []string{"create jobs", "update fleetminiclusters/status (409)", "update fleetminiclusters/status (409) #2"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("stages (-want +got):\n%s", diff)
	}
}
