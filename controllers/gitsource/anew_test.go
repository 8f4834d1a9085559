package gitsource

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/controller-runtime/pkg/client"

	fluxv1alpha2 "github.com/minifleet/minifleet/api/flux/v1alpha2"
	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/gitsource/parse"
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
	obj, _ := desired(newSource(), &o)
	f := obj.(*v1alpha1.FleetMiniCluster)
	f.UID, f.ResourceVersion = "uid", "7"
	return f
}

// ranFor adds a run for a command to the ledger of a FleetMiniCluster.
func ranFor(f *v1alpha1.FleetMiniCluster, command, token string, state v1alpha1.RunState) {
	digest := wantedRun(applyRunning(f.Name, command)).digest
	f.Status.Runs = append(f.Status.Runs, v1alpha1.Run{ID: fmt.Sprint(len(f.Status.Runs)), Cluster: "alpine", Digest: digest, RerunAt: token, State: state})
}

func TestWouldStartAnew(t *testing.T) {
	type object = v1alpha1.FleetMiniCluster
	succeeded := func(f *object) { ranFor(f, "one", "", v1alpha1.RunSucceeded) }
	failed := func(f *object) { ranFor(f, "one", "", v1alpha1.RunFailed) }
	live := func(f *object) { ranFor(f, "one", "", v1alpha1.RunRunning) }
	other := func(f *object) { ranFor(f, "two", "", v1alpha1.RunFailed) }
	otherSucceeded := func(f *object) { ranFor(f, "two", "", v1alpha1.RunSucceeded) }
	again := func(f *object) { ranFor(f, "one", "now", v1alpha1.RunSucceeded) }
	elastic := func(f *object) { f.Spec.MiniCluster.MaxSize = 9 }
	asked := func(f *object) { f.Annotations[v1alpha1.AnnotationRerunAt] = "now" }
	retrying := func(f *object) { f.Spec.Retries = 3 }
	suspended := func(f *object) { f.Spec.Suspend = true }
	resized := func(f *object) { f.Spec.MiniCluster.Size = 7 }
	placed := func(f *object) { f.Spec.PlacementRef = &v1alpha1.LocalReference{Name: "elsewhere"} }
	for name, tc := range map[string]struct {
		on     string // the command of what is on the hub
		have   []func(*object)
		in     string // the command of what Git declares
		change []func(*object)
		want   bool
	}{
		"it never ran":                         {on: "one", in: "two"},
		"it is as it was":                      {on: "one", have: []func(*object){succeeded}, in: "one"},
		"it succeeded, and changes":            {on: "one", have: []func(*object){succeeded}, in: "two", want: true},
		"it failed, and changes":               {on: "one", have: []func(*object){failed}, in: "two", want: true},
		"it is live, and changes":              {on: "one", have: []func(*object){live}, in: "two", want: true},
		"it is suspended, and changes":         {on: "one", have: []func(*object){live, suspended}, in: "two", want: true},
		"it succeeded as it comes to be":       {on: "two", have: []func(*object){succeeded, other}, in: "one"},
		"it failed as it comes to be":          {on: "two", have: []func(*object){failed, otherSucceeded}, in: "one", want: true},
		"it was edited, and has not run since": {on: "two", have: []func(*object){live}, in: "one"},
		"it moves elsewhere":                   {on: "one", have: []func(*object){succeeded}, in: "one", change: []func(*object){placed}},
		"it is to be retried":                  {on: "one", have: []func(*object){failed}, in: "one", change: []func(*object){retrying}},
		"it is suspended":                      {on: "one", have: []func(*object){live}, in: "one", change: []func(*object){suspended}},
		"it is resized":                        {on: "one", have: []func(*object){succeeded}, in: "one", change: []func(*object){resized}, want: true},
		"it becomes elastic":                   {on: "one", have: []func(*object){succeeded}, in: "one", change: []func(*object){elastic}, want: true},
		"Git asks for it again":                {on: "one", have: []func(*object){succeeded}, in: "one", change: []func(*object){asked}, want: true},
		"Git asks as a person has":             {on: "one", have: []func(*object){succeeded, asked}, in: "one", change: []func(*object){asked}},
		"Git asks for what has run":            {on: "one", have: []func(*object){succeeded, again}, in: "one", change: []func(*object){asked}},
	} {
		have, want := applyRunning("m", tc.on), applyRunning("m", tc.in)
		for _, change := range tc.have {
			change(have)
		}
		for _, change := range tc.change {
			change(want)
		}
		if got := wouldStartAnew(have, want); got != tc.want {
			t.Errorf("%s: %t, want %t", name, got, tc.want)
		}
	}
	if placement := (&v1alpha1.Placement{}); wouldStartAnew(placement, placement) {
		t.Error("a Placement runs")
	}
}

func TestRunsNeedApproval(t *testing.T) {
	for name, tc := range map[string]struct {
		approved       string
		anew, declared int
		want           bool
	}{
		"none":                    {declared: 9},
		"the only one":            {anew: 1, declared: 1},
		"one of two":              {anew: 1, declared: 2},
		"less than half":          {anew: 2, declared: 5},
		"half":                    {anew: 2, declared: 4, want: true},
		"all":                     {anew: 10, declared: 10, want: true},
		"all, by revision":        {approved: "main@0123456", anew: 10, declared: 10, want: true},
		"all, by commit":          {approved: fullCommit, anew: 10, declared: 10},
		"all, by another":         {approved: "main@fedcba9", anew: 10, declared: 10, want: true},
		"all, with part of a ref": {approved: "main", anew: 10, declared: 10, want: true},
	} {
		if got := runsNeedApproval(tc.approved, treeOf(), tc.anew, tc.declared); got != tc.want {
			t.Errorf("%s: %t, want %t", name, got, tc.want)
		}
	}
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
			have, err := r.readHub(t.Context(), "hpc")
			if err != nil {
				t.Fatal(err)
			}
			source := newSource()
			source.Annotations = map[string]string{v1alpha1.AnnotationApproveRuns: tc.approved}
			got, err := apply(t.Context(), r.Client, source, treeOf(objects(tc.commands...)...), have)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(applied{changed: tc.changed, blocked: tc.blocked}, got, cmp.AllowUnexported(applied{})); diff != "" {
				t.Errorf("applied (-want +got):\n%s", diff)
			}
		})
	}
}
