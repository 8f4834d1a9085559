package main

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	fluxv1alpha2 "github.com/minifleet/minifleet/api/flux/v1alpha2"
	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/hack/lab"
)

func TestRowsAreChosenByTheirWholeNames(t *testing.T) {
	o := options{size: size{n: 1, runs: 1, singles: 1, doubles: 1, strangers: 1}, output: "table", rows: "single,restart"}
	if !o.valid() || !o.has("restart") || o.has("rest") || o.has(restingRows) {
		t.Errorf("%+v: restart is not rest", o)
	}
	if o.rows = "single,sleep"; o.valid() {
		t.Error("there is no row sleep")
	}
}

func TestRestingRequestsTellWatchesApart(t *testing.T) {
	bare := strings.Replace(endOfWatch, "minifleet", benchAgent, 1)
	ours, floor, others := restingRequests(append(
		parsed(t, observed, endOfWatch, endOfWatch, createJob, bare, strings.Replace(createJob, "minifleet", benchAgent, 1)),
		parsed(t, hubName, endOfWatch)...))
	got := []map[string]float64{ours, floor, others}
	want := []map[string]float64{{observed: 3, hubName: 1}, {observed: 1}, {"members: create jobs": 1}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
}

func TestSteeredIsAMiniCluster(t *testing.T) {
	var mc fluxv1alpha2.MiniCluster
	if err := yaml.UnmarshalStrict([]byte(steered("a", othersName, 7)), &mc); err != nil {
		t.Fatal(err)
	}
	if mc.Name != "a" || mc.Labels[v1alpha1.LabelPlacement] != othersName || mc.Spec.Pod.Annotations[lab.AskSeconds] != "7" {
		t.Errorf("%+v", mc)
	}
}
