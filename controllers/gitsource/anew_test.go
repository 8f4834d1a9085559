package gitsource

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/controller-runtime/pkg/client"

	fluxv1alpha2 "github.com/minifleet/minifleet/api/flux/v1alpha2"
	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/gitsource/parse"
	"github.com/minifleet/minifleet/internal/changes"
	"github.com/minifleet/minifleet/internal/runs"
)

// running is what Git declares for a FleetMiniCluster that runs a command.
func running(name, command string) parse.Object {
	f := &v1alpha1.FleetMiniCluster{}
	f.Spec.MiniCluster.Containers = []fluxv1alpha2.MiniClusterContainer{{Image: "app", Command: command}}
	return parse.Object{Kind: parse.KindFleetMiniCluster, Name: name, Path: name + ".yaml", FleetMiniCluster: f}
}

// applyRunning is what the hub has of that.
func applyRunning(name, command string) *v1alpha1.FleetMiniCluster {
	o := running(name, command)
	obj, _ := changes.Desired(newSource(), &o)
	f := obj.(*v1alpha1.FleetMiniCluster)
	f.UID, f.ResourceVersion = "uid", "7"
	return f
}

// ranFor adds a run for a command to the ledger of a FleetMiniCluster.
func ranFor(f *v1alpha1.FleetMiniCluster, command, token string, state v1alpha1.RunState) {
	digest := runs.Digest(f.Name, &applyRunning(f.Name, command).Spec.MiniCluster)
	f.Status.Runs = append(f.Status.Runs, v1alpha1.Run{ID: fmt.Sprint(len(f.Status.Runs)), Cluster: "alpine", Digest: digest, RerunAt: token, State: state})
}

// A commit that would run many anew updates everything but those, until it is approved or taken back.
func TestApplyAsksBeforeManyRunAnew(t *testing.T) {
	const ran, idle = "FleetMiniCluster/ran-%d", "FleetMiniCluster/idle"
	placement := parse.Object{Kind: parse.KindPlacement, Name: "p", Path: "p.yaml", Placement: &v1alpha1.Placement{}}
	objects := func(commands ...string) []parse.Object {
		out := []parse.Object{running("idle", "changed"), placement}
		for i, command := range commands {
			out = append(out, running(fmt.Sprintf("ran-%d", i), command))
		}
		return append(out, running("new", "new"))
	}
	for name, tc := range map[string]struct {
		commands []string
		approved string
		changed  []string
		blocked  []string
	}{
		"one":             {commands: []string{"two", "one", "one"}, changed: []string{"Placement/p", idle, fmt.Sprintf(ran, 0), "FleetMiniCluster/new"}},
		"all":             {commands: []string{"two", "two", "two"}, changed: []string{"Placement/p", idle, "FleetMiniCluster/new"}, blocked: []string{fmt.Sprintf(ran, 0), fmt.Sprintf(ran, 1), fmt.Sprintf(ran, 2)}},
		"all, approved":   {commands: []string{"two", "two", "two"}, approved: fullCommit, changed: []string{"Placement/p", idle, fmt.Sprintf(ran, 0), fmt.Sprintf(ran, 1), fmt.Sprintf(ran, 2), "FleetMiniCluster/new"}},
		"all, taken back": {commands: []string{"one", "one", "one"}, changed: []string{"Placement/p", idle, "FleetMiniCluster/new"}},
	} {
		t.Run(name, func(t *testing.T) {
			onTheHub := []client.Object{applyRunning("idle", "one")}
			for i := range 3 {
				f := applyRunning(fmt.Sprintf("ran-%d", i), "one")
				ranFor(f, "one", "", v1alpha1.RunSucceeded)
				onTheHub = append(onTheHub, f)
			}
			for _, o := range onTheHub {
				o.SetResourceVersion("")
			}
			r := &Reconciler{Client: newHub(t, onTheHub...)}
			have, err := readHub(t.Context(), r.Client, "hpc")
			if err != nil {
				t.Fatal(err)
			}
			source := newSource()
			source.Annotations = map[string]string{v1alpha1.AnnotationApproveRuns: tc.approved}
			got, err := applyTree(t, r.Client, source, treeOf(objects(tc.commands...)...), have)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(applied{changed: tc.changed, blocked: tc.blocked}, got, cmp.AllowUnexported(applied{})); diff != "" {
				t.Errorf("applied (-want +got):\n%s", diff)
			}
		})
	}
}
