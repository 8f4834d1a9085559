package gitsource

import (
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/minifleet/minifleet/api/v1alpha1"
)

// The status names what waits for approval, for as long as it does.
func TestBlocked(t *testing.T) {
	source := newSource()
	reported := func(name string) [2][]string {
		reportOn(source, name)
		return [2][]string{source.Status.Prune, source.Status.RunsAnew}
	}
	prune, runs := []string{"FleetMiniCluster/b", "FleetMiniCluster/c"}, []string{"FleetMiniCluster/a", "FleetMiniCluster/b"}
	for _, step := range []struct {
		outcome string
		want    [2][]string
	}{
		{"applied", [2][]string{}},
		{"a prune that waits for approval", [2][]string{prune, nil}},
		{"a prune and runs that wait for approval", [2][]string{prune, runs}},
		{"a server that is down", [2][]string{prune, runs}}, // nothing new is known
		{"runs that wait for approval", [2][]string{nil, runs}},
		{"applied", [2][]string{}},
	} {
		if diff := cmp.Diff(step.want, reported(step.outcome)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", step.outcome, diff)
		}
	}
	many := applies("a")()
	for i := range v1alpha1.MaxBlocked + 1 {
		many.pruned.blocked = append(many.pruned.blocked, fmt.Sprint("FleetMiniCluster/", i))
	}
	setStatus(source, many, nil, noon)
	setStatus(source, progress{}, errors.New("etcd is down"), noon)
	if got := source.Status.Prune; len(got) != v1alpha1.MaxBlocked || got[0] != "FleetMiniCluster/0" {
		t.Errorf("got %d: %s, …", len(got), got[0])
	}
}
