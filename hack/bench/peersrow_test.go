package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/minifleet/minifleet/hack/bench/record"
)

func TestPeersStandBesideMiniFleet(t *testing.T) {
	const output = `{"miniClusters": 10, "rows": [
		{"name": "minifleet", "title": "MiniFleet", "measurements": [{"lastReleased": 2, "cpuSeconds": {"untilQuiet": 0.5}, "serverCPUSeconds": {"untilQuiet": 1.5}, "rssMiB": 60}]},
		{"name": "other", "title": "Other", "version": "v1", "measurements": [{"lastReleased": 4, "cpuSeconds": {"untilQuiet": 2}, "serverCPUSeconds": {"untilQuiet": 2}, "rssMiB": 240}]},
		{"name": "absent", "title": "Absent", "missing": ["absent-controller"], "commands": ["build it"]}]}`
	table := &peersTable{}
	if err := json.Unmarshal([]byte(output), table); err != nil {
		t.Fatal(err)
	}
	figures, notes := peerFigures(table)
	want := []record.Figure{
		{What: "10 MiniClusters, push to the last Job released, beside Other", Unit: "ms", Value: 2000, Values: []float64{2000}, Floor: "Other v1", FloorAt: 4000, Floors: []float64{4000}, Ratio: 0.5},
		{What: "CPU time for one of 10 MiniClusters, with the servers', beside Other", Unit: "ms", Value: 200, Values: []float64{200}, Floor: "Other v1", FloorAt: 400, Floors: []float64{400}, Ratio: 0.5},
		{What: "RSS with 10 MiniClusters, beside Other", Unit: "MiB", Value: 60, Values: []float64{60}, Floor: "Other v1", FloorAt: 240, Floors: []float64{240}, Ratio: 0.25},
	}
	if diff := cmp.Diff(want, figures); diff != "" {
		t.Error(diff)
	}
	if len(notes) != 1 || !strings.Contains(notes[0], "absent-controller") {
		t.Errorf("%q: it is not said what is missing", notes)
	}
}
