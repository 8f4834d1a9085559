package main

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/minifleet/minifleet/hack/bench/record"
	"github.com/minifleet/minifleet/hack/lab"
)

func TestPackagesWithBenchmarksAreFound(t *testing.T) {
	root, err := lab.RepositoryRoot()
	if err != nil {
		t.Fatal(err)
	}
	found, err := packagesWith(root, "func BenchmarkCheck(")
	if diff := cmp.Diff([]string{"internal/fit"}, found); err != nil || diff != "" {
		t.Errorf("%v: %s", err, diff)
	}
}

func TestBenchmarksStandBesideTheirFloors(t *testing.T) {
	const output = `goos: linux
pkg: github.com/minifleet/minifleet/internal/plan
cpu: some CPU
BenchmarkPlacement/floor-2         	    1000	   1000000 ns/op	         1.1 cpu-ms/op	         0 odd	       0 B/op	       0 allocs/op
BenchmarkPlacement/floor-2         	    1000	   3000000 ns/op
BenchmarkPlacement/most_room-2     	     100	   2000000 ns/op	  10 B/op	       1 allocs/op
BenchmarkPlacement/most_room-2     	     100	   4000000 ns/op	  10 B/op	       1 allocs/op
BenchmarkPlacement/most_room-2     	     100	   5000000 ns/op	  10 B/op	       1 allocs/op
PASS
ok  	github.com/minifleet/minifleet/internal/plan	1.0s
pkg: github.com/minifleet/minifleet/internal/fit
BenchmarkCheck/Check 	     100	   500000 ns/op
`
	want := []record.Figure{
		{What: "plan.Placement/most room", Unit: "ms", Value: 4, Values: []float64{2, 4, 5}, Floor: "its floor", FloorAt: 1, Floors: []float64{1, 3}, Ratio: 4},
		{What: "fit.Check/Check", Unit: "ms", Value: 0.5, Values: []float64{0.5}},
	}
	if diff := cmp.Diff(want, goFigures(parseGoBench([]byte(output)))); diff != "" {
		t.Error(diff)
	}
}
